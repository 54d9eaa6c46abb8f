"""Metrics of the whole: their counts, their numbers through the front door, their intervals."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pycocoevalcap.bleu.bleu import Bleu

import small
from snellen import registry
from snellen.analysis.group_means import estimate_mean
from snellen.analysis.intervals import UNIT_INTERVAL
from snellen.analysis.linearisation import linearised_estimates, trend_estimates
from snellen.api import Results, evaluate, score
from snellen.building.benchmark import Benchmark
from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.errors import DataError, MissingExtraError, UnknownNameError
from snellen.metrics import captions
from snellen.metrics.captions import BLEU_4, meteor_from_sums
from snellen.metrics.declaration import CorpusCountMetric, corpus_metric, find_metric, reply_metric
from snellen.metrics.hallucination import LEGACY_POPE, POPE
from snellen.metrics.kie import ENTITY_F1
from snellen.metrics.numbers import COUNTING
from snellen.metrics.question_counts import QuestionCounts, question_scores
from snellen.models.embedded import Scripted
from snellen.reasons import Reason
from snellen.records import Failure, Request, Response, Result, Sample, Score, Turn
from snellen.scoring.scored_run import ScoredBenchmark, by_row
from snellen.suites.lvlm_ehub.extraction import KIE_WORD_F1

POOLED = {
    name: metric
    for name in registry.names("metrics")
    if (metric := find_metric(name)).computed_over == "counts"
}


def bleu_4(replies: Sequence[str], references: captions.References) -> captions.CorpusScore:
    """A number of the corpus that is not the mean of its captions'."""
    counts = captions.bleu_counts(replies, references)
    sums = [sum(column) for column in zip(*counts, strict=True)]
    return captions.CorpusScore(
        captions.bleu_from_sums(sums)[3], tuple(captions.bleu_from_sums(own)[3] for own in counts)
    )


WRONG = corpus_metric(bleu_4, name="bleu", unit="share")
CAPTIONS = [
    "a dog runs",
    "two cats on a red sofa",
    "a man",
    "the street at night",
    "a dog on a sofa",
]


UNDEFINED = {
    "chair_i",
    "pope_precision",
    "legacy_pope_precision",
    "count_mae",
    "count_rmse",
    "legacy_kie_word_precision",
}
"""Rows of which nothing follows where nothing was said (yes, an object), or no number was read."""


GOLDS = {
    "pope": "yes",
    "counting": "3",
    "number": "3",
    "math": "3",
    "boxes": "[1, 2, 3, 4]",
    "mask_points": "mask 2x1 in 1: 1 1",
    "points": "[1, 2, 3, 4]",
    "clicks": "box 1 2 3 4",
    "moments": "3 - 5",
    "omnidocbench": json.dumps(
        {
            "texts": [{"text": "the red dog", "order": 1}],
            "formulas": [{"text": "x + y", "order": 2}],
            "tables": [{"text": "<table><tr><td>a</td></tr></table>", "order": 3}],
        }
    ),
}
"""What a metric has to have read of a gold, by a part of its name."""


ALL_WRONG = [
    pytest.param(name, reply, marks=pytest.mark.slow if "meteor" in name else ())
    for name in sorted(POOLED)
    for reply in ("zzz", "", "no")
    if reply == "zzz" or "meteor" not in name  # each starts a Java machine for 12 s
]


@pytest.mark.parametrize(("name", "reply"), ALL_WRONG)
def test_replies_that_are_all_wrong_have_a_value(name: str, reply: str) -> None:
    metric = POOLED[name]
    assert isinstance(metric, CorpusCountMetric)
    if name == "math_accuracy":
        pytest.importorskip("math_verify", reason="waits for math-verify (extra `math`)")
    gold = next((gold for part, gold in GOLDS.items() if part in name), "the red dog")
    counts = [
        counted
        for counted in metric.count([reply] * 2, [[gold]] * 2)
        if not isinstance(counted, str)
    ]
    rows = metric.compute(tuple(map(sum, zip(*counts, strict=True))))
    unknown = [row for row, value in zip(metric.rows, rows, strict=True) if value is None]
    assert len(counts) == 2
    assert all(row.undefined for row in unknown)
    assert {row.name for row in unknown} <= UNDEFINED


