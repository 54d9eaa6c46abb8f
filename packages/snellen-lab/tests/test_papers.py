"""The printed tables of papers: transcribed rightly, recomputed, misprints found, and runs set beside them."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace
from PIL import Image

import small
import snellen as sn
from snellen.analysis.headline import OVERALL
from snellen.analysis.ranks import rounded
from snellen.catalogue import entries, suite_facts
from snellen.catalogue.cards import ModelCard, benchmarks_seen, model_cards
from snellen.catalogue.loading import add_suites
from snellen.errors import DataError, UnknownNameError
from snellen.metrics.declaration import declared_row
from snellen.suites.mmbench import taxonomy
from snellen_lab.papers.formulas import FORMULAS, nearest_share, pooled_share
from snellen_lab.papers.paper_check import PaperReport, check_paper, derived_figures
from snellen_lab.papers.printed_tables import (
    Paper,
    PrintedValue,
    paper_of,
    papers,
)

TABLES = {
    "reform-eval": {*"1 2 3 4 7 8".split(), *map(str, range(9, 29))},
    "mmbench": {*"2 3 4 5 6 8 9 10 11 12 13 15 text".split()},
    "lvlm-ehub": {"A.1", "A.2", "A.3", "A.4", "A.5", "tiny", "arena"},
}
TEXTS = {
    "reform-eval": "reform-eval.txt",
    "mmbench": "mmbench.txt",
    "lvlm-ehub": "lvlm-ehub-appendix.txt",
}
BY_COLUMN = {"reform-eval": {"2", "3", "22", "27"}, "mmbench": {"3", "4"}}
"""Tables whose models are columns in print; all of the third paper's are."""
IN_HALVES = {("reform-eval", "22"), ("reform-eval", "23"), ("mmbench", "4")}
MODELS = ("model", "dataset", "vision", "connection")
VARIABLE = "SNELLEN_PAPERS"
"""A folder with the papers' text, which is not ours to ship."""


@pytest.fixture(autouse=True)
def _only_own_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test adds is forgotten after it."""
    monkeypatch.setenv("SNELLEN_SUITES", "")


@pytest.fixture(scope="module")
def reports() -> dict[str, PaperReport]:
    return {suite: check_paper(paper) for suite, paper in papers().items()}


def cells(paper: Paper) -> Iterator[PrintedValue]:
    return (cell for name in paper.tables for cell in paper.values(name))


# --- transcription -------------------------------------------------------------------------------------------------


def test_three_papers_ship_their_tables() -> None:
    assert {suite: set(paper.tables) for suite, paper in papers().items()} == TABLES


@pytest.mark.parametrize("suite", TABLES)
def test_every_column_is_about_something_that_the_suite_has(suite: str) -> None:
    facts = suite_facts()[suite]
    for cell in cells(paper_of(suite)):
        assert not cell.benchmark or cell.benchmark in entries(), cell
        assert not cell.dimension or cell.dimension in {*facts.dimensions, OVERALL}, cell
        assert not cell.metric or declared_row(cell.metric).name == cell.metric, cell


def test_the_sixteen_models_have_61_benchmarks_by_generation_and_42_by_likelihood() -> None:
    found: dict[str, set[tuple[str, str]]] = {"generation": set(), "likelihood": set()}
    for cell in cells(paper_of("reform-eval")):
        if (
            cell.benchmark
            and cell.metric
            and not cell.metric.startswith(("legacy_instability", "round_"))
        ):
            found[cell.method].add((cell.benchmark, cell.model))
    benchmarks = {name for name, spec in entries().items() if spec.suite == "reform-eval"}
    with_options = {name for name in benchmarks if entries()[name].dimension not in ("STP", "Desc")}
    assert {name for name, _ in found["generation"]} == benchmarks and len(
        found["generation"]
    ) == 61 * 16
    assert {name for name, _ in found["likelihood"]} == with_options and len(
        found["likelihood"]
    ) == 42 * 16


@pytest.mark.parametrize("suite", TABLES)
def test_all_numbers_stand_in_the_papers_text_in_their_order(suite: str) -> None:
    """Each row's numbers follow each other on a line of the text that names its model; or, where the text has models as
    columns, each column's do on some line of its table."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"needs the papers' text: {VARIABLE}=FOLDER with {', '.join(TEXTS.values())}")
    text = (Path(folder) / TEXTS[suite]).read_text("utf-8").splitlines()
    paper = paper_of(suite)
    checked = 0
    for name in paper.tables:
        if name in ("text", "tiny", "arena") or not any(
            cell.value is not None for cell in paper.values(name)
        ):
            continue
        starts = [
            i for i, line in enumerate(text) if re.match(rf"Table {re.escape(name)}[:.]", line)
        ]
        near = [
            numbers(line) for i in starts for line in text[max(0, i - 55) : i + 40] if "\t" in line
        ]
        for row in grouped(paper, name):
            whole = any(contains(line, row) for line in near)
            assert whole, f"{suite}, Table {name}: {row}"
            checked += len(row)
    assert checked > 130


