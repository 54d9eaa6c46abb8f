"""Declared analyses: they give what the paper prints, runs join by their cards, and strangers bring their own."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from statistics import fmean

import pytest
from click.testing import CliRunner

import mmbench_rows
import small
import snellen as sn
from snellen.building.builder import build_benchmark
from snellen.catalogue import add_suites, entries
from snellen.cli import cli
from snellen.errors import DataError, UnknownNameError
from snellen.report.drawing import ChartGroup, ChartPath
from snellen.report.reported_runs import ReportedRun, prepare_reported_runs
from snellen.suites.mmbench import taxonomy
from snellen_lab.analyses.declaration import analyses, find_analysis
from snellen_lab.analyses.model_groups import number_class
from snellen_lab.analyses.outcome import AnalysisOutcome, compute_analysis, write_analysis
from snellen_lab.papers.printed_tables import paper_of

MEASURED = (
    "lvlm-ehub/capabilities",
    "reform-eval/number-of-options",
    "reform-eval/option-preference",
)
"""What only runs have."""
PRINTED = {
    "connections": 28, "held-out-connections": 28, "coco-as-published": 24, "format-hits-short": 18, "held-out": 32,
    "held-out-dimensions": 224, "instability-sources": 4, "instructions": 2,
}  # fmt: skip


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNELLEN_SUITES", "")


def published(name: str) -> AnalysisOutcome:
    return compute_analysis(find_analysis(name))


def views_of(model: str, *protocols: str, limit: int = 8) -> list[ReportedRun]:
    results = sn.evaluate(model, "eyechart/colour", protocols, limit=limit)
    return prepare_reported_runs(results.runs, results.rows)


def measured(measure: str, reported_runs: list[ReportedRun]) -> dict[tuple[str, str], float]:
    Path("mine.toml").write_text(f'title = "Mine"\nvalues = [{{ measure = "{measure}" }}]\n')
    rows = compute_analysis(find_analysis("mine.toml"), reported_runs).rows
    return {(row.method, row.quantity): row.estimate.value or 0.0 for row in rows}


# --- published -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in analyses() if name not in MEASURED])
def test_every_analysis_of_a_paper_gives_numbers_and_differs_from_print_only_by_known_misprints(
    name: str,
) -> None:
    outcome = published(name)
    assert outcome.rows and [check.printed.location for check in outcome.unexplained] == []
    assert len(outcome.checks) == PRINTED.get(name.rpartition("/")[2], 0)


def test_connections_are_those_of_table_2_by_generation() -> None:
    checks = [
        check for check in published("connections").checks if check.row.method == "generation"
    ]
    assert len(checks) == 14 and all(check.agrees for check in checks)
    cells = {
        (cell.model, cell.column): float(cell.value or 0)
        for cell in paper_of("reform-eval").values("1")[:128]
    }
    linear = [
        cells[model, column]
        for model in ("LLaVA_V", "LLaVA_L2", "Shikra")
        for column in ("CG", "FG", "STP")
    ]
    [row] = [
        c.row
        for c in checks
        if c.row.groups == ("ViT-L", "Linear") and c.row.quantity == "Perception"
    ]
    assert row.estimate.value == pytest.approx(fmean(linear)) and row.models == 3
    # Student's t with two degrees of freedom.
    means = [fmean(linear[i : i + 3]) for i in (0, 3, 6)]
    spread = math.sqrt(sum((mean - fmean(means)) ** 2 for mean in means) / 2 / 3)
    assert row.estimate.high == pytest.approx(fmean(means) + 4.302653 * spread, abs=1e-4)


def test_a_figure_that_the_paper_prints_otherwise_and_nobody_knows_of_is_found() -> None:
    text = Path(str(analyses_folder() / "format-hits-short.toml")).read_text()
    Path("wrong.toml").write_text(
        'suite = "reform-eval"\n'
        + text.replace('["22:*"]', '["25:*"]').replace(
            'groups = ["model"]',
            'groups = ["model"]\ncolumns = { Generation = "Hit Rate" }'.replace("\n", ", "),
        )
    )
    outcome = published("wrong.toml")
    assert len(outcome.unexplained) == 9 and len(outcome.check_table.rows) == 9


def analyses_folder() -> Path:
    import snellen.suites.reform_eval as suite

    return Path(suite.__file__).parent / "analyses"


def test_likelihood_minus_generation_is_taken_model_by_model() -> None:
    rows = {(row.groups, row.quantity): row for row in published("generation-likelihood").rows}
    flan = rows[("FlanT5", "frozen"), "CG"]
    assert (
        flan.estimate.value == pytest.approx(((60.7 - 69.4) + (60.4 - 71.2)) / 2)
        and flan.method == ""
    )


def test_quartiles_are_over_each_model_on_each_of_57_benchmarks() -> None:
    rows = {(row.groups, row.method): row for row in published("visual-tokens").rows}
    assert rows[("up to 10",), "generation"].estimate.n == 3 * 57
    assert (
        rows[("up to 10",), "likelihood"].estimate.n == 3 * 42
    )  # none of the fifteen text benchmarks
    assert [number_class(x, (10, 32)) for x in (10, 11, 33)] == ["up to 10", "> 10 to 32", "> 32"]


# --- runs ----------------------------------------------------------------------------------------------------------


def test_what_only_runs_have_asks_for_runs() -> None:
    with pytest.raises(DataError, match="name runs"):
        published("option-preference")


def test_a_model_that_always_names_the_first_option_prefers_its_place() -> None:
    found = measured("option positions", views_of("snellen:always-a", "vanilla"))
    shown = len(found)
    assert found["generation", f"A of {shown}"] == pytest.approx(100 - 100 / shown)
    assert found["generation", f"B of {shown}"] == pytest.approx(-100 / shown)


def test_instability_of_a_model_that_names_the_first_option_comes_from_the_order() -> None:
    protocols = [
        f"instability?m=4&perturb={what}&in_context=false" for what in ("order", "template")
    ]
    found = measured("perturbations", views_of("snellen:always-a", *protocols))
    assert (
        found["generation", "Option Order"] == pytest.approx(math.log(4))
        and found["generation", "Instruct"] == 0
    )


def test_a_run_stands_beside_a_list_of_the_papers_models() -> None:
    reported_runs = views_of("snellen:always-a", "instability?m=4&perturb=order&in_context=false")
    rows = {
        (row.groups, row.quantity): row
        for row in compute_analysis(find_analysis("instability-sources"), reported_runs).rows
    }
    assert rows[("snellen:always-a",), "Option Order"].estimate.value == pytest.approx(math.log(4))
    assert rows[("Average",), "Option Order"].models == 16


def test_format_hits_and_numbers_of_options_are_measured() -> None:
    reported_runs = views_of("snellen:oracle", "vanilla", "vanilla?in_context=true")
    hits = measured("format hits", reported_runs)
    assert hits == {("generation", "Hit Rate"): 100.0, ("generation", "Hit Rate+"): 100.0}
    assert set(measured("number of options", reported_runs).values()) == {100.0}


def test_runs_asked_as_the_suite_asks_and_scored_as_published_are_measured_in_per_cent_and_by_what_varies() -> (
    None
):
    folder = small.built(
        small.rows(6), Path("made"), name="vqa", suite="reform-eval", dimension="VGR"
    ).folder
    protocols = ["instability?m=5", "instability?m=5&perturb=order", "likelihood?m=5"]
    sn.evaluate("snellen:uniform", str(folder), protocols, name="own")
    published = sn.score("runs/own", as_published=True)
    reported_runs = prepare_reported_runs(published.runs, published.rows)
    # Every reply names a label; of a run as published the share is in per cent already.
    assert measured("format hits", reported_runs) == {("generation", "Hit Rate+"): 100.0}
    sources = measured("perturbations", reported_runs)
    # By likelihood options are not shown, so that templates alone differ.
    assert set(sources) == {("generation", "Option Order"), ("likelihood", "Instruct")}
    of_order = published.value("legacy_instability", protocol="instability?perturb=order")
    assert sources["generation", "Option Order"] == pytest.approx(of_order)


def test_a_run_without_a_card_is_said_and_in_no_group() -> None:
    Path("mine.toml").write_text(
        'title = "Mine"\nvalues = [{ measure = "number of options" }]\ngroups = [{ by = "vision" }]\n'
    )
    reported_runs = views_of("snellen:oracle", "vanilla")
    with pytest.raises(DataError, match="write model cards"):
        compute_analysis(find_analysis("mine.toml"), reported_runs)


def test_a_stranger_brings_an_analysis_a_measure_and_a_statistic() -> None:
    files = {
        "zoo/suite.toml": """
            name = "zoo"
            title = "Zoo"
            [hooks.analysis_measures]
            questions = "zoo_measures:questions"
            [hooks.analysis_statistics]
            most = "zoo_measures:MOST"
            """,
        "zoo/analyses/asked.toml": """
            title = "Questions"
            values = [{ measure = "questions" }]
            statistic = "most"
            plot = "none"
            """,
        "zoo/zoo_measures.py": """
