"""The declared studies of ReForm-Eval and MMBench: benchmarks built in several ways, samples of several sizes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

import mmbench_rows
import small
import snellen as sn
from snellen.building.benchmark import MANIFEST, Benchmark, ItemCheck, Verification
from snellen.building.builder import ANSWERS
from snellen.catalogue import declared_files
from snellen.errors import DataError
from snellen.formats.record_files import read_records
from snellen.records import Answer
from snellen.report.reported_runs import prepare_reported_runs
from snellen_lab import run_study
from snellen_lab.analyses.declaration import find_analysis
from snellen_lab.analyses.outcome import compute_analysis
from snellen_lab.studies.cells import grid_of
from snellen_lab.studies.declaration import find_study
from test_reform_classes import flowers102

TABLES = {
    "connections": "Tables 1, 2 and 27", "format-hits": "Tables 3 and 22", "instability-sources": "Tables 4 and 24",
    "instructions": "Table 25", "sampling-ratios": "Tables 29 and 30", "distractors": "Table 31",
    "number-of-options": "Figure 15",
}  # fmt: skip
OF_MMBENCH = {"circular": "Table 4", "choice-matching": "Table 2"}


@pytest.fixture(autouse=True)
def in_a_home_of_its_own(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own_home.parent)


def made(name: str, **facts: str) -> str:
    return str(
        small.built(
            small.rows(12), Path(name), name=name, suite="reform-eval", task="vqa", **facts
        ).folder
    )


def test_the_studies_of_two_papers_are_declared_each_by_its_table() -> None:
    for suite, tables in (("reform-eval", TABLES), ("mmbench", OF_MMBENCH)):
        names = {
            name.partition("/")[2]
            for name in declared_files("study")
            if name.startswith(f"{suite}/")
        }
        assert names == set(tables)
        for name, table in tables.items():
            study = find_study(f"{suite}/{name}")
            assert table in study.about and grid_of(study).cells


def test_a_benchmark_is_built_with_each_number_of_options_and_asks_the_same_questions() -> None:
    files = flowers102(Path("files"))
    results = run_study(
        "number-of-options",
        "snellen:uniform",
        source=files,
        levels={"options": [2, 3], "method": ["generation"]},
    )
    folders = sorted(Path("studies/reform-eval-number-of-options/benchmarks").iterdir())
    built = [Benchmark(folder) for folder in folders]
    assert {len(sample.options) for sample in built[0].samples()} == {2}
    assert {len(sample.options) for sample in built[1].samples()} == {3}
    assert [s.question for s in built[0].samples()] == [s.question for s in built[1].samples()]
    cells = {
        row.cell
        for row in results.rows
        if row.metric == "accuracy" and row.benchmark == "reform-eval/flowers102"
    }
    assert cells == {"options=2, method=generation", "options=3, method=generation"}
    # Once built, they are found again.
    again = run_study(
        "number-of-options", "snellen:uniform", levels={"options": [2], "method": ["generation"]}
    )
    assert again.rows


def test_a_build_that_varies_needs_the_files_and_an_empty_level_is_the_benchmark_as_it_is() -> None:
    with pytest.raises(
        DataError,
        match=r"reform-eval/flowers102 is not built, so it cannot be built in another way; name its files \(source=\.\.\.\)",
    ):
        run_study("number-of-options", "snellen:uniform")
    text = (
        'title = "x"\nmetrics = ["accuracy"]\nstatistics = ["cells"]\n[fixed]\n'
        'benchmarks = ["reform-eval/flowers102"]\n[[vary]]\nname = "options"\nfield = "build.options"\n'
        "values = { usual = 0, two = 2 }\n"
    )
    Path("mine.toml").write_text(text)
    results = run_study("mine.toml", "snellen:oracle", source=flowers102(Path("files")))
    assert {row.cell for row in results.rows} >= {"usual", "two"}
    assert Benchmark(Path("home/benchmarks/reform-eval/flowers102")).manifest.counts.samples == 12


def test_samples_of_several_sizes_are_drawn_as_often_as_is_said_and_a_study_without_a_sample_draws_none() -> (
    None
):
    folder = made("plants")
    levels = {"share": [0.25, 0.5], "draw": [0, 1]}
    results = run_study("sampling-ratios", "snellen:uniform", benchmarks=[folder], levels=levels)
    sizes = {
        row.cell: row.estimate.n
        for row in results.rows
        if row.statistic == "cells" and row.benchmark == "plants"
    }
    assert sizes == {
        f"share={share}, draw={draw}": int(12 * share) for share in (0.25, 0.5) for draw in (0, 1)
    }
    Path("mine.toml").write_text(
        'title = "x"\n[fixed]\nbenchmarks = ["a"]\n[[vary]]\nname = "s"\nfield = "sample.ratio"\nvalues = [0.5]\n'
    )
    with pytest.raises(
        DataError, match=r"sets sample.ratio, but the study has no table \[sample\]"
    ):
        find_study("mine.toml")


@pytest.mark.parametrize(
    ("name", "cells"),
    [("format-hits", 2), ("instability-sources", 4), ("instructions", 2), ("connections", 2)],
)
def test_a_study_is_asked_of_a_benchmark(name: str, cells: int) -> None:
    results = run_study(name, "snellen:uniform", benchmarks=[made("questions")])
    assert (
        len(
            {
                row.cell
                for row in results.rows
                if row.statistic == "cells" and row.benchmark == "questions"
            }
        )
        == cells
    )


def test_the_runs_of_a_study_are_what_its_analysis_takes() -> None:
    run_study("instability-sources", "snellen:uniform", benchmarks=[made("questions")])
    folders = sorted(Path("studies/reform-eval-instability-sources/runs").iterdir())
    found = set()
    for folder in folders:
        published = sn.score(folder, as_published=True)
        rows = compute_analysis(
            find_analysis("instability-sources"),
            prepare_reported_runs(published.runs, published.rows),
        ).rows
        found |= {(row.method, row.quantity) for row in rows if row.groups == ("snellen:uniform",)}
    instruct, order, mark = "Instruct", "Option Order", "Option Mark"
    assert found == {
        ("generation", instruct),
        ("generation", order),
        ("generation", mark),
        ("likelihood", instruct),
    }


def test_mmbench_is_studied_on_its_own_file() -> None:
    rows = mmbench_rows.rotated(*(mmbench_rows.row(number, gold=number % 2) for number in range(4)))
    sn.build("mmbench/dev-en", source=mmbench_rows.write(rows, Path("mmbench.tsv")))
    found = {
        (row.cell, row.metric): row.estimate.value
        for row in run_study("circular", "snellen:always-a").rows
        if row.statistic == "cells"
    }
    # Of four questions the answer to two is A at first, and of none in every rotation.
    assert (
        found["VanillaEval", "accuracy"] == 0.5
        and found["CircularEval", "circular_accuracy"] == 0.0
    )
    matched = run_study(
        "choice-matching",
        sn.Scripted(lambda request: "A" if request.sample_id[-1] in "01" else "hm"),
    )
    [unread] = [row.estimate.value for row in matched.rows if row.metric == "unparsed_rate"]
    assert unread == 0.5


def golds(benchmark: Benchmark) -> dict[str, str]:
    answers = {
        answer.sample_id: answer.options
        for answer in read_records(benchmark.folder / ANSWERS, Answer)
    }
    return {sample.id: sample.options[answers[sample.id][0]] for sample in benchmark.samples()}


def test_a_built_benchmark_is_studied_without_its_files_and_keeps_its_questions_and_answers() -> (
    None
):
    whole = sn.build("eyechart/colour")
    run_study("distractors", "snellen:uniform", benchmarks=["eyechart/colour"], limit=20)
    run_study(
        "number-of-options",
        "snellen:uniform",
        benchmarks=["eyechart/colour"],
        limit=20,
        levels={"options": [2, 6], "method": ["generation"]},
    )
    [pooled] = [
        Benchmark(path) for path in Path("studies/reform-eval-distractors/benchmarks").iterdir()
    ]
    two, six = map(
        Benchmark, sorted(Path("studies/reform-eval-number-of-options/benchmarks").iterdir())
    )
    own = {sample.id: set(sample.options) for sample in whole.samples()}
    of_question = {sample.question: set[str]() for sample in whole.samples()}
    for sample in whole.samples():
        of_question[sample.question].add(golds(whole)[sample.id])
    for variant, count in ((pooled, 4), (two, 2), (six, 6)):
        assert golds(variant) == golds(whole)
        assert {len(sample.options) for sample in variant.samples()} == {count}
    assert all(set(sample.options) <= own[sample.id] for sample in two.samples())
    assert all(own[sample.id] < set(sample.options) for sample in six.samples())
    assert all(set(sample.options) <= of_question[sample.question] for sample in pooled.samples())
    open_ended = sn.build("eyechart/caption")
    with pytest.raises(DataError, match="eyechart/caption has no multiple-choice questions"):
        run_study(
            "number-of-options",
            "snellen:uniform",
            benchmarks=[str(open_ended.folder)],
            output="other",
        )


def test_people_and_a_jury_say_how_often_a_wrong_option_is_right() -> None:
    first = run_study("distractors", "snellen:uniform", benchmarks=["eyechart/colour"], limit=20)
    assert not [row for row in first.rows if row.statistic == "false-negatives"]
    [pooled] = Path("studies/reform-eval-distractors/benchmarks").iterdir()
    said = [
        ("a", "ann", "two right options", False), ("a", "ben", "good", False), ("b", "ann", "good", False),
        ("c", "ann", "two right options", False), ("c", "ben", "good", False), ("c", "ann", "good", True),
        ("d", "ann", "wrong answer", False), ("b", "ann", "two right options", False),
    ]  # fmt: skip
    rows = [
        {"item": item, "by": by, "label": label, "settles": settles}
        for item, by, label, settles in said
    ]
    small.write(rows, pooled.with_name(f"{pooled.name}.audit.jsonl"))
    manifest = Benchmark(pooled).manifest
    verification = Verification(300, 300, (ItemCheck("jury", 300, 30),))
    (pooled / MANIFEST).write_bytes(
        msgspec.json.encode(replace(manifest, verification=verification))
    )
    again = run_study("distractors", "snellen:uniform", benchmarks=["eyechart/colour"], limit=20)
    found = {row.quantity: row.estimate for row in again.rows if row.statistic == "false-negatives"}
    # Of four questions: a half, all of b as ann said last, none of c as it was settled, none of d.
    assert (
        found["false negatives by people"].value == 1.5 / 4
        and found["false negatives by people"].n == 4
    )
    assert found["false negatives by the jury"].value == pytest.approx(0.1)
    assert {row.cell for row in again.rows if row.statistic == "false-negatives"} == {
        "other answers"
    }


def test_the_mean_over_models_is_that_of_their_numbers() -> None:
    results = run_study(
        "instability-sources", ["snellen:uniform", "snellen:biased"], benchmarks=[made("questions")]
    )
    for metric in ("accuracy", "instability"):
        values: dict[str, list[float | None]] = {}
        for row in results.rows:
            if row.metric == metric and row.statistic == "cells":
                values.setdefault(row.cell, []).append(row.estimate.value)
        means = {
            row.cell: row.estimate
            for row in results.rows
            if row.metric == metric and row.statistic == "models"
        }
        assert means.keys() == values.keys()
        for cell, pair in values.items():
            assert means[cell].value == pytest.approx(sum(value or 0.0 for value in pair) / 2)
            assert means[cell].low is not None


def test_samples_are_held_against_the_whole_as_in_tables_29_and_30() -> None:
    models = ["snellen:uniform", "snellen:biased?p=0.9", "snellen:oracle"]
    levels = {"share": [0.25, 1.0], "draw": [0, 1]}
    results = run_study("sampling-ratios", models, benchmarks=["eyechart/colour"], levels=levels)
    score = {
        (row.model, row.cell): row.estimate.value
        for row in results.rows
        if row.statistic == "cells"
    }
    found = {
        (row.cell, row.quantity): row.estimate.value
        for row in results.rows
        if row.statistic == "stability"
    }
    parts = np.array(
        [[score[model, f"share=0.25, draw={draw}"] for draw in range(2)] for model in models]
    )
    whole = np.array([score[model, "share=1.0, draw=0"] for model in models])
    rho = np.mean([np.corrcoef(parts[:, draw], whole)[0, 1] for draw in range(2)])
    assert found["share=0.25", "correlation over models"] == pytest.approx(rho)
    gaps = 100 * np.abs(parts - whole[:, None])
    assert found["share=0.25", "mean absolute deviation"] == pytest.approx(gaps.mean())
    spread = np.var(100 * parts, axis=1, ddof=1).mean()
    assert found["share=0.25", "variance over draws"] == pytest.approx(spread)
    assert (
        found["share=1", "mean absolute deviation"] == 0
        and found["share=1", "variance over draws"] == 0
    )