def open_questions(
    folder: Path, golds: list[list[str]], name: str = "mine", **fields: Any
) -> Benchmark:
    rows = [
        {"id": f"q{i}", "question": f"What is number {i}?", "answer": gold, "image": small.cell(i)}
        for i, gold in enumerate(golds)
    ]
    return small.built(rows, folder, name=name, **fields)


def rows(results: Results, protocol: str = "vanilla") -> dict[str, Result]:
    return {
        r.metric: r
        for r in results.rows
        if r.benchmark == "mine" and not r.slice and r.protocol == protocol
    }


# --- counts ------------------------------------------------------------------------------------------------------


def test_meteor_of_nothing_is_nothing() -> None:
    assert meteor_from_sums([0.0] * 23) == 0.0


def test_what_a_gold_cannot_be_used_for_is_said() -> None:
    assert POPE.count(["yes"], [["a dog"]]) == ["gold 'a dog' is neither yes nor no"]
    assert POPE.count(["yes"], [["yes", "no"]]) == ["gold 'yes / no' is neither yes nor no"]
    [why] = ENTITY_F1.count(["x"], [["-"]])
    assert "no letter or digit left" in why
    assert KIE_WORD_F1.count(["x"], [[]]) == ["no gold"]


def test_the_legacy_parser_of_pope_takes_everything_else_for_a_yes() -> None:
    replies, golds = ["Sorry, I cannot tell", "No."], [["no"], ["no"]]
    sums = [sum(column) for column in zip(*LEGACY_POPE.count(replies, golds), strict=True)]
    assert (
        dict(zip(LEGACY_POPE.names, LEGACY_POPE.compute(sums), strict=True))["legacy_pope_accuracy"]
        == 0.5
    )
    sums = [sum(column) for column in zip(*POPE.count(replies, golds), strict=True)]
    assert dict(zip(POPE.names, POPE.compute(sums), strict=True))["pope_unparsed_rate"] == 0.5


@pytest.mark.parametrize("name", POOLED)
def test_the_first_row_stands_for_its_metric_and_speaks_of_single_questions(name: str) -> None:
    pooled: CorpusCountMetric = POOLED[name]
    assert find_metric(name).names[0] == pooled.names[0] == pooled.per_question[0]
    assert set(pooled.per_question) <= set(pooled.names)


# --- the front door ----------------------------------------------------------------------------------------------


def test_bleu_of_a_benchmark_is_that_of_its_corpus_and_not_the_mean_of_its_captions(
    tmp_path: Path,
) -> None:
    golds = [
        ["a dog runs fast"],
        ["two cats on a big red sofa", "cats"],
        ["a man rides a horse"],
        ["a street"],
    ]
    replies = {
        "q0": "a dog runs",
        "q1": "cats on a red sofa",
        "q2": "a man rides a horse",
        "q3": "",
    }
    made = open_questions(tmp_path / "made", golds, metrics=("bleu_1", "bleu_4"))
    found = rows(evaluate(Scripted(replies), str(made.folder), runs=tmp_path, name="run"))
    expected, _ = Bleu(4).compute_score(
        dict(enumerate(golds)), {i: [replies[f"q{i}"]] for i in range(4)}, verbose=0
    )
    corpus = bleu_4([replies[f"q{i}"] for i in range(4)], golds)
    for order in (1, 4):
        one = found[f"bleu_{order}"].estimate
        assert one.value == pytest.approx(expected[order - 1], abs=1e-9)
        assert (one.n, one.unscored, one.errors) == (4, 0, 0)
        assert one.low <= one.value <= one.high
    assert abs(corpus.value - statistics.mean(corpus.per_caption)) > 0.01
    kept = [
        json.loads(line) for line in (tmp_path / "run" / "scores.jsonl").read_text().splitlines()
    ]
    each = [one["value"] for one in kept if one["metric"] == "bleu_4"]
    assert each == pytest.approx(corpus.per_caption, abs=1e-12)


