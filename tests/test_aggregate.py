"""Results: rows of a benchmark, of its slices, of dimensions and of the whole."""

from __future__ import annotations

import math
import os
import statistics
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import small
from snellen import registry
from snellen.analysis.group_means import estimate_mean
from snellen.analysis.intervals import NO_BOUNDS
from snellen.analysis.ranks import average_ranks
from snellen.api import Results, evaluate, load_run, score
from snellen.building.benchmark import Benchmark
from snellen.errors import DataError, UnknownNameError
from snellen.metrics.declaration import function_metric
from snellen.models.embedded import Scripted
from snellen.records import Estimate, Request, Result
from snellen.runs.run_folder import read_manifest
from snellen.scoring import stored_records
from snellen.scoring.journal_reading import PartReader, ReadingRules, index_journals
from snellen.scoring.run_scoring import score_run
from view_runs import serving


def run(
    model: Any, benchmarks: Any, protocols: Any, folder: Path, name: str = "run", **settings: Any
) -> Results:
    return evaluate(model, benchmarks, protocols, runs=folder, name=name, **settings)


def rows_of(results: Results, **fields: str) -> list[Result]:
    return [
        row
        for row in results.rows
        if all(getattr(row, name) == value for name, value in fields.items())
    ]


def always(mark: str) -> Scripted:
    return Scripted(lambda request: f"({mark})")


def test_slices_by_tag_add_up_to_the_whole(questions: Benchmark, tmp_path: Path) -> None:
    """Golds are 0 1 2 3 0 1 ...; easy questions have even numbers, so A is right for every other easy one."""
    results = run(always("A"), str(questions.folder), "vanilla", tmp_path)
    values = {
        row.slice: (row.estimate.value, row.estimate.n)
        for row in rows_of(results, benchmark="mine", metric="accuracy")
    }
    assert values == {"": (0.25, 12), "level=easy": (0.5, 6), "level=hard": (0.0, 6)}


def test_tags_of_answers_are_slices_like_others_and_no_condition_of_a_run(tmp_path: Path) -> None:
    rows = [{**row, "answer_tag_right": "ABCD"[i % 4]} for i, row in enumerate(small.rows(12))]
    folder = str(small.built(rows, tmp_path / "made").folder)
    results = run(always("A"), folder, "vanilla", tmp_path)
    for opened in (results, load_run(tmp_path / "run")):
        values = {
            row.slice: row.estimate.value
            for row in rows_of(opened, benchmark="mine", metric="accuracy")
        }
        right = {"right=A": 1.0, "right=B": 0.0, "right=C": 0.0, "right=D": 0.0}
        assert values == {"": 0.25, "level=easy": 0.5, "level=hard": 0.0, **right}
        assert sorted(opened.samples()["tag_right"].to_list()) == sorted("ABCD" * 3)
        assert opened.only(where="right == 'A'").value("accuracy", benchmark="mine") == 1.0
    with pytest.raises(
        DataError, match="where: 'right' reveals the answers, so a run cannot use it"
    ):
        run(always("A"), folder, "vanilla", tmp_path, "other", where="right == 'A'")
    kept = b"".join(
        path.read_bytes()
        for path in (tmp_path / "run").rglob("*.jsonl")
        if "scores" not in path.parts
    )
    assert b"right" not in kept and b"level" not in kept  # requests hold no tags at all


def test_a_tag_with_very_many_values_gives_no_slices_and_hides_no_other(tmp_path: Path) -> None:
    rows = [{**row, "tag_number": str(i)} for i, row in enumerate(small.rows(204))]
    made = small.built(rows, tmp_path / "made")
    results = run(always("A"), str(made.folder), "vanilla", tmp_path)
    assert {row.slice for row in results.rows} == {"", "level=easy", "level=hard"}


def test_rounds_of_a_dialogue_are_slices_and_its_questions_share_a_group(
    eyechart: Mapping[str, Benchmark], tmp_path: Path
) -> None:
    results = run("snellen:uniform", "eyechart/dialogue", "dialogue", tmp_path, limit=30)
    rows = {
        row.slice: row.estimate
        for row in rows_of(results, benchmark="eyechart/dialogue", metric="accuracy")
    }
    assert [rows[f"round={i}"].n for i in (1, 2, 3, 4)] == [30] * 4
    assert rows[""].n == 120
    scores = [s for b in results.runs[0].benchmarks for s in b.scores if s.metric == "accuracy"]
    wanted = estimate_mean(
        [s.value for s in scores if s.value is not None], [s.sample_id for s in scores]
    )
    assert rows[""] == wanted


