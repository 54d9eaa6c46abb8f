"""From a journal to scores, through the front door; instruments of known behaviour must land where they must."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import small
from snellen.api import Results, evaluate, score
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import select
from snellen.errors import DataError, UnknownNameError
from snellen.metrics.declaration import declared_row
from snellen.models.embedded import Scripted
from snellen.reasons import word_reason
from snellen.records import Failure, Prediction, Request, Response, Score
from snellen.runs.run_folder import journals
from snellen.scoring.choice_metrics import CIRCULAR_ACCURACY

CHOICES = (
    "vanilla",
    "circular",
    "instability?m=3",
    "likelihood?m=2",
    "circular?by=likelihood",
    "vanilla?labels=random&in_context=true",
)
CHANCE_PROTOCOLS = ("vanilla", "circular?all_passes=true", "likelihood")


def run(model: Any, benchmarks: Any, protocols: Any, folder: Path, **settings: Any) -> Results:
    return evaluate(model, benchmarks, protocols, runs=folder, name="run", **settings)


def scores_of(results: Results, metric: str) -> dict[str, float | None]:
    found = [
        s
        for scored in results.runs
        for b in scored.benchmarks
        for s in b.scores
        if s.metric == metric
    ]
    assert len({(s.protocol, s.sample_id, s.turn) for s in found}) == len(found)
    return {s.sample_id: s.value for s in found}


def every_score(results: Results) -> list[Score]:
    return [s for scored in results.runs for b in scored.benchmarks for s in b.scores]


def reasons_of(results: Results, metric: str) -> Counter[str]:
    return Counter(
        word_reason(s.reason, s.detail)
        for scored in results.runs
        for b in scored.benchmarks
        for s in b.scores
        if s.metric == metric
    )


# --- the oracle --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_oracle_is_right_on_the_whole_eye_chart_under_every_protocol(
    eyechart: Mapping[str, Benchmark], tmp_path: Path
) -> None:
    protocols = (*CHOICES, "dialogue?m=2", "dialogue?history=gold", "dialogue?by=likelihood")
    results = run("snellen:oracle", "eyechart", protocols, tmp_path, limit=60)
    rows = [row for row in results.rows if row.benchmark != "*"]
    assert {row.benchmark for row in rows} == {spec.name for spec in select("eyechart")}
    assert {row.protocol for row in rows} == set(protocols)
    for row in rows:
        assert (row.estimate.unscored, row.estimate.errors) == (0, 0), row
        if declared_row(row.metric).better == "lower" or row.metric in ("tie_rate", "round_slope"):
            assert row.estimate.value == 0.0, row
        elif row.metric == "round_correlation":  # not defined where all rounds are the same
            assert row.estimate.value is None, row
        elif row.metric not in ("cider", "capability", "headline"):
            assert row.estimate.value == pytest.approx(1.0, abs=1e-12), row
    assert results.value("accuracy", protocol="vanilla") == 1.0


def test_the_oracle_is_right_on_easy_vqa(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("easy_vqa", reason="waits for easy-vqa")
    protocols = ("vanilla", "circular", "likelihood")
    results = run("snellen:oracle", "easy-vqa", protocols, tmp_path, limit=100)
    for protocol in protocols:
        assert results.value("accuracy", protocol=protocol) == 1.0
    assert results.value("circular_accuracy", protocol="circular") == 1.0


def test_the_oracle_is_refused_where_answers_are_hidden(
    questions: Benchmark, tmp_path: Path
) -> None:
    hidden = small.built([{**row, "answer": None} for row in small.rows(4)], tmp_path / "hidden")
    with pytest.raises(DataError, match="are hidden here, and snellen:oracle needs them"):
        run("snellen:oracle", str(hidden.folder), "vanilla", tmp_path, error_budget=1.0)


# --- chance and bias ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[2, 4])
def many(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, Benchmark]:
    """480 questions with two or four options, each about an picture-less group of its own."""
    count: int = request.param
    rows = [{k: v for k, v in row.items() if k != "image"} for row in small.rows(480, count)]
    return count, small.built(rows, tmp_path_factory.mktemp("many") / "made", name=f"many-{count}")


def near(results: Results, metric: str, protocol: str, wanted: float, n: int = 480) -> None:
    """The value is within four standard errors of a binomial."""
    value = results.value(metric, protocol=protocol)
    assert value == pytest.approx(
        wanted, abs=4 * math.sqrt(max(wanted * (1 - wanted), 1 / n) / n)
    ), (metric, protocol)


def test_guessing_lands_on_chance(many: tuple[int, Benchmark], tmp_path: Path) -> None:
    count, benchmark = many
    results = run("snellen:uniform", str(benchmark.folder), CHANCE_PROTOCOLS, tmp_path)
    for protocol in ("vanilla", "circular?all_passes=true", "likelihood"):
        near(results, "accuracy", protocol, 1 / count)
    # N independent guesses must all be right.
    near(results, "circular_accuracy", "circular?all_passes=true", count**-count)
    row = next(
        r
        for r in results.rows
        if (r.protocol, r.metric, r.benchmark) == ("vanilla", "accuracy", benchmark.name)
    )
    assert row.estimate.low is not None
    assert row.estimate.high is not None
    assert row.estimate.low < 1 / count < row.estimate.high


def test_guessing_under_likelihood_is_one_guess_for_all_rotations(
    many: tuple[int, Benchmark], tmp_path: Path
) -> None:
    count, benchmark = many
    results = run("snellen:uniform", str(benchmark.folder), "circular?by=likelihood", tmp_path)
    near(results, "circular_accuracy", "circular?by=likelihood", 1 / count)


def test_always_a_has_the_share_of_its_place_and_no_circular_accuracy(
    many: tuple[int, Benchmark], tmp_path: Path
) -> None:
    count, benchmark = many
    results = run("snellen:always-a", str(benchmark.folder), ("vanilla", "circular"), tmp_path)
    assert results.value("accuracy", protocol="vanilla") == pytest.approx(1 / count)
    assert results.value("circular_accuracy", protocol="circular") == 0.0
    assert results.value("circular_accuracy_of_parsed", protocol="circular") == 0.0
    assert results.value("hit_rate", protocol="vanilla") == 1.0


@pytest.mark.parametrize("p", [0.0, 0.3, 0.9])
def test_a_position_bias_of_known_size_has_the_accuracies_of_its_closed_form(
    p: float, many: tuple[int, Benchmark], tmp_path: Path
) -> None:
    count, benchmark = many
    results = run(
        f"snellen:biased?p={p}",
        str(benchmark.folder),
        ("vanilla", "circular?all_passes=true"),
        tmp_path,
    )
    # The right option stands first once in `count` rotations; there it is chosen with probability p + (1 - p) / N,
    # elsewhere with (1 - p) / N. Golds of `small.rows` take turns over the places.
    first, elsewhere = p + (1 - p) / count, (1 - p) / count
    near(results, "accuracy", "vanilla", first / count + elsewhere * (count - 1) / count)
    near(results, "circular_accuracy", "circular?all_passes=true", first * elsewhere ** (count - 1))
    by_gold = scores_of_protocol(results, "vanilla")
    at_first = [value for name, value in by_gold.items() if int(name[1:]) % count == 0]
    share = sum(value or 0 for value in at_first) / len(at_first)
    assert share == pytest.approx(
        first, abs=4 * math.sqrt(max(first * (1 - first), 1e-3) / len(at_first))
    )


def scores_of_protocol(
    results: Results, protocol: str, metric: str = "accuracy"
) -> dict[str, float | None]:
    every = (s for scored in results.runs for b in scored.benchmarks for s in b.scores)
    return {s.sample_id: s.value for s in every if (s.protocol, s.metric) == (protocol, metric)}


def test_a_biased_models_instability_is_the_entropy_of_its_closed_form(
    many: tuple[int, Benchmark], tmp_path: Path
) -> None:
    count, benchmark = many
    results = run(
        "snellen:always-a",
        str(benchmark.folder),
        f"instability?m={count}&in_context=false",
        tmp_path,
    )
    # Each option stands first exactly once, so each is chosen once.
    assert results.value("instability") == pytest.approx(math.log(count))
    assert results.value("accuracy") == pytest.approx(1 / count)


# --- what a question's score is ----------------------------------------------------------------------------------


def test_unparsed_is_not_right_and_what_was_parsed_stands_beside_it(
    questions: Benchmark, tmp_path: Path
) -> None:
    """q000..q011 have golds 0 1 2 3 0 1 ...: four right, four wrong, four unparsed."""
    replies = {
        f"q{i:03d}": ["({})".format("ABCD"[i % 4]), f"({'ABCD'[(i + 1) % 4]})", "Well."][i % 3]
        for i in range(12)
    }
    results = run(Scripted(replies), str(questions.folder), "vanilla", tmp_path)
    rows = {
        row.metric: row.estimate
        for row in results.rows
        if row.benchmark == "mine" and not row.slice
    }
    assert (rows["accuracy"].value, rows["accuracy"].n, rows["accuracy"].unscored) == (
        pytest.approx(1 / 3),
        12,
        0,
    )
    assert (rows["accuracy_of_parsed"].value, rows["accuracy_of_parsed"].n) == (0.5, 8)
    assert rows["accuracy_of_parsed"].unscored == 4
    assert (rows["accuracy_upper"].value, rows["unparsed_rate"].value) == (
        pytest.approx(2 / 3),
        pytest.approx(1 / 3),
    )
    assert rows["hit_rate"].value == pytest.approx(8 / 12)
    assert reasons_of(results, "accuracy_of_parsed") == {"": 8, "unparsed": 4}


def test_circular_accuracy_counts_an_unparsed_rotation_as_not_right(
    questions: Benchmark, tmp_path: Path
) -> None:
    def reply(request: Request) -> str:
        number = int(request.sample_id[1:])
        gold, test = number % 4, request.variant.test
        if number == 0:
            return "Well." if test == 2 else naming(request, gold)
        if number == 1:
            return naming(request, (gold + 1) % 4)
        if number == 2:
            return naming(request, gold if test < 3 else (gold + 1) % 4)
        return naming(request, gold)

    results = run(Scripted(reply), str(questions.folder), "circular", tmp_path)
    values = scores_of(results, "circular_accuracy")
    assert [values[f"q{i:03d}"] for i in range(4)] == [0.0, 0.0, 0.0, 1.0]
    assert results.value("circular_accuracy") == pytest.approx(9 / 12)
    assert results.value("circular_accuracy_of_parsed") == pytest.approx(9 / 11)
    assert results.value("circular_accuracy_upper") == pytest.approx(10 / 12)
    # Accuracy is that of the first pass, which an early stop cannot bend.
    assert results.value("accuracy") == pytest.approx(11 / 12)


def naming(request: Request, option: int) -> str:
    return f"({request.variant.labels[request.variant.order.index(option)]})"


def test_a_failed_first_pass_is_an_error_and_not_a_question_less(
    questions: Benchmark, tmp_path: Path
) -> None:
    def reply(request: Request) -> Response:
        if request.variant.test == 0 and request.sample_id < "q004":
            return Response(error=Failure("timeout", "late"))
        return Response(text=naming(request, int(request.sample_id[1:]) % 4))

    results = run(
        Scripted(reply),
        str(questions.folder),
        "circular?all_passes=true",
        tmp_path,
        error_budget=1.0,
    )
    rows = {
        row.metric: row.estimate
        for row in results.rows
        if row.benchmark == "mine" and not row.slice
    }
    for metric in (
        "accuracy",
        "accuracy_of_parsed",
        "circular_accuracy",
        "hit_rate",
        "circular_accuracy_upper",
    ):
        assert (rows[metric].value, rows[metric].n, rows[metric].errors) == (1.0, 8, 4), metric


def test_the_entropy_of_a_question_waits_for_all_its_presentations(
    questions: Benchmark, tmp_path: Path
) -> None:
    results = run(
        Scripted(lambda request: "(A)"), str(questions.folder), "instability?m=4", tmp_path
    )
    assert reasons_of(results, "instability") == {"": 12}
    [journal] = journals(tmp_path / "run")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-2]))
    stopped = score(tmp_path / "run")
    assert reasons_of(stopped, "instability") == {"": 11, "not asked": 1}
    assert stopped.value("instability") == pytest.approx(results.value("instability"))
    came = {
        s.sample_id: s.n_presentations for s in every_score(stopped) if s.metric == "instability"
    }
    assert came == {f"q{i:03d}": 4 if i < 11 else 2 for i in range(12)}


def test_a_question_whose_options_keep_their_places_has_no_verdict_of_circular_eval(
    tmp_path: Path,
) -> None:
    made = small.built(
        [{**row, "tag_rotations": "single-pass"} for row in small.rows(2)], tmp_path / "made"
    )
    results = run(Scripted(lambda request: "(A)"), str(made.folder), "circular", tmp_path)
    assert scores_of(results, "accuracy") == {"q000": 1.0, "q001": 0.0}
    for metric in (*CIRCULAR_ACCURACY.names, "circular_drop", "consistency"):
        assert reasons_of(results, metric) == {"not rotated": 2}, metric


def test_presentations_are_scored_by_their_number_in_whatever_order_they_were_answered(
    questions: Benchmark, tmp_path: Path
) -> None:
    for protocol in ("instability?m=2", "instability?m=3"):
        results = evaluate(
            Scripted(lambda request: "(A)"),
            str(questions.folder),
            protocol,
            runs=tmp_path,
            name="run",
        )
        before = results.runs[0].benchmarks[0].predictions
        [journal] = journals(tmp_path / "run")
        journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[::-1]))
        after = score(tmp_path / "run").runs[0].benchmarks[0].predictions
        tests: dict[tuple[str, str], list[int]] = {}
        for p in after:
            tests.setdefault((p.protocol, p.sample_id), []).append(p.variant.test)
        assert tests == {place: list(range(len(some))) for place, some in tests.items()}
        assert sorted(map(msgspec.json.encode, after)) == sorted(map(msgspec.json.encode, before))


def test_no_verdict_of_circular_eval_is_given_while_a_right_pass_was_never_asked(
    questions: Benchmark, tmp_path: Path
) -> None:
    """Not even the upper bound: an unparsed reply may be counted as right, a question that nobody asked may not."""
    model = Scripted(lambda request: naming(request, int(request.sample_id[1:]) % 4))
    run(model, str(questions.folder), "circular?all_passes=true", tmp_path)
    [journal] = journals(tmp_path / "run")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    stopped = score(tmp_path / "run")
    for metric in (*CIRCULAR_ACCURACY.names, "circular_drop", "consistency"):
        assert reasons_of(stopped, metric) == {"": 11, "not asked": 1}, metric


def test_why_nothing_could_be_parsed_is_said_where_all_presentations_have_the_same_reason(
    tmp_path: Path,
) -> None:
    refusal, chatter = "I'm sorry, I cannot tell.", "Well."
    replies = {
        "q000": (refusal, refusal),
        "q001": (refusal, chatter),
        "q002": (chatter, ""),
        "q003": (refusal, "(A)"),
    }
    model = Scripted(lambda request: replies[request.sample_id][request.variant.test])
    four = small.built(small.rows(4), tmp_path / "four")
    results = run(model, str(four.folder), "instability?m=2", tmp_path)
    told = {
        s.sample_id: (s.reason, s.detail)
        for s in every_score(results)
        if s.metric == "accuracy_of_parsed"
    }
    assert told == {
        "q000": ("refused", ""),
        "q001": ("unparsed", ""),
        "q002": ("unparsed", ""),
        "q003": (None, ""),
    }


def test_an_unfinished_run_counts_what_was_never_asked(
    questions: Benchmark, tmp_path: Path
) -> None:
    run(Scripted(lambda request: "(A)"), str(questions.folder), "vanilla", tmp_path)
    [journal] = journals(tmp_path / "run")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:5]))
    results = score(tmp_path / "run")
    assert reasons_of(results, "accuracy") == {"": 5, "not asked": 7}


def test_hidden_answers_give_no_accuracy_but_the_hit_rate(tmp_path: Path) -> None:
    hidden = small.built([{**row, "answer": None} for row in small.rows(4)], tmp_path / "hidden")
    results = run(
        Scripted(lambda request: "(A)"), str(hidden.folder), ("vanilla", "circular"), tmp_path
    )
    assert reasons_of(results, "accuracy") == reasons_of(
        results, "circular_accuracy_upper"
    ) | reasons_of(results, "accuracy")
    assert set(reasons_of(results, "circular_accuracy")) == {"hidden answer"}
    rows = [
        r for r in results.rows if r.metric == "accuracy" and r.benchmark == "mine" and not r.slice
    ]
    assert {
        (r.estimate.value, r.estimate.n, r.estimate.unscored, r.estimate.errors) for r in rows
    } == {(None, 0, 4, 0)}
    assert results.value("hit_rate", protocol="vanilla") == 1.0


def test_each_benchmark_is_scored_under_the_protocols_that_asked_it(tmp_path: Path) -> None:
    model = Scripted(lambda request: "(A)")
    for name, protocol in (("one", "vanilla"), ("other", "circular")):
        made = small.built(small.rows(2), tmp_path / name, name=name)
        results = run(model, str(made.folder), protocol, tmp_path)
    results = score(tmp_path / "run")
    assert {(s.benchmark, s.protocol) for s in every_score(results)} == {
        ("one", "vanilla"),
        ("other", "circular"),
    }


def test_answers_that_come_later_score_an_old_run(questions: Benchmark, tmp_path: Path) -> None:
    made = small.built([{**row, "answer": None} for row in small.rows(4)], tmp_path / "made")
    before = run(Scripted(lambda request: "(A)"), str(made.folder), "vanilla", tmp_path)
    assert before.value("accuracy") is None
    small.built(small.rows(4), tmp_path / "made")
    assert score(tmp_path / "run").value("accuracy") == 0.25


def test_text_metrics_are_means_over_presentations(tmp_path: Path) -> None:
    rows = [
        {"id": f"q{i}", "question": f"What is number {i}?", "answer": ["a cat", "cat"]}
        for i in range(3)
    ]
    made = small.built(rows, tmp_path / "made", metrics=("exact_match",))
    replies = {0: "a cat", 1: "cat", 2: "a dog", 3: "dog"}
    model = Scripted(lambda request: replies[request.variant.test])
    results = run(model, str(made.folder), ("vanilla", "instability?m=4"), tmp_path)
    assert scores_of_protocol(results, "vanilla", "exact_match") == {
        "q0": 1.0,
        "q1": 1.0,
        "q2": 1.0,
    }
    assert scores_of_protocol(results, "instability?m=4", "exact_match") == {
        "q0": 0.5,
        "q1": 0.5,
        "q2": 0.5,
    }


def test_an_open_question_without_an_answer_is_told_once_and_counted_beside_the_others(
    tmp_path: Path,
) -> None:
    rows = [
        {"id": f"q{i}", "question": f"What is number {i}?", "answer": ["a cat"][i:]}
        for i in range(2)
    ]
    made = small.built(rows, tmp_path / "made", metrics=("exact_match",))
    results = run(Scripted(lambda request: "a cat"), str(made.folder), "vanilla", tmp_path)
    assert scores_of(results, "exact_match") == {"q0": 1.0, "q1": None}
    assert reasons_of(results, "exact_match") == {"": 1, "hidden answer": 1}


def test_a_metric_that_nobody_has_is_met_with_a_suggestion(tmp_path: Path) -> None:
    made = small.built(
        [{"question": "What?", "answer": "a"}], tmp_path / "made", metrics=("exact_mtch",)
    )
    with pytest.raises(
        UnknownNameError, match="unknown metric 'exact_mtch'; did you mean exact_match"
    ):
        run(Scripted(lambda request: "a"), str(made.folder), "vanilla", tmp_path)


# --- reading a run again -----------------------------------------------------------------------------------------


def test_scoring_again_asks_nothing_and_changes_nothing(
    questions: Benchmark, tmp_path: Path
) -> None:
    results = run("snellen:uniform", str(questions.folder), ("circular", "likelihood"), tmp_path)
    files = {
        p.name: p.read_bytes()
        for p in (tmp_path / "run").iterdir()
        if p.suffix in (".jsonl", ".json")
    }
    scoring = {"predictions.jsonl", "scores.jsonl", "results.json", "scoring.json"}
    assert set(files) == {"manifest.json", ".manifest.json", "journal-0.jsonl", *scoring}
    assert score(tmp_path / "run").rows == results.rows
    assert files == {
        p.name: p.read_bytes()
        for p in (tmp_path / "run").iterdir()
        if p.suffix in (".jsonl", ".json")
    }
    lines = files["scores.jsonl"].splitlines()
    assert [msgspec.json.decode(line, type=Score) for line in lines] == list(
        results.runs[0].benchmarks[0].scores
    )
    predictions = [
        msgspec.json.decode(line, type=Prediction)
        for line in files["predictions.jsonl"].splitlines()
    ]
    assert len(predictions) == len(files["journal-0.jsonl"].splitlines())
    assert len(json.loads(files["results.json"])) == len(results.rows)


def test_a_run_is_read_anew_with_another_extractor_or_rule(
    questions: Benchmark, tmp_path: Path
) -> None:
    model = Scripted(
        lambda request: "It is the cat.",
        scores=lambda request: [-1.0 * len(text) for text in request.continuations],
    )
    results = run(model, str(questions.folder), ("vanilla", "likelihood"), tmp_path)
    assert results.value("accuracy", protocol="vanilla") == 0.25
    readers = {
        p.extractor_version
        for b in score(tmp_path / "run", extractor="strict", likelihood_rule="byte")
        .runs[0]
        .benchmarks
        for p in b.predictions
    }
    assert readers >= {"likelihood-byte-1"}
    assert len(readers) == 2
    # Per byte all options are alike: nothing can be said.
    alike = score(tmp_path / "run", likelihood_rule="byte")
    assert alike.value("accuracy", protocol="likelihood") == 0.0
    assert alike.value("accuracy_of_parsed", protocol="likelihood") is None
    with pytest.raises(UnknownNameError, match="unknown extractor 'stric'; did you mean strict"):
        score(tmp_path / "run", extractor="stric")
    with pytest.raises(
        UnknownNameError,
        match=r"unknown value of scoring\.likelihood_rule 'sums'; did you mean sum",
    ):
        score(tmp_path / "run", likelihood_rule="sums")


def test_a_benchmark_that_changed_since_is_not_scored(tmp_path: Path) -> None:
    made = small.built(small.rows(4), tmp_path / "made")
    run(Scripted(lambda request: "(A)"), str(made.folder), "vanilla", tmp_path)
    small.built(small.rows(5), tmp_path / "made")
    with pytest.raises(
        DataError,
        match=r"because the answers of mine are not available .* rebuild that version",
    ):
        score(tmp_path / "run")


def test_the_names_of_options_and_not_their_places_are_scored_under_every_protocol(
    tmp_path: Path,
) -> None:
    """A model that says the right option's text has all right, however options are stored, shown and marked."""
    rows = small.rows(12)
    golds = {row["id"]: row["options"][row["answer"]] for row in rows}
    for name, kept in (("same", rows), ("turned", [_turned(row) for row in rows])):
        made = small.built(kept, tmp_path / name, name=name)
        protocols = ("vanilla", "circular", "instability?m=5&perturb=all", "vanilla?labels=number")
        model = Scripted(lambda request: golds[request.sample_id])
        results = evaluate(model, str(made.folder), protocols, runs=tmp_path / "runs", name=name)
        for protocol in protocols:
            assert results.value("accuracy", protocol=protocol) == 1.0