def grouped(paper: Paper, name: str) -> Iterator[list[Decimal]]:
    """Rows of numbers, or columns or halves of rows where the text prints these."""
    by_column = name in BY_COLUMN.get(paper.suite, paper.tables)
    groups: dict[tuple[str, ...], list[Decimal]] = {}
    for cell in paper.values(name):
        if cell.value is not None:
            labels = [
                text for label, text in cell.labels.items() if not (by_column and label in MODELS)
            ]
            groups.setdefault((*labels, cell.column if by_column else ""), []).append(cell.value)
    for values in groups.values():
        middle = len(values) // 2 if (paper.suite, name) in IN_HALVES else len(values)
        yield from (half for half in (values[:middle], values[middle:]) if half)


def numbers(line: str) -> list[Decimal]:
    return [
        Decimal(word)
        for word in re.findall(
            r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w])", line.replace("%", " ").replace("*", " ")
        )
    ]


def contains(line: list[Decimal], row: list[Decimal]) -> bool:
    return any(line[i : i + len(row)] == row for i in range(len(line) - len(row) + 1))


# --- recomputed figures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suite", TABLES)
def test_what_does_not_agree_is_just_what_the_errata_say(
    suite: str, reports: dict[str, PaperReport]
) -> None:
    assert not reports[suite].new_misprints and not reports[suite].unfound


def test_means_of_dimensions_agree_but_for_five_of_416(reports: dict[str, PaperReport]) -> None:
    means = [
        check
        for check in reports["reform-eval"].checks
        if check.formula == "mean"
        and check.cell.table in {"10", "12", "14", "16", "17", "18", "19", "21"}
    ]
    assert (len(means), sum(not check.agrees for check in means)) == (416, 5)


def test_98_in_100_figures_agree_where_no_whole_column_is_in_doubt(
    reports: dict[str, PaperReport],
) -> None:
    checks = [
        check
        for report in reports.values()
        for check in report.checks
        if check.cell.table not in ("2", "26", "27") and not check.formula.startswith("implied")
    ]
    assert len(checks) > 3900 and sum(check.agrees for check in checks) / len(checks) > 0.98


def test_each_misprint_of_the_specification_is_found(reports: dict[str, PaperReport]) -> None:
    found = {
        check.cell.location: str(check.agreeing)
        for report in reports.values()
        for check in report.misprints
    }
    assert {
        "4: Kosmos-2: CircularEval": "59.2",
        "5: InstructBLIP-13B: LR": "19.2",
        "6: MMGPT: CP": "18.3",
        "6: MMGPT: FP-S": "18.2",
        "6: PandaGPT: FP-S": "20.2",
        "6: PandaGPT: RR": "22.1",
        "5: PandaGPT: Overall": "33.6",
        "A.2: Adversarial, MiniGPT-4: F1-Score": "60.57",
        "A.2: Adversarial, LA-V2: F1-Score": "69.71",
        "A.2: Random, mPLUG-Owl: Yes": "79.78",
        "A.2: Random, mPLUG-Owl: Accuracy": "69.13",
        "A.2: Adversarial, VPGTrans: Accuracy": "65.33",
        "A.5: LA-V2: ImageNet Mean": "19.2",
        "A.5: VPGTrans: ImageNet Mean": "17.1",
        "1: likelihood, Cheetor_L2: CG": "52.7",
    }.items() <= found.items()
    assert any(place.startswith("12: test, Kosmos-2") for place in found)