def test_questions_about_one_picture_are_one_group(questions: Benchmark, tmp_path: Path) -> None:
    results = run(always("A"), str(questions.folder), "vanilla", tmp_path)
    [row] = rows_of(results, benchmark="mine", metric="accuracy", slice="")
    pictures = {sample.id: sample.group for sample in questions.samples()}
    values = [float(i % 4 == 0) for i in range(12)]
    assert len(set(pictures.values())) == 6
    assert row.estimate == estimate_mean(values, [pictures[f"q{i:03d}"] for i in range(12)])


def test_the_deviation_over_templates_is_that_of_their_accuracies(
    questions: Benchmark, tmp_path: Path
) -> None:
    def reply(request: Request) -> str:
        right = int(request.sample_id[1:]) % 4
        template = int(request.variant.template[-1])
        knows = template == 0 or (template == 1 and right < 2)
        option = right if knows else (right + 1) % 4
        return f"({request.variant.labels[request.variant.order.index(option)]})"

    results = run(Scripted(reply), str(questions.folder), "instability?m=3", tmp_path)
    accuracy = {
        row.slice: row.estimate.value
        for row in rows_of(results, benchmark="mine", metric="accuracy")
    }
    assert [accuracy[f"template=choice.generation.{i}"] for i in range(3)] == [1.0, 0.5, 0.0]
    [deviation] = rows_of(results, metric="template_deviation")
    assert deviation.estimate.value == statistics.stdev([1.0, 0.5, 0.0])
    assert {row.metric for row in results.rows if "template" in row.metric} == {
        "template_deviation"
    }
    assert accuracy[""] == pytest.approx(0.5)
    [entropy] = rows_of(results, benchmark="mine", metric="instability", slice="")
    # Right under all three templates never happens: half of the questions have two kinds of answers 2 : 1, half 1 : 2.
    assert entropy.estimate.value == pytest.approx(
        -(2 / 3) * math.log(2 / 3) - (1 / 3) * math.log(1 / 3)
    )


def test_dimensions_and_the_whole_are_unweighted_means_over_benchmarks(tmp_path: Path) -> None:
    large = small.built(small.rows(40), tmp_path / "large", name="large", dimension="CG")
    little = small.built(
        small.rows(4, options=2), tmp_path / "little", name="little", dimension="CG"
    )
    other = small.built(
        [{**row, "answer": 0} for row in small.rows(3)],
        tmp_path / "other",
        name="other",
        dimension="FG",
    )
    results = run(always("A"), [str(b.folder) for b in (large, little, other)], "vanilla", tmp_path)
    means = {
        row.dimension: row.estimate for row in rows_of(results, benchmark="*", metric="accuracy")
    }
    assert means["CG"].value == pytest.approx((0.25 + 0.5) / 2)
    assert means["FG"].value == 1.0
    assert means["*"].value == results.value("accuracy") == pytest.approx((0.25 + 0.5 + 1.0) / 3)
    assert means["*"].n == 47
    assert results.value("accuracy", benchmark="little") == 0.5


def test_metrics_of_texts_are_not_averaged_with_those_of_choices(
    eyechart: Mapping[str, Benchmark], tmp_path: Path
) -> None:
    results = run(
        "snellen:oracle", ["eyechart/word", "eyechart/shape"], "vanilla", tmp_path, limit=5
    )
    texts = {"word_accuracy", "exact_match", "anls"}
    assert {row.metric for row in rows_of(results, benchmark="eyechart/word", slice="")} == texts
    means = {row.metric: row.estimate.n for row in rows_of(results, benchmark="*", dimension="*")}
    assert means == {
        **dict.fromkeys(
            (
                "accuracy",
                "accuracy_of_parsed",
                "accuracy_lower",
                "accuracy_upper",
                "unparsed_rate",
                "unsure_rate",
                "hit_rate",
                *texts,
            ),
            5,
        ),
        "headline": 10,
    }


def _length(reply: str, references: tuple[str, ...]) -> float:
    return float(len(reply))


length_metric = function_metric(_length, "length", unit="characters")