def test_pope_reads_open_replies_three_ways_on_one_n(tmp_path: Path) -> None:
    replies = [
        "Yes.",
        "No, there is none.",
        "Sorry, I cannot tell.",
        "Yes",
        "no",
        "There is a dog in the picture.",
    ]
    golds = ["yes", "no", "yes", "no", "yes", "yes"]
    made = open_questions(tmp_path / "made", [[gold] for gold in golds])
    model = Scripted({f"q{i}": reply for i, reply in enumerate(replies)})
    evaluate(model, str(made.folder), runs=tmp_path, name="run")
    found = rows(score(tmp_path / "run", metrics=["pope"]))
    expected = (3 / 6, 2 / 3, 2 / 4, 4 / 7, 3 / 6, 1 / 6)
    for row, value in zip(POPE.names, expected, strict=True):
        assert found[row].estimate.value == pytest.approx(value), row
        assert found[row].estimate.n == 6


def test_pope_takes_the_options_yes_and_no_and_leaves_other_questions_alone(tmp_path: Path) -> None:
    rows_ = [
        {"id": f"q{i}", "question": f"Is {i} there?", "options": ["yes", "no"], "answer": i % 2}
        for i in range(6)
    ]
    rows_.append({"id": "other", "question": "Which?", "options": ["cat", "dog"], "answer": 0})
    made = small.built(rows_, tmp_path / "made", name="mine")
    replies = {
        "q0": "yes",
        "q1": "yes",
        "q2": "(B)",
        "q3": "(B)",
        "q4": "who knows",
        "q5": "no",
        "other": "cat",
    }
    evaluate(
        Scripted(replies), str(made.folder), ("vanilla", "circular"), runs=tmp_path, name="run"
    )
    for protocol in ("vanilla", "circular"):
        found = rows(score(tmp_path / "run", metrics=["pope"]), protocol)
        # Golds: yes no yes no yes no. Right: q0, q3, q5; q4 is read as neither.
        assert found["pope_accuracy"].estimate.value == pytest.approx(3 / 6)
        assert found["pope_precision"].estimate.value == pytest.approx(1 / 2)
        assert found["pope_recall"].estimate.value == pytest.approx(1 / 3)
        assert found["pope_yes_rate"].estimate.value == pytest.approx(2 / 6)
        assert found["pope_unparsed_rate"].estimate.value == pytest.approx(1 / 6)
        assert found["pope_f1"].estimate.n == 6


def test_errors_hidden_answers_and_unusable_golds_are_counted_beside_n(tmp_path: Path) -> None:
    made = open_questions(tmp_path / "made", [[], ["no"], ["yes"], ["a dog"]])

    def reply(request: Request) -> Response:
        return (
            Response(text="yes")
            if request.sample_id != "q1"
            else Response(error=Failure("timeout", "late"))
        )

    evaluate(Scripted(reply), str(made.folder), runs=tmp_path, name="run", error_budget=1.0)
    results = score(tmp_path / "run", metrics=["pope"])
    one = rows(results)["pope_f1"].estimate
    assert (one.n, one.unscored, one.errors) == (1, 2, 1)
    assert one.value == 1.0
    scores = [s for s in results.runs[0].benchmarks[0].scores if s.metric == "pope_accuracy"]
    assert {s.sample_id: (s.value, s.reason) for s in scores} == {
        "q0": (None, "hidden answer"),
        "q1": (None, "request failed"),
        "q2": (1.0, None),
        "q3": (None, "metric undefined"),
    }
    assert {(s.protocol, s.method, s.benchmark, s.turn) for s in scores} == {
        ("vanilla", "generation", "mine", 0)
    }
    details = {s.sample_id: s.detail for s in scores}
    assert (details["q2"], details["q1"], details["q0"]) == ("", "timeout", "")
    assert "a dog" in details["q3"]