from snellen.plugin_api import Estimate
from snellen_lab import AnalysisRow, AnalysisStatistic, Measured


def questions(view):
    for scored in view.run.benchmarks:
        yield Measured(scored.spec.name, "generation", float(len(scored.samples)), "questions")


def most(members):
    value = max(member.observation.value for member in members)
    yield AnalysisRow(groups=members[0].groups, method="generation", quantity="most", statistic="most",
                      unit="questions", estimate=Estimate(value, None, None, None, len(members)), models=1)


MOST = AnalysisStatistic("Most", most)
""",
    }
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    add_suites("zoo")
    [row] = compute_analysis(
        find_analysis("asked"), views_of("snellen:oracle", "vanilla", limit=5)
    ).rows
    assert row.estimate.value == 5


def test_the_radar_of_mmbench_has_the_printed_leaves_and_an_outline_for_each_run(
    tmp_path: Path,
) -> None:
    leaves = [(leaf.l2, leaf.name) for leaf in taxonomy.packaged_taxonomy().leaf]
    rows = [
        mmbench_rows.row(number, gold=number % 2, category=leaf, **{"l2-category": l2})
        for number, (l2, leaf) in enumerate(leaves * 2)
    ]
    file = mmbench_rows.write(mmbench_rows.rotated(*rows), tmp_path / "dev.tsv")
    build_benchmark(entries()["mmbench/dev-en"], source=file, to=tmp_path / "dev")
    oracle = sn.evaluate(
        "snellen:oracle", "./dev", name="o", scoring=sn.ScoringSpec(as_published=True)
    )
    first = sn.evaluate(
        "snellen:always-a", "./dev", "circular", name="a", scoring=sn.ScoringSpec(as_published=True)
    )
    reported_runs = prepare_reported_runs([*oracle.runs, *first.runs], [*oracle.rows, *first.rows])
    outcome = compute_analysis(find_analysis("mmbench/abilities-dev"), reported_runs)
    value = {(row.groups[0], row.quantity): row.estimate.value for row in outcome.rows}
    assert (
        value["Shikra", "Image Topic"] == 80.6 and value["Kosmos-2", "Future Prediction"] == 52.4
    )  # Tables 8, 12
    assert len(outcome.series) == 6 + 2 and len(value) == 8 * 20
    assert {value["snellen:oracle", quantity] for _, quantity in value} == {100.0}
    assert {value["snellen:always-a", quantity] for _, quantity in value} == {0.0}

    [panel] = outcome.charts
    outlines = [shape for shape in panel.drawing.shapes if isinstance(shape, ChartGroup)]
    assert [shape.series for shape in outlines] == list(range(8))
    lines = [line for shape in outlines for line in shape.shapes if isinstance(line, ChartPath)]
    assert [len(line.points) for line in lines] == [20] * 8
    assert len(set(lines[outcome.series.index("snellen:always-a")].points)) == 1  # in the middle
    assert "Shikra" in write_analysis(outcome, tmp_path / "x.svg").read_text("utf-8")


# --- files and faults ----------------------------------------------------------------------------------------------


def test_an_analysis_is_written_in_every_form_and_its_charts_are_pictures() -> None:
    outcome = published("backbones")
    for suffix in ("html", "md", "csv", "json", "svg"):
        assert write_analysis(outcome, Path(f"x.{suffix}")).stat().st_size > 500
    assert ElementTree.parse("x.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
    rows = json.loads(Path("x.json").read_text())
    assert {row["vision"] for row in rows} == {"ViT-G", "ViT-L", "ImageBind"}
    assert len(rows) == len(outcome.rows) == 8 * 8 + 8 * 6
    with pytest.raises(DataError, match=r"x\.pdf"):
        write_analysis(outcome, Path("x.pdf"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('values = [{ cells = ["1:CG"] }]', "title"),
        ('title = "x"\nvalues = [{}]', "values need either cells"),
        (
            'title = "x"\nsuite = "reform-eval"\nvalues = [{ cells = ["1:Nothing"] }]',
            "no such column",
        ),
        ('title = "x"\nvalues = [{ measure = "round" }]', "rounds"),
        ('title = "x"\nvalues = [{ measure = "rounds" }]\ngroups = [{ by = "visoin" }]', "vision"),
        ('title = "x"\nvalues = [{ measure = "rounds" }]\nstatistic = "means"', "mean"),
        ('title = "x"\nvalues = [{ measure = "rounds" }]\ngroups = [{ name = "x" }]', "one of by"),
    ],
)
def test_a_wrong_file_is_refused_in_a_line_that_says_what_is_wrong(text: str, says: str) -> None:
    Path("wrong.toml").write_text(text)
    with pytest.raises((DataError, UnknownNameError), match=says):
        compute_analysis(find_analysis("wrong.toml"))


def test_the_command_lists_shows_and_is_strict() -> None:
    listed = CliRunner().invoke(cli, ["analyse"], catch_exceptions=False)
    assert "reform-eval/backbones" in listed.output
    shown = CliRunner().invoke(
        cli, ["analyse", "connections", "--strict", "--json"], catch_exceptions=False
    )
    assert shown.exit_code == 0
    assert {json.loads(line)["connection"] for line in shown.stdout.splitlines()} >= {
        "Q-Former",
        "Linear",
    }