def _turned(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "options": row["options"][::-1],
        "answer": len(row["options"]) - 1 - row["answer"],
    }


def test_a_sample_and_a_limit_narrow_what_is_scored(questions: Benchmark, tmp_path: Path) -> None:
    model = Scripted(lambda request: "(A)")
    run(model, str(questions.folder), "vanilla", tmp_path)
    fewer = run(model, str(questions.folder), "vanilla", tmp_path, limit=5)
    assert len(scores_of(fewer, "accuracy")) == 5
    easy = run(model, str(questions.folder), "vanilla", tmp_path, where="level == 'easy'")
    assert len(scores_of(easy, "accuracy")) == 6


def test_a_table_of_ones_own_goes_the_whole_way(tmp_path: Path) -> None:
    path = small.write(small.rows(3), tmp_path / "t.jsonl")
    made = build_benchmark(small.spec_of(path), source=tmp_path, to=tmp_path / "made")
    assert run("snellen:oracle", str(made.folder), "vanilla", tmp_path).value("accuracy") == 1.0


def test_a_reply_without_errors_is_right_though_its_error_rate_is_zero(tmp_path: Path) -> None:
    rows = [
        {"id": f"q{i}", "question": "Read it.", "answer": text, "image": small.cell(i)}
        for i, text in enumerate(("a cat", "a dog"))
    ]
    folder = small.built(
        rows, tmp_path, formulation="text", metrics=("word_error_rate", "overall_accuracy")
    ).folder
    results = evaluate(lambda question, images: "a cat", str(folder), runs=tmp_path, name="cat")
    assert results.value("word_error_rate") == 0.25  # one of four words
    assert results.value("overall_accuracy") == 0.5