def test_a_row_that_a_single_question_does_not_have_says_so() -> None:
    [counts] = COUNTING.count(["several"], [["3"]])
    assert not isinstance(counts, str)
    tallied = QuestionCounts("vanilla", "generation", "mine", "q0", 0, "counting", counts)
    scores = {
        score.metric: (score.value, score.reason, score.detail)
        for score in question_scores([tallied], COUNTING)
    }
    assert scores["count_mae"] == (None, "metric undefined", "for a single question")
    assert scores["count_accuracy"] == (0.0, None, "")


def test_several_presentations_of_a_question_count_as_one(tmp_path: Path) -> None:
    made = open_questions(tmp_path / "made", [["Total"], ["9.00"]])
    replies = {0: "total", 1: "total", 2: "sum", 3: ""}
    model = Scripted(
        lambda request: replies[request.variant.test] if request.sample_id == "q0" else "9.00"
    )
    evaluate(model, str(made.folder), "instability?m=4", runs=tmp_path, name="run")
    found = rows(score(tmp_path / "run", metrics=["entity_f1"]), "instability?m=4")
    # q0: right 0.5, said 0.75; q1: right 1, said 1; two are wanted.
    assert found["entity_f1"].estimate.value == pytest.approx(2 * 1.5 / (1.75 + 2))
    assert found["entity_precision"].estimate.value == pytest.approx(1.5 / 1.75)
    assert found["entity_recall"].estimate.n == 2
    evaluate(model, str(made.folder), "instability?m=3", runs=tmp_path, name="run")
    found = rows(score(tmp_path / "run", metrics=["entity_f1"]), "instability?m=3")
    # The first three of them: right 2 / 3, said 1.
    assert found["entity_f1"].estimate.value == pytest.approx(2 * (2 / 3 + 1) / (2 + 2))


def test_a_single_question_has_its_own_number_and_no_interval(tmp_path: Path) -> None:
    made = open_questions(tmp_path / "made", [["a dog runs fast"]], metrics=("entity_f1",))
    one = rows(evaluate(Scripted({"q0": "a dog runs fast"}), str(made.folder), runs=tmp_path))[
        "entity_f1"
    ].estimate
    assert (one.value, one.low, one.high, one.n, one.groups) == (1.0, None, None, 1, 1)


def test_parts_of_a_benchmark_have_numbers_of_their_own(tmp_path: Path) -> None:
    table = [
        {
            "id": f"q{i}",
            "question": f"What is {i}?",
            "answer": ["a"],
            "tag_level": ("easy", "hard")[i % 2],
        }
        for i in range(8)
    ]
    made = small.built(table, tmp_path / "made", name="mine", metrics=("entity_f1",))
    model = Scripted(lambda request: "a" if int(request.sample_id[1:]) % 2 == 0 else "b")
    results = evaluate(model, str(made.folder), runs=tmp_path, name="run")
    found = {
        r.slice: r.estimate.value
        for r in results.rows
        if r.metric == "entity_f1" and r.benchmark == "mine"
    }
    assert found == {"": 0.5, "level=easy": 1.0, "level=hard": 0.0}
    assert score(tmp_path / "run").rows == results.rows


def test_a_ranking_is_read_from_the_likelihoods_of_all_options(tmp_path: Path) -> None:
    table = [
        {
            "id": f"q{i}",
            "question": f"Which is {i}?",
            "options": [f"o{k}" for k in range(12)],
            "answer": i,
        }
        for i in range(4)
    ]
    made = small.built(table, tmp_path / "made", name="mine")
    golds = {f"q{i}": i for i in range(4)}
    ranks = {"q0": 1, "q1": 2, "q2": 6, "q3": 12}

    def likelihoods(request: Request) -> list[float]:
        order = [k for k in range(12) if k != golds[request.sample_id]]
        order.insert(ranks[request.sample_id] - 1, golds[request.sample_id])
        return [-float(order.index(k)) for k in range(12)]

    model = Scripted(lambda request: "o1", scores=likelihoods)
    evaluate(model, str(made.folder), ("vanilla", "likelihood"), runs=tmp_path, name="run")
    results = score(tmp_path / "run", metrics=["ranking"])
    found = rows(results, "likelihood")
    assert found["mrr"].estimate.value == pytest.approx((1 + 1 / 2 + 1 / 6 + 1 / 12) / 4)
    assert [found[f"recall_at_{k}"].estimate.value for k in (1, 5, 10)] == [0.25, 0.5, 0.75]
    assert found["mean_rank"].estimate.value == pytest.approx(21 / 4)
    assert found["mean_rank"].estimate.n == 4
    assert "mrr" not in rows(results, "vanilla")