def test_what_was_found_by_reading_follows_from_the_printed_tables() -> None:
    reform = paper_of("reform-eval")
    samples = [
        spec.complete.samples
        for spec in entries().values()
        if spec.suite == "reform-eval" and spec.complete
    ]
    assert (
        sum(samples) - 1181 + 1811 == 521685
    )  # with the misprint of VSR, as Tables 5 and 6 print it
    scores = {
        (cell.model, cell.column.partition(" ")[0]): cell.value
        for cell in reform.values("28")
        if "Rank" not in cell.column
    }
    rising = {
        model
        for (model, kind), value in scores.items()
        if kind == "Held-Out" and value > scores[model, "Complete"]
    }
    assert rising == {"mmGPT"}
    underlined = {
        ("14", "", "TextVQA"): ("21.07", 9),
        ("15", "likelihood", "GQA Acc"): ("67.37", 3),
        ("20", "", "TextCaps ROUGE-L"): ("30.67", 4),
    }
    for (table, method, column), (printed, place) in underlined.items():
        values = [
            c.value
            for c in reform.values(table)
            if c.column == column and c.labels.get("method", "") == method
        ]
        assert sorted(values, reverse=True).index(Decimal(printed)) == place - 1
    steps = {
        cell.model: cell.value
        for cell in paper_of("mmbench").values("2")
        if cell.column == "Step-1"
    }
    assert (max(steps, key=steps.__getitem__), steps["OpenFlamingo"]) == (
        "Otter-I",
        Decimal("98.6"),
    )


def test_a_digit_that_is_changed_is_found(tmp_path: Path) -> None:
    """The check sees slips of a transcription: of a cell that enters a mean, all but those of the last digit."""
    source = paper_of("reform-eval").folder
    suite = tmp_path / "copy"
    (suite / "paper").mkdir(parents=True)
    (suite / "suite.toml").write_text('name = "copy"\ntitle = "Copy"\n')
    (suite / "paper" / "tables.toml").write_text(
        '[metrics]\nAcc = { unit = "%", digits = 2 }\n'
        '[tables.17]\ntitle = "a"\ncaption = "b"\nlabels = ["method", "model"]\n'
    )
    (suite / "paper" / "derivations.toml").write_text(
        '[[derivations]]\nfigure = "17:Avg Acc"\nformula = "mean"\nof = ["17:* Acc"]\n'
    )
    text = source.joinpath("17.csv").read_text("utf-8")
    assert "generation,Lynx,40.58," in text
    (suite / "paper" / "17.csv").write_text(
        text.replace("generation,Lynx,40.58,", "generation,Lynx,40.85,")
    )
    add_suites(suite)
    [misprint] = check_paper(paper_of("copy")).misprints
    assert misprint.cell.model == "Lynx" and "(40.85, 45.76, 34.38) = 40.33" in misprint.arithmetic


def test_formulas_are_those_of_a_confusion_matrix() -> None:
    """60 of 100 answers are yes; of 50 replies yes 45 are right."""
    precision, recall, share = Decimal(90), Decimal(75), Decimal("0.6")
    assert FORMULAS["implied yes-rate"]([precision, recall], share) == 50
    assert FORMULAS["implied accuracy"]([precision, recall], share) == 45 + 35
    f1 = FORMULAS["F1"]([precision, recall], share)
    assert f1 is not None and rounded(f1, 2) == Decimal("81.82")


def test_shares_go_back_to_questions() -> None:
    assert pooled_share([Decimal("33.3"), Decimal("50.0")], [3, 4]) == Decimal(300) / 7
    assert nearest_share(Decimal("16.67"), 30, 2) == (Decimal(500) / 30, False)
    assert nearest_share(Decimal("16.66"), 30, 2) == (Decimal(500) / 30, True)