def test_anothers_metric_may_be_any_number_in_a_unit_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        registry._NAMES,
        "metrics",
        {**registry._NAMES["metrics"], "length": f"{__name__}:length_metric"},
    )
    rows = [{"id": f"q{i}", "question": f"What is number {i}?", "answer": "a"} for i in range(4)]
    made = small.built(rows, tmp_path / "made", metrics=("length",))
    results = run(
        Scripted({f"q{i}": "x" * (10 * i) for i in range(4)}), str(made.folder), "vanilla", tmp_path
    )
    [row] = rows_of(results, metric="length", slice="", benchmark="mine")
    assert row.estimate == estimate_mean([0.0, 10.0, 20.0, 30.0], range(4), bounds=NO_BOUNDS)


def test_several_models_stand_side_by_side(questions: Benchmark, tmp_path: Path) -> None:
    results = run(
        ["snellen:oracle", "snellen:always-a"], str(questions.folder), ["vanilla"], tmp_path
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run-0", "run-1"]
    assert results.value("accuracy", model="snellen:oracle") == 1.0
    assert results.value("accuracy", model="snellen:always-a") == 0.25
    with pytest.raises(
        DataError, match=r"2 values match accuracy of \*; also give model and protocol"
    ):
        results.value("accuracy")
    with pytest.raises(UnknownNameError, match="did you mean vanilla"):
        results.value("accuracy", protocol="vanila")


def test_results_are_frames_of_plain_values(questions: Benchmark, tmp_path: Path) -> None:
    results = run("snellen:always-a", str(questions.folder), ["vanilla", "circular"], tmp_path)
    table, sliced, scores = results.table(), results.table(slices=True), results.scores()
    assert {
        "model",
        "benchmark",
        "dimension",
        "protocol",
        "method",
        "metric",
        "value",
        "low",
        "high",
        "stderr",
        "n",
        "unscored",
        "errors",
    } <= set(table.columns)
    assert table.height == len(rows_of(results, slice=""))
    assert sliced.height == len(results.rows)
    assert scores.height == sum(
        1 for benchmark in results.runs[0].benchmarks for _ in benchmark.scores
    )
    chosen = scores.filter(scores["metric"] == "accuracy")
    assert sorted(set(chosen["value"].to_list())) == [0.0, 1.0]


def test_a_run_is_named_by_what_is_asked_when_it_has_no_name(
    questions: Benchmark, tmp_path: Path
) -> None:
    for protocols in ("vanilla", "circular", "vanilla"):
        evaluate("snellen:always-a", str(questions.folder), protocols, runs=tmp_path)
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert len(folders) == 2
    assert all(name.startswith("snellen-always-a-") for name in folders)


SUITE_OF_QUESTIONS = """name = "small"
title = "Small"
[dimensions]
Naming = "naming"
Telling = "telling apart"
[aggregation]
average = "{average}"
over = "{over}"
"""


def suite_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, average: str, over: str) -> None:
    """A suite of 8, 2 and 4 questions: always A is right for 2, 1 and 4 of them."""
    folder = tmp_path / f"suite-{average}-{over}"
    (folder / "entries").mkdir(parents=True)
    (folder / "suite.toml").write_text(SUITE_OF_QUESTIONS.format(average=average, over=over))
    tables = {
        "large": (small.rows(8), "Naming"),
        "little": (small.rows(2, options=2), "Naming"),
        "other": ([{**row, "answer": 0} for row in small.rows(4)], "Telling"),
    }
    for name, (rows, dimension) in tables.items():
        small.write(rows, folder / f"{name}.jsonl")
        (folder / "entries" / f"{name}.toml").write_text(
            f'name = "small/{name}"\ntitle = "{name}"\ndimension = "{dimension}"\ntask = "{name}"\n'
            f'formulation = "choice"\n[source]\nreader = "table"\nembedded = true\nfolder = ".."\n'
            f'params = {{ file = "{name}.jsonl" }}\n'
        )
    monkeypatch.setenv("SNELLEN_SUITES", str(folder))
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))


def capabilities(results: Results) -> dict[str, float | None]:
    return {
        row.dimension: row.estimate.value
        for row in results.rows
        if row.metric in ("capability", "headline")
    }