def test_a_ranking_without_likelihoods_is_unscored_and_says_why(tmp_path: Path) -> None:
    table = [{"id": "q0", "question": "Which?", "options": ["a", "b"], "answer": 0}]
    made = small.built(table, tmp_path / "made", name="mine")
    model = Scripted(lambda request: "a", scores=lambda request: [-1.0, -2.0])
    evaluate(model, str(made.folder), "likelihood", runs=tmp_path, name="run")
    results = score(
        tmp_path / "run", metrics=["ranking"], likelihood_rule="pmi"
    )  # which needs a baseline that was never asked
    one = rows(results, "likelihood")["mrr"].estimate
    assert (one.value, one.n, one.unscored) == (None, 0, 1)
    [why] = {
        (s.reason, s.detail)
        for b in results.runs[0].benchmarks
        for s in b.scores
        if s.metric == "mrr"
    }
    assert why == (
        "metric undefined",
        "ranking: 0 candidate scores, or some that are not numbers; score all candidates again",
    )


def test_the_trend_over_rounds_comes_with_an_interval(
    eyechart: Mapping[str, Benchmark], tmp_path: Path
) -> None:
    """Right for certain in the first round, then less and less: by the number of the dialogue."""

    def reply(request: Request) -> str:
        number = sum(map(ord, request.sample_id)) % 4
        labels = request.variant.labels
        return f"({labels[0]})" if number >= request.variant.turn else "nothing of these"

    results = evaluate(Scripted(reply), "eyechart/dialogue", "dialogue", runs=tmp_path, name="run")
    found = {
        r.metric: r.estimate
        for r in results.rows
        if r.benchmark == "eyechart/dialogue" and not r.slice
    }
    by_round = [
        (int(r.slice.removeprefix("round=")), r.estimate.value)
        for r in results.rows
        if r.metric == "accuracy" and r.slice.startswith("round=")
    ]
    xs, ys = zip(*sorted((x, y) for x, y in by_round if y is not None), strict=True)
    if len(xs) == len(by_round):
        assert found["round_slope"].value == pytest.approx(
            statistics.linear_regression(xs, ys).slope
        )
        assert found["round_correlation"].value == pytest.approx(statistics.correlation(xs, ys))
        assert found["round_slope"].low <= found["round_slope"].value <= found["round_slope"].high
    assert found["round_slope"].n == found["accuracy"].n


@pytest.mark.parametrize(("accuracies", "slope"), [((1.0, 0.5, 0.0), -0.5), ((1.0, 0.5), None)])
def test_three_rounds_are_the_fewest_that_have_a_trend(
    accuracies: tuple[float, ...], slope: float | None
) -> None:
    """Two dialogues are scored in all rounds; of a third one answer is hidden, and the others never came."""
    names = ("d0", "d1")
    turns = (Turn("Which?"),) * len(accuracies)
    samples = {name: Sample(name, "b", turns=turns, group=name) for name in (*names, "d2")}
    spec = BenchmarkSpec(
        name="b", title="b", formulation="dialogue", source=SourceSpec("table", {})
    )
    scores = [
        Score("dialogue", "generation", "b", name, turn, "accuracy", value)
        for name in names
        for turn, value in enumerate(accuracies)
    ]
    lost: tuple[Reason, ...] = ("hidden answer", "request failed", "not asked")
    scores += [
        Score("dialogue", "generation", "b", "d2", turn, "accuracy", None, reason)
        for turn, reason in enumerate(lost[: len(accuracies)])
    ]
    found = trend_estimates(
        ScoredBenchmark(spec, samples, (), by_row(scores), {}, (), None), scores
    )
    assert {name: one.value for name, one in found.items()} == (
        {"round_correlation": pytest.approx(-1.0), "round_slope": pytest.approx(slope)}
        if slope
        else {}
    )
    assert all(
        (one.n, one.unscored, one.errors, one.not_asked, one.groups) == (6, 1, 1, 1, 2)
        for one in found.values()
    )