def test_mmbench_counts_of_the_derivations_are_those_of_its_taxonomy() -> None:
    counts: dict[str, dict[str, int]] = {"dev": {}, "test": {}}
    for derivation in paper_of("mmbench").derived.derivations:
        if derivation.formula == "pooled share" and derivation.counted_by == "split":
            for split, by_column in derivation.counts.items():
                counts[split] |= by_column
    leaves = {leaf.name: leaf for leaf in taxonomy.packaged_taxonomy().leaf if leaf.paper_dev}
    slices = {
        column: paper_of("mmbench").subjects[column].slice.removeprefix("l3=")
        for column in counts["dev"]
    }
    assert set(slices.values()) == set(leaves)
    for column, name in slices.items():
        assert (counts["dev"][column], counts["test"][column]) == (
            leaves[name].paper_dev,
            leaves[name].paper_test,
        )


def test_repeated_pairs_are_suspected(reports: dict[str, PaperReport]) -> None:
    pairs = {
        (repeated.first.location, repeated.second.location)
        for repeated in reports["reform-eval"].repeated
    }
    assert (
        "9: generation, InstructBLIP_V: VizWiz_2 Acc",
        "15: generation, InstructBLIP_V: VizWiz Acc",
    ) in pairs


# --- files that are wrong ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "derivations", "complaint"),
    [
        ("model,a\nx,1,2\n", "", r"t\.csv:2: 3 cells under 2 columns"),
        ("model,a\nx,1\nx,2\n", "", r"t\.csv:3: a second row for x"),
        (
            "name,a\nx,1\n",
            "",
            r"t\.csv:1: begins with name, a; tables\.toml says it begins with model",
        ),
        (
            "model,a\nx,1\n",
            '[[derivations]]\nfigure = "t:b"\nformula = "mean"\n',
            "t:b \\(mean\\) finds no cells",
        ),
        (
            "model,a,b\nx,1,2\n",
            '[[derivations]]\nfigure = "t:a"\nformula = "F1"\nof = ["t:b"]\n',
            "takes 2 sources",
        ),
    ],
)
def test_a_wrong_file_is_named_with_its_fault(
    table: str, derivations: str, complaint: str, tmp_path: Path
) -> None:
    home = tmp_path / "odd"
    (home / "paper").mkdir(parents=True)
    (home / "suite.toml").write_text('name = "odd"\ntitle = "Odd"\n')
    (home / "paper" / "tables.toml").write_text('[tables.t]\ntitle = "a"\ncaption = "b"\n')
    (home / "paper" / "t.csv").write_text(table)
    (home / "paper" / "derivations.toml").write_text(derivations)
    add_suites(home)
    with pytest.raises(DataError, match=complaint):
        check_paper(paper_of("odd"))


def test_unknown_papers_and_tables_have_near_names() -> None:
    with pytest.raises(UnknownNameError, match="did you mean reform-eval"):
        paper_of("reform-evla")
    with pytest.raises(DataError, match="has no tables of its paper"):
        paper_of("eyechart")
    with pytest.raises(UnknownNameError, match="table"):
        paper_of("mmbench").values("99")


# --- model cards ---------------------------------------------------------------------------------------------------


def test_every_model_of_the_papers_tables_has_a_card() -> None:
    printed = {
        (suite, name) for card in model_cards().values() for suite, name in card.printed.items()
    }
    for suite, name in (("reform-eval", "7"), ("mmbench", "15"), ("lvlm-ehub", "A.4")):
        models = {cell.model for cell in paper_of(suite).values(name)}
        assert {model for of, model in printed if of == suite} == models


def test_cards_hold_what_table_7_prints() -> None:
    by_name = {
        card.printed["reform-eval"]: card
        for card in model_cards().values()
        if "reform-eval" in card.printed
    }
    assert len(by_name) == 16
    for cell in paper_of("reform-eval").values("7"):
        card = by_name[cell.model]
        facts = {
            "Vision Encoder": card.vision,
            "#oP": card.parameters,
            "#oTP": card.trainable_parameters,
            "#oVT": card.visual_tokens,
        }
        if cell.column in facts:
            assert facts[cell.column] == (
                amount(cell.printed) if cell.column != "Vision Encoder" else cell.printed
            )


def amount(printed: str) -> int:
    factor = {"B": 10**9, "M": 10**6}.get(printed[-1], 1)
    return int(Decimal(printed.rstrip("BM")) * factor)


