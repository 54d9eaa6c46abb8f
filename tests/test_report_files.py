"""Tables and figures of a report as files for a paper, and what accuracy costs."""

from __future__ import annotations

import io
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from PIL import Image

import snellen as sn
from report_runs import counted_runs
from snellen.api import Results
from snellen.cli import cli
from snellen.records import Estimate
from snellen.report.cost_scatter import cost_scatters
from snellen.report.drawing import ChartGroup, ChartMark, ChartPath
from snellen.report.heat_map import heat_map
from snellen.report.latex import latex_table, latex_text
from snellen.report.reported_runs import prepare_reported_runs
from snellen.report.table import AbsentCell, NumberCell, Table

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return counted_runs(tmp_path_factory.mktemp("counted") / "runs", models=3)


def test_a_table_is_set_in_latex_with_its_intervals_rules_and_notes() -> None:
    cell = NumberCell("share", Estimate(0.625, 0.02, 0.581, 0.667, 440), note="few & far")
    table = Table(
        "By 100% of models",
        ("benchmark", "a_b, generation", "a_b, likelihood"),
        (("x#1", cell, AbsentCell("no reply")), ("y", cell, cell)),
        notes=("Guessing gives 25%.",),
        spans=(("a_b", 2),),
    )
    assert latex_table(table).splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\caption{By 100\% of models}",
        r"\label{tab:by-100-of-models}",
        r"\begin{adjustbox}{max width=\textwidth}",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r" & \multicolumn{2}{c}{a\_b} \\",
        r"\cmidrule(lr){2-3}",
        r"benchmark & generation & likelihood \\",
        r"\midrule",
        r"x\#1 & 62.5\% {\scriptsize [58.1, 66.7] n=440}\textsuperscript{1} & ---\textsuperscript{2} \\",
        r"y & 62.5\% {\scriptsize [58.1, 66.7] n=440}\textsuperscript{1} & "
        r"62.5\% {\scriptsize [58.1, 66.7] n=440}\textsuperscript{1} \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{adjustbox}",
        r"\par\smallskip\footnotesize Guessing gives 25\%.\\ \textsuperscript{1}~few \& far\\ "
        r"\textsuperscript{2}~no reply",
        r"\end{table}",
    ]


def test_no_name_is_a_command_of_latex() -> None:
    shown = latex_text("\\input{/etc/passwd} $x_1^2$ 50% & #1 ~ <b>\n")
    assert not re.search(r"(?<!\\)[$&#_%~^<>]|\\input", shown)
    assert shown.startswith(
        r"\textbackslash{}input\{/etc/passwd\} \$x\_1\textasciicircum{}2\$ 50\% \& \#1"
    )


def test_what_notes_quote_is_set_in_typewriter_and_a_lone_backtick_stays_one() -> None:
    note = "`of parsed` excludes them; `snellen run --judge a_b` reads `them: it's `"
    table = Table("T", ("a", "b"), (("x", AbsentCell(note)),), notes=(note, "one ` alone --x"))
    quoted = r"\texttt{of parsed} excludes them; \texttt{snellen run -{}-judge a\_b} reads \texttt{them: it's }"
    alone = r"one \textasciigrave{} alone -{}-x"
    assert latex_table(table).splitlines()[-2] == (
        rf"\par\smallskip\footnotesize {quoted}\\ {alone}\\ \textsuperscript{{1}}~{quoted}"
    )
    assert latex_text("`a` b-c — d") == r"\textasciigrave{}a\textasciigrave{} b-c --- d"


def test_every_table_has_a_file_of_its_own_and_all_stand_in_one_report(
    results: Results, tmp_path: Path
) -> None:
    paths = results.latex_tables(tmp_path / "tables")
    whole = results.report(tmp_path / "all.tex").read_text("utf-8")
    assert len(paths) == len(set(paths)) == whole.count(r"\begin{tabular}") > 10
    assert (tmp_path / "tables" / "accuracy-by-benchmark.tex").read_text("utf-8").count(
        r"\toprule"
    ) == 1
    for path in paths:
        rows = [line for line in path.read_text("utf-8").splitlines() if line.endswith(r" \\")]
        widths = {
            len(re.findall(r"(?<!\\)&", line))
            + sum(int(n) - 1 for n in re.findall(r"\\multicolumn\{(\d+)\}", line))
            for line in rows
        }
        assert len(widths) == 1, path