@pytest.mark.parametrize("tagged", [True, False])
def test_exact_match_comes_by_field_and_as_the_mean_of_the_fields(
    tagged: bool, tmp_path: Path
) -> None:
    """Six receipts, all with a total, two with a company: the company counts as much as the total."""
    read = [
        {"total": "9.00"},
        {"total": "Total 5"},
        {"total": "7.5"},
        {"total": "3"},
        {"total": "1"},
        {"total": ""},
    ]
    gold = [{"total": text} for text in ("9.00", "5", "7.5", "3", "1", "2")]
    for i, (said, wanted) in enumerate([("ABC Ltd.", "abc ltd"), ("Acme", "Other")]):
        read[i]["company"], gold[i]["company"] = said, wanted
    questions, replies = [], {}
    for i, entities in enumerate(gold):
        for field, text in entities.items():
            row = {
                "id": f"{i}-{field}",
                "question": f"What is the {field}?",
                "answer": text,
                "image": small.cell(i),
            }
            questions.append(row | ({"tag_key": field} if tagged else {}))
            replies[f"{i}-{field}"] = read[i][field]
    made = small.built(questions, tmp_path / "made", name="mine")
    evaluate(Scripted(replies), str(made.folder), runs=tmp_path, name="run")
    results = score(tmp_path / "run", metrics=["field_exact_match"])
    expected = {"company": 1 / 2, "total": 4 / 6}
    part = "key={}" if tagged else "question=What is the {}?"
    for field, value in expected.items():
        [one] = [
            r
            for r in results.rows
            if r.metric == "field_exact_match" and r.slice == part.format(field)
        ]
        assert one.estimate.value == pytest.approx(value)
    found = rows(results)
    assert found["field_exact_match"].estimate.value == pytest.approx(5 / 8)
    macro = found["field_exact_match_macro"].estimate
    assert macro.value == pytest.approx(statistics.mean(expected.values()))
    assert macro.low <= macro.value <= macro.high
    assert (macro.n, macro.unscored, macro.errors) == (8, 0, 0)


def test_every_metric_is_listed_and_a_wrong_name_gets_a_suggestion() -> None:
    for name in (*POOLED, "ranking"):
        assert find_metric(name).description
    with pytest.raises(UnknownNameError, match="unknown metric 'bleu4'; did you mean bleu_4"):
        find_metric("bleu4")


@reply_metric(unit="s")
def boundless(reply: str, references: Sequence[str]) -> float:
    """Infinite for one reply."""
    return math.inf if reply == "a dog" else 2.0


def test_a_value_that_is_not_finite_is_none_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._NAMES["metrics"], "boundless", f"{__name__}:boundless")
    made = open_questions(tmp_path / "made", [["a dog runs fast today"], ["two cats on a sofa"]])
    evaluate(
        Scripted({"q0": "a dog", "q1": "two cats on a sofa"}),
        str(made.folder),
        runs=tmp_path,
        name="run",
    )
    results = score(tmp_path / "run", metrics=["boundless"])
    [scored] = results.runs[0].benchmarks
    assert [(s.value, s.reason, s.detail) for s in scored.scores_of("boundless")] == [
        (None, "metric undefined", "inf is not a finite number"),
        (2.0, None, ""),
    ]
    assert results.value("boundless", benchmark=scored.spec.name) == 2.0