def test_nothing_is_held_out_for_a_model_of_unknown_training() -> None:
    with pytest.raises(DataError, match="card of mine does not list its training data"):
        benchmarks_seen([], ["mine"], {"mine": ModelCard("Mine")})


def test_the_figures_of_another_model_follow_from_its_values_as_the_printed_ones_do() -> None:
    """A copy of BLIVA has BLIVA's mean and ranks: no model is better than it that is not better than BLIVA."""
    paper = paper_of("reform-eval")
    of_copy = [
        replace(cell, labels={**cell.labels, "model": "copy"})
        for cell in cells(paper)
        if cell.model == "BLIVA" and cell.metric and cell.table in {*map(str, range(9, 22))}
    ]
    figures = {cell.location: cell.printed for cell in derived_figures(paper, of_copy)}
    assert (figures["28: copy: Complete"], figures["28: copy: Complete Rank"]) == ("42.40", "7.88")
    assert (figures["1: generation, copy: R"], figures["1: likelihood, copy: R"]) == (
        "8",
        "3",
    )  # 3: Table 1 misprints 2
    assert figures["26: likelihood, copy: Dialog"] == "58.2"  # Table 26 misprints 58.4
    without = [cell for cell in of_copy if cell.column != "WikiHow Acc" and cell.table != "19"]
    places = {cell.location for cell in derived_figures(paper, without)}
    assert not places & {
        "28: copy: Complete",
        "1: generation, copy: R",
        "26: generation, copy: CMI",
    }
    assert "1: likelihood, copy: R" in places and "26: generation, copy: VGR" in places


# --- runs beside them ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The oracle on eight questions of POPE as published."""
    folder = tmp_path_factory.mktemp("pope")
    (folder / "files" / "val2014").mkdir(parents=True)
    rows = []
    for i in range(8):
        name = f"COCO_val2014_{i:012d}.jpg"
        Image.new("RGB", (32, 32), (30 * i, 9, 9)).save(folder / "files" / "val2014" / name)
        rows.append(
            {
                "question_id": i,
                "image": name,
                "text": f"Is there a dog {i}?",
                "label": ("yes", "no")[i % 2],
            }
        )
    (folder / "files" / "coco_pope_random.json").write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )
    built = sn.build("lvlm-ehub/pope-random", source=folder / "files", to=folder / "pope-random")
    results = sn.evaluate("snellen:oracle", str(built.folder), runs=folder / "runs")
    return results.runs[0].folder