@pytest.mark.parametrize(
    ("average", "over", "naming", "overall", "label"),
    [
        (
            "macro",
            "dimensions",
            (2 / 8 + 1 / 2) / 2,
            ((2 / 8 + 1 / 2) / 2 + 1) / 2,
            "mean of the dimensions",
        ),
        (
            "macro",
            "benchmarks",
            (2 / 8 + 1 / 2) / 2,
            (2 / 8 + 1 / 2 + 1) / 3,
            "mean over benchmarks",
        ),
        ("micro", "questions", 3 / 10, 7 / 14, "over all questions"),
    ],
)
def test_a_suite_declares_what_counts_alike_and_tables_say_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    average: str,
    over: str,
    naming: float,
    overall: float,
    label: str,
) -> None:
    suite_of(tmp_path, monkeypatch, average, over)
    results = run(always("A"), "small", "vanilla", tmp_path)
    assert capabilities(results) == pytest.approx({"Naming": naming, "Telling": 1.0, "*": overall})
    [row] = rows_of(results, metric="headline")
    assert (row.members, row.partial) == ("small/large, small/little, small/other", "")
    page = results.report(tmp_path / "r.md").read_text("utf-8")
    assert f"| {label} |" in page and "partial" not in page.lower()
    tasks = {row.slice: row.estimate.value for row in rows_of(results, metric="task_capability")}
    assert tasks == pytest.approx({"task=large": 2 / 8, "task=little": 1 / 2})
    assert "| · large | 25.0%" in page
    if average == "micro":
        assert "over all questions, with equal weights" in page
        assert (
            "answers 50.0% of the questions correctly" in page
            and ", over all questions of 3 benchmarks" in page
        )
        # A guess is right on a quarter of twelve questions and on half of two.
        assert "Chance (mean of 1 / number of options) gives 28.6% accuracy" in page
        assert row.estimate.n == 14 and results.value("accuracy") == pytest.approx(7 / 14)


@pytest.mark.parametrize(
    ("average", "over", "values"),
    [
        ("macro", "benchmarks", ((2 / 8 + 1 / 2) / 2, 4 / 8 / 2)),
        ("micro", "questions", (3 / 10, 4 / 10)),
    ],
)
def test_a_comparison_counts_alike_in_a_dimension_what_the_numbers_of_its_runs_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    average: str,
    over: str,
    values: tuple[float, float],
) -> None:
    """Of 8 and 2 questions one model is right on 2 and 1, the other on 4 and none."""

    def knows_the_large(request: Request) -> str:
        number = int(request.sample_id[1:])
        return (
            "AB"[number % 2] if request.benchmark == "small/large" and number % 4 < 2 else "None."
        )

    suite_of(tmp_path, monkeypatch, average, over)
    models = always("A"), Scripted(knows_the_large, name="large", answers_by_sample=True)
    results = Results(
        [run(model, "small", "vanilla", tmp_path, name=model.name).runs[0] for model in models]
    )
    rows = rows_of(results, benchmark="*", metric="accuracy", dimension="Naming")
    assert tuple(row.estimate.value for row in rows) == pytest.approx(values)
    comparison = results.compare(resamples=100)
    [naming] = [
        one for one in comparison.differences if (one.benchmark, one.dimension) == ("*", "Naming")
    ]
    assert (naming.first_value, naming.second_value) == pytest.approx(values)
    ranks = [
        one.rank for one in comparison.ranks if (one.benchmark, one.dimension) == ("*", "Naming")
    ]
    assert ranks == [1 + (values[0] < values[1]), 1 + (values[0] > values[1])]


def test_a_run_of_a_suite_that_is_not_known_says_that_its_rules_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite_of(tmp_path, monkeypatch, "micro", "questions")
    folder = run(always("A"), "small", "vanilla", tmp_path).runs[0].folder
    told: list[str] = []
    assert score(folder, announce=told.append).value("accuracy") == pytest.approx(7 / 14)
    assert not any("suite" in line for line in told)
    monkeypatch.delenv("SNELLEN_SUITES")
    assert score(folder, announce=told.append).value("accuracy") == pytest.approx(
        (2 / 8 + 1 / 2 + 1) / 3
    )
    [line] = [line for line in told if "suite" in line]
    assert (
        "its suite 'small' is not available, so its benchmarks have equal weights" in line
        and "sn.add_suites" in line
    )


def test_the_page_of_a_run_says_so_until_its_suite_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite_of(tmp_path, monkeypatch, "micro", "questions")
    folder = run(always("A"), "small", "vanilla", tmp_path).runs[0].folder
    index, said = tmp_path / "index.db", "is not available, so its benchmarks have equal weights"
    suites = os.environ["SNELLEN_SUITES"]
    monkeypatch.delenv("SNELLEN_SUITES")
    with serving(folder.parent, index=index) as client:
        page = client.get("/run", params={"run": "run"}).text
        assert said in page and "58.3%" in page
    monkeypatch.setenv("SNELLEN_SUITES", suites)
    with serving(folder.parent, index=index) as client:
        page = client.get("/run", params={"run": "run"}).text
        assert said not in page and "50.0%" in page