def test_a_metric_that_is_no_mean_over_captions_is_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._NAMES["metrics"], "wrong", f"{__name__}:WRONG")
    made = open_questions(tmp_path / "made", [["a dog runs fast today"], ["two cats on a sofa"]])
    evaluate(
        Scripted({"q0": "a dog", "q1": "two cats on a sofa"}),
        str(made.folder),
        runs=tmp_path,
        name="run",
    )
    results = score(tmp_path / "run", metrics=["wrong"])
    [why] = {
        (s.reason, s.detail)
        for b in results.runs[0].benchmarks
        for s in b.scores
        if s.metric == "wrong"
    }
    assert why == (
        "metric undefined",
        "wrong is not a mean over captions; declare it as a CorpusCountMetric",
    )


@pytest.mark.parametrize(
    "fault",
    [
        DataError("captions of one picture alone say nothing"),
        MissingExtraError("beads", "abacus", "counting n-grams"),
    ],
)
def test_a_count_that_cannot_be_made_leaves_all_questions_without_a_value_and_says_why(
    fault: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(replies: Sequence[str], golds: Sequence[Sequence[str]]) -> list[tuple[float, ...]]:
        raise fault

    monkeypatch.setitem(registry._NAMES, "metrics", dict(registry._NAMES["metrics"]))
    registry.register("metrics", "bleu_4", replace(BLEU_4, count=count))
    made = open_questions(tmp_path / "made", [["a dog"], ["two cats"]])
    evaluate(
        Scripted({"q0": "a dog", "q1": "two cats"}), str(made.folder), runs=tmp_path, name="run"
    )
    results = score(tmp_path / "run", metrics=["bleu_4"])
    scores = [s for s in results.runs[0].benchmarks[0].scores if s.metric == "bleu_4"]
    assert [(s.value, s.reason, s.detail) for s in scores] == [
        (None, "metric undefined", str(fault))
    ] * 2
    one = rows(results)["bleu_4"].estimate
    assert (one.value, one.n, one.unscored) == (None, 0, 2)


@pytest.mark.parametrize(("off", "reason"), [(1 + 2**-24, None), (1 + 1e-5, "metric undefined")])
def test_a_mean_over_captions_may_be_off_by_the_rounding_of_single_precision_and_not_by_more(
    off: float, reason: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rounded(
        replies: Sequence[str], references: Sequence[Sequence[str]]
    ) -> captions.CorpusScore:
        """A mean of thirds."""
        return captions.CorpusScore(off / 3, (1 / 3,) * len(replies))

    monkeypatch.setitem(registry._NAMES, "metrics", dict(registry._NAMES["metrics"]))
    registry.register("metrics", "rounded", corpus_metric(rounded, unit="share"))
    made = open_questions(tmp_path / "made", [["a dog"], ["two cats"]])
    evaluate(
        Scripted({"q0": "a dog", "q1": "two cats"}), str(made.folder), runs=tmp_path, name="run"
    )
    results = score(tmp_path / "run", metrics=["rounded"])
    assert {s.reason for s in results.runs[0].benchmarks[0].scores if s.metric == "rounded"} == {
        reason
    }


# --- intervals ---------------------------------------------------------------------------------------------------


def mean_of_estimates(sums: tuple[float, ...]) -> tuple[float]:
    return (sums[0] / sums[1],)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 20)), min_size=2, max_size=60))
def test_a_mean_as_a_ratio_of_sums_has_the_interval_of_a_mean(pairs: list[tuple[int, int]]) -> None:
    """The linear case: the same estimate but for the variance of a single answer, which a mean of 0 and 1 tells."""
    values, groups = [float(value) for value, _ in pairs], [group for _, group in pairs]
    [one] = linearised_estimates(
        [(value, 1.0) for value in values], groups, mean_of_estimates, [UNIT_INTERVAL]
    )
    expected = estimate_mean(values, groups)
    assert one.value == pytest.approx(expected.value)
    assert one.groups == expected.groups
    if one.groups > 1:
        assert one.stderr == pytest.approx(expected.stderr, abs=1e-7)
    if one.groups == 2:
        assert one.low is None is one.high  # too few for a number that may be no mean
    elif one.groups > 2:
        assert one.low <= expected.low + 1e-6
        assert one.high >= expected.high - 1e-6