def test_a_run_stands_above_the_models_with_interval_rank_and_part(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed, _ = small.command(capsys, "paper", "lvlm-ehub", "A.2", str(run), "--csv")
    rows = list(csv.reader(io.StringIO(printed)))
    assert code == 0 and rows[1] == ["Random", "snellen:oracle", *["100.00"] * 4, "50.00"]
    assert rows[2][:3] == ["Random", "snellen:oracle (95% interval)", "[67.56, 100.00]"]
    assert rows[3][2] == "1 of 9 [1, 4]"
    assert ["Popular", "BLIP2", "80.10", "90.49", "67.27", "77.17", "37.17"] in rows
    _, markdown, _ = small.command(capsys, "paper", "lvlm-ehub", "A.2", str(run), "--markdown")
    assert "8 of 3,000 questions (Accuracy, Precision, Recall, F1-Score, Yes)" in markdown


def test_a_report_as_published_has_the_run_beside_the_published_ones(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small.command(capsys, "report", str(run), "--as-published", "-o", str(tmp_path / "a.md"))
    small.command(capsys, "report", str(run), "-o", str(tmp_path / "b.md"))
    published = (tmp_path / "a.md").read_text("utf-8")
    assert "## Published models" in published
    assert (
        "| Random, Accuracy | 100.00 [67.56, 100.00] n=8 ¹ | 1 of 9 \\[1, 4\\] | 88.83 | 56.99 | 40.65 |"
        in published
    )
    assert "## Published models" not in (tmp_path / "b.md").read_text("utf-8")


@pytest.fixture(scope="module")
def spatial(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs on all three benchmarks of a dimension, on one of them, and on these and another suite's."""
    folder = tmp_path_factory.mktemp("spatial")
    built = {
        name: str(
            small.built(
                small.rows(6), folder / name, name=name, dimension="Spatial", suite="reform-eval"
            ).folder
        )
        for name in ("reform-eval/clevr", "reform-eval/vsr", "reform-eval/mp3d-spatial", "mine/own")
    }
    asked = (list(built)[:3], list(built)[:1], list(built))
    return [
        sn.evaluate(
            "snellen:oracle",
            [built[name] for name in names],
            "instability?m=5",
            runs=folder / str(i),
        )
        .runs[0]
        .folder
        for i, names in enumerate(asked)
    ]


def test_a_mean_stands_beside_theirs_only_over_the_same_benchmarks(
    spatial: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = [
        small.command(capsys, "paper", "reform-eval", "17", str(run), "--json")[1].splitlines()
        for run in spatial
    ]
    means = [json.loads(lines[0])["Avg Acc"] for lines in shown]
    assert means == ["100.00", "—", "—"]
    said = [
        small.command(capsys, "paper", "reform-eval", "17", str(run), "--markdown")[1]
        for run in spatial
    ]
    assert "18 of 1,281 questions (Avg Acc" in said[0]
    assert (
        "no mean beside theirs: theirs are over reform-eval/mp3d-spatial, reform-eval/vsr too (Avg Acc)"
        in said[1]
    )
    assert "no mean beside theirs: the run's is over mine/own too (Avg Acc)" in said[2]


def test_the_command_lists_shows_and_checks(capsys: pytest.CaptureFixture[str]) -> None:
    code, listed, _ = small.command(capsys, "paper", "--json")
    assert code == 0 and len(listed.splitlines()) == sum(map(len, TABLES.values()))
    _, tidy, _ = small.command(capsys, "paper", "reform-eval", "9", "--json")
    first = json.loads(tidy.splitlines()[0])
    assert first == {
        "suite": "reform-eval",
        "table": "9",
        "method": "generation",
        "model": "BLIP-2_F",
        "column": "Flowers102 Acc",
        "printed": "75.57",
        "value": 75.57,
        "unit": "%",
        "benchmark": "reform-eval/flowers102",
        "dimension": "",
        "slice": "",
        "metric": "accuracy",
    }
    code, checked, said = small.command(capsys, "paper", "mmbench", "--check", "--strict")
    assert code == 0 and "36/102 + 49/74" in checked and "not as in the errata" not in said


def test_the_guide_counts_the_figures_that_agree(
    capsys: pytest.CaptureFixture[str], reports: dict[str, PaperReport]
) -> None:
    docs = Path(__file__).parents[3] / "docs"
    _, printed, _ = small.command(capsys, "paper", "--check", "--markdown")
    figures = sum(len(report.checks) for report in reports.values())
    agree = sum(check.agrees for report in reports.values() for check in report.checks)
    assert f"{agree:,} of {figures:,} figures agree." in (docs / "papers.md").read_text("utf-8")
    means = [
        check.agrees
        for report in reports.values()
        for check in report.checks
        if check.formula == "mean"
    ]
    assert (
        f"{agree:,} of {figures:,} figures agree: " in printed
        and f"mean {sum(means)} of {len(means)}" in printed
    )


def test_strict_fails_for_a_misprint_that_nobody_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "odd"
    (home / "paper").mkdir(parents=True)
    (home / "suite.toml").write_text('name = "slip"\ntitle = "Slip"\n')
    (home / "paper" / "tables.toml").write_text('[tables.t]\ntitle = "a"\ncaption = "b"\n')
    (home / "paper" / "t.csv").write_text("model,a,b,Avg\nx,1.0,2.0,1.7\n")
    (home / "paper" / "derivations.toml").write_text(
        '[[derivations]]\nfigure = "t:Avg"\nformula = "mean"\nof = ["t:*"]\n'
    )
    assert small.command(capsys, "--suites", str(home), "paper", "slip", "--check")[0] == 0
    code, _, said = small.command(
        capsys, "--suites", str(home), "paper", "slip", "--check", "--strict"
    )
    assert code == 1 and "differs from the errata: t: x: Avg" in said