def test_a_figure_is_a_file_without_the_page_and_has_its_legend_inside(
    results: Results, tmp_path: Path
) -> None:
    paths = results.figures(tmp_path / "figures")
    names = [path.stem for path in paths]
    assert {
        "benchmark-heat-map-generation",
        "benchmarks-likelihood",
        "cost-tokens-per-question",
    } <= set(names)
    for path in paths:
        text = path.read_text("utf-8")
        root = ElementTree.fromstring(text)
        assert "var(" not in text and "url(" not in text and "class=" in text
        left, top, width, height = map(float, root.attrib["viewBox"].split())
        assert (float(root.attrib["width"]), float(root.attrib["height"])) == (width, height)
        if not path.stem.startswith(("headline", "benchmark-heat", "dimension-heat")):
            keys = [
                one for one in root.iter(f"{SVG}text") if (one.text or "").startswith("vendor/")
            ]
            assert len(keys) >= 3 and top < 0 == left
            assert all(top < float(key.attrib["y"]) < 0 for key in keys[-3:])
    captions = (tmp_path / "figures" / "captions.txt").read_text("utf-8").splitlines()
    assert [line.partition(":")[0] for line in captions] == names
    assert not any("Point at" in line for line in captions), "paper does not answer"
    with pytest.raises(sn.DataError, match="format of figures is one of svg, png, pdf, not 'gif'"):
        results.figures(tmp_path, "gif")


def test_figures_are_drawn_as_png_and_pdf_too(results: Results, tmp_path: Path) -> None:
    pytest.importorskip("cairosvg", reason="waits for cairosvg")
    folders = [str(run.folder) for run in results.runs]
    words = [
        "report",
        *folders,
        "-o",
        str(tmp_path / "r.csv"),
        "--figures",
        str(tmp_path / "f"),
        "--tables",
    ]
    done = CliRunner().invoke(
        cli, [*words, str(tmp_path / "t"), "--figure-format", "png"], catch_exceptions=False
    )
    assert done.exit_code == 0 and re.search(r"\d+ figures: .*\n\d+ tables: ", done.output)
    picture = Image.open(
        io.BytesIO((tmp_path / "f" / "benchmarks-generation.png").read_bytes())
    ).convert("RGB")
    assert picture.width == 3 * 460
    colours = {colour for _, colour in picture.getcolors(1 << 24) or ()}
    # The colours of the first three series and the ground are there: the style was understood.
    assert {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x00, 0x9E, 0x73), (255, 255, 255)} <= colours
    [page] = [
        path
        for path in results.figures(tmp_path / "p", "pdf")
        if path.stem == "benchmarks-generation"
    ]
    assert page.read_bytes().startswith(b"%PDF-")


def test_the_front_is_drawn_through_its_points_and_these_alone_are_filled(results: Results) -> None:
    panels = cost_scatters(prepare_reported_runs(results.runs, results.rows))
    _, tokens, _ = panels
    assert [panel.title for panel in panels] == [
        "price of 1,000 questions",
        "tokens per question",
        "seconds per request",
    ]
    points = [shape for shape in tokens.drawing.shapes if isinstance(shape, ChartGroup)]
    # The model that says nothing is the cheapest; a dearer one is on the front only if it is right more often.
    found = [re.search(r"accuracy ([\d.]+)%.*question (\d+)", point.tooltip) for point in points]
    values = [(float(match[1]), float(match[2])) for match in found if match]
    assert len(values) == len(points) == 3
    best = [
        not any(a >= one[0] and c <= one[1] and (a, c) != one for a, c in values) for one in values
    ]
    marks = [shape for point in points for shape in point.shapes if isinstance(shape, ChartMark)]
    assert (
        [not mark.is_hollow for mark in marks]
        == best
        == [point.tooltip.endswith("front") for point in points]
    )
    [front] = [shape for shape in tokens.drawing.shapes if isinstance(shape, ChartPath)]
    filled = [(mark.x, mark.y) for mark in marks if not mark.is_hollow]
    assert set(filled) <= set(front.points)
    assert all(
        a[0] <= b[0] and a[1] >= b[1] for a, b in zip(front.points, front.points[1:], strict=False)
    )


def test_a_heat_map_tints_by_its_scale_and_leaves_out_what_was_not_measured() -> None:
    grid = {
        ("a", "m"): Estimate(0.0, 0.1, 0.0, 0.2, 9),
        ("a", "n"): Estimate(1.0, 0.1, 0.8, 1.0, 9),
    }
    drawn = heat_map(
        "t", ["a", "b"], ["m", "n"], grid, "share", digits=0, factor=100.0, ends=(0.0, 1.0)
    )
    cells = [shape for shape in drawn.shapes if isinstance(shape, ChartGroup)]
    assert [cell.tooltip for cell in cells] == [
        "a, m: 0.0% [0.0, 20.0] n=9",
        "a, n: 100.0% [80.0, 100.0] n=9",
    ]
    assert [getattr(cell.shapes[0], "opacity", None) for cell in cells] == pytest.approx(
        [0.06, 0.62]
    )
    assert [getattr(cell.shapes[1], "content", None) for cell in cells] == ["0", "100"]