@pytest.mark.parametrize(("pictures", "questions"), [(3, 6), (10, 6), (80, 1)])
def test_the_interval_covers_as_often_as_it_says(pictures: int, questions: int) -> None:
    """F1 of simulated benchmarks: right 0.6, said 0.8. A bootstrap of 3 images held it 73 % of the time."""
    draw, covered = random.Random(1), 0
    for _ in range(1000):
        counts = []
        for _ in range(pictures * questions):
            said = draw.random() < 0.8
            counts.append((float(said and draw.random() < 0.75), float(said), 1.0))
        [one, *_] = linearised_estimates(
            counts,
            [i // questions for i in range(len(counts))],
            ENTITY_F1.compute,
            [UNIT_INTERVAL] * 3,
        )
        covered += one.low <= 2 * 0.6 / 1.8 <= one.high
    error = 3 * (0.95 * 0.05 / 1000) ** 0.5
    assert 0.95 - error <= covered / 1000 <= (1.0 if pictures < 30 else 0.97 + error)


def test_the_error_of_f1_is_that_of_leaving_out_each_picture_in_turn() -> None:
    """The jackknife does not linearise: another way to the same number."""
    draw = random.Random(4)
    counts = [
        (float(said and draw.random() < 0.7), float(said), 1.0)
        for said in (draw.random() < 0.8 for _ in range(200))
    ]
    sums = [sum(column) for column in zip(*counts, strict=True)]
    parts = [
        ENTITY_F1.compute(tuple(s - c for s, c in zip(sums, one, strict=True)))[0] for one in counts
    ]
    middle = statistics.fmean(parts)
    jackknife = (199 / 200 * sum((part - middle) ** 2 for part in parts)) ** 0.5
    [one, *_] = linearised_estimates(counts, range(200), ENTITY_F1.compute, [UNIT_INTERVAL] * 3)
    assert one.stderr == pytest.approx(jackknife, rel=0.01)


def test_one_group_has_no_interval_and_certainty_has_wilson_s() -> None:
    [one] = linearised_estimates(
        [(1.0, 1.0), (0.0, 1.0)], ["a", "a"], mean_of_estimates, [UNIT_INTERVAL]
    )
    assert (one.value, one.low, one.high) == (0.5, None, None)
    [none] = linearised_estimates([(0.0, 1.0)] * 30, range(30), mean_of_estimates, [UNIT_INTERVAL])
    assert (none.low, none.high) == (
        0.0,
        pytest.approx(estimate_mean([0.0] * 30, list(range(30))).high),
    )
    [one] = linearised_estimates([(1.0, 1.0)] * 30, range(30), mean_of_estimates, [UNIT_INTERVAL])
    assert one.high == 1.0
    assert one.low == pytest.approx(estimate_mean([1.0] * 30, list(range(30))).low)
    [none] = linearised_estimates([], [], mean_of_estimates, [UNIT_INTERVAL])
    assert (none.value, none.n) == (None, 0)


def test_a_value_that_is_undefined_nearby_has_no_interval() -> None:
    [one] = linearised_estimates(
        [(1.0,), (2.0,)], "ab", lambda sums: (sums[0] if sums[0] == 3 else None,), [UNIT_INTERVAL]
    )
    assert (one.value, one.low, one.high) == (3.0, None, None)


def test_bleu_of_five_thousand_pictures_needs_its_counts_only() -> None:
    draw = random.Random(5)
    replies = [draw.choice(CAPTIONS) for _ in range(5000)]
    counts = BLEU_4.count(replies, [[draw.choice(CAPTIONS)] for _ in replies])
    [one] = linearised_estimates(counts, range(5000), BLEU_4.compute, [UNIT_INTERVAL])
    assert one.low < one.value < one.high
    assert one.high - one.low < 0.05