def test_what_a_number_lacks_of_its_suite_stands_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite_of(tmp_path, monkeypatch, "macro", "dimensions")
    results = run(always("A"), ["small/large"], "vanilla", tmp_path, limit=4)
    means = [*rows_of(results, metric="capability"), *rows_of(results, metric="headline")]
    partial = {row.dimension: row.partial for row in means}
    asked = "only some of the questions of large were run"
    assert partial == {
        "Naming": f"without little; {asked}",
        "*": f"1 of 2 dimensions; 1 of all 3 benchmarks; {asked}",
    }
    page = results.report(tmp_path / "r.md").read_text("utf-8")
    assert (
        "Naming: accuracy of 1 benchmark; partial, without little. Only some of the questions of large"
        in page
    )
    assert f"Partial: 1 of 3 benchmarks with options; {asked}." in page


def test_models_are_ranked_only_where_they_were_measured_alike_and_the_table_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite_of(tmp_path, monkeypatch, "macro", "dimensions")
    whole = run(Scripted(lambda request: "(A)", name="a"), "small", "vanilla", tmp_path, "whole")
    b, c = (Scripted(lambda request: "(B)", name=name) for name in "bc")
    two = run(b, ["small/large", "small/other"], "vanilla", tmp_path, "two")
    one = run(c, "small/little", "vanilla", tmp_path, "one")
    results = Results([*whole.runs, *two.runs])
    ranks = {row.model: row for row in rows_of(results, metric="average_rank")}
    # In Naming, where "b" would share the second rank, it lacks a benchmark: Telling alone is ranked.
    assert {name: row.estimate.value for name, row in ranks.items()} == {"a": 1.0, "b": 2.0}
    told = "1 of 2 dimensions: in Naming the models were not measured alike"
    assert {row.partial for row in ranks.values()} == {told}
    page = results.report(tmp_path / "r.md").read_text("utf-8")
    assert f"Average rank; partial, {told}." in page
    assert "Naming: accuracy of 2 benchmarks; partial (b, generation): without little." in page
    assert "Under generation, the models answered different questions" in page
    apart = rows_of(Results([*two.runs, *one.runs]), metric="average_rank")
    assert [(row.estimate.value, row.reason) for row in apart] == [(None, "not measured alike")] * 2


def test_dimensions_are_ranked_by_two_decimals_rounded_half_up() -> None:
    """56.125 is printed as 56.13, which ties with it; by the binary fraction alone it would come second."""

    def capable(value: float) -> dict[str, Result]:
        estimate = Estimate(value, None, None, None, 800)
        return {
            "CG": Result(
                "m", "*", "generation", "generation", "capability", estimate, "CG", unit="share"
            )
        }

    ranks = average_ranks([capable(0.56125), capable(0.5613)])
    assert [rank.value for rank in ranks if rank] == [1.0, 1.0]


def test_predictions_keep_what_they_have_in_common_once_while_they_are_scored(
    questions: Benchmark, tmp_path: Path
) -> None:
    """A journal spells out the presentation and the names in every line; half a million lines must not."""
    folder = run(always("A"), str(questions.folder), "vanilla", tmp_path).runs[0].folder
    manifest, samples = read_manifest(folder), {sample.id: sample for sample in questions.samples()}
    name = questions.spec.name
    asked = index_journals(folder, manifest, {name: dict.fromkeys(samples, 0)})
    reader = PartReader(folder, manifest, asked.journals)
    part = reader.read(name, samples, asked.positions[name, 0], ReadingRules("standard", "mean"))
    predictions = [
        prediction for tests in part.predictions.values() for prediction in tests.values()
    ]
    assert len(predictions) == 12
    assert len({id(prediction.variant) for prediction in predictions}) == 1
    assert len({id(prediction.protocol) for prediction in predictions}) == 1
    assert all(
        prediction.sample_id is samples[prediction.sample_id].id for prediction in predictions
    )
    assert len({id(option) for sample in samples.values() for option in sample.options}) == 4


def test_a_scored_run_holds_few_of_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_records, "BYTES_IN_MEMORY", 1)
    monkeypatch.setattr(stored_records, "MAX_RECORDS_OPEN", 1)
    made = small.built(small.rows(600), tmp_path / "made")
    folder = run(always("A"), str(made.folder), "instability?m=5", tmp_path / "runs").runs[0].folder
    tracemalloc.start()
    try:
        [scored] = score_run(folder).benchmarks
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(scored.predictions) == 3000 and held < 200 * 3000
