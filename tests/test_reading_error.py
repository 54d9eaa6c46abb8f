"""Unsure readings: what they add to scores, intervals and bounds, against sums over all their meanings."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import small
import snellen as sn
from snellen.analysis.group_means import estimate_mean
from snellen.analysis.intervals import UNIT_INTERVAL
from snellen.analysis.paired.differences import is_significant, oriented_from
from snellen.analysis.reading_error import widened_by_reading
from snellen.extraction.reading import ExtractedChoice
from snellen.records import Answer, Prediction, ReadingDoubt, Variant
from snellen.registry import register
from snellen.scoring import choice_metrics as metrics

ANSWER = Answer("q", options=(1,))


def predicted(*readings: Sequence[float]) -> list[Prediction]:
    """One presentation per reading, which gives a probability to each of two options and to no answer."""
    predictions = []
    for test, probabilities in enumerate(readings):
        best = max(range(3), key=lambda place: probabilities[place])
        choice = best if best < 2 else None
        prediction = Prediction(
            protocol="p",
            method="generation",
            benchmark="b",
            sample_id="q",
            variant=Variant(test=test),
            key="k",
            choice=choice,
            probabilities=tuple(probabilities),
        )
        predictions.append(prediction)
    return predictions


@st.composite
def distributions(draw: st.DrawFn) -> tuple[float, ...]:
    weights = draw(st.tuples(*[st.integers(1, 30)] * 3))
    return tuple(weight / sum(weights) for weight in weights)


@given(st.lists(distributions(), min_size=1, max_size=4))
def test_expectation_and_variance_are_those_over_all_meanings(
    readings: list[tuple[float, ...]],
) -> None:
    predictions = predicted(*readings)
    outcomes = []
    for meant in itertools.product(range(3), repeat=len(readings)):
        chance = math.prod(
            probabilities[place] for probabilities, place in zip(readings, meant, strict=True)
        )
        right = [place == 1 for place in meant]
        outcomes.append((chance, sum(right) / len(right), float(all(right))))

    for doubt, column in (
        (metrics.accuracy_doubt(predictions, ANSWER), 1),
        (metrics.circular_doubt(predictions, ANSWER), 2),
    ):
        assert doubt is not None
        mean = sum(outcome[0] * outcome[column] for outcome in outcomes)
        square = sum(outcome[0] * outcome[column] ** 2 for outcome in outcomes)
        assert doubt.expected == pytest.approx(mean)
        assert doubt.variance == pytest.approx(square - mean**2, abs=1e-12)
        assert 0 <= doubt.least <= doubt.most <= 1


def test_certain_readings_leave_no_doubt() -> None:
    certain = [Prediction("p", "generation", "b", "q", Variant(), "k", choice=1)]
    assert metrics.accuracy_doubt(certain, ANSWER) is None
    assert metrics.circular_doubt(certain, ANSWER) is None
    assert metrics.unsure_rate(certain) == 0.0


def test_bounds_count_unsure_readings_as_wrong_and_as_right() -> None:
    sure_right = (0.0, 0.95, 0.05)
    unsure_right = (0.3, 0.6, 0.1)
    unsure_none = (0.2, 0.2, 0.6)
    sure_wrong = (0.95, 0.03, 0.02)
    predictions = predicted(sure_right, unsure_right, unsure_none, sure_wrong)
    assert metrics.accuracy(predictions, ANSWER) == 2 / 4
    assert metrics.accuracy_lower(predictions, ANSWER) == 1 / 4
    assert metrics.accuracy_upper(predictions, ANSWER) == 3 / 4
    assert metrics.unsure_rate(predictions) == 2 / 4


def test_a_question_with_two_correct_options_is_right_if_all_rotations_mean_the_same_one() -> None:
    both = Answer("q", options=(0, 1))
    doubt = metrics.circular_doubt(predicted((0.5, 0.5, 0.0), (0.5, 0.5, 0.0)), both)
    assert doubt is not None and doubt.expected == 0.5


def test_intervals_hold_the_score_of_a_careful_person() -> None:
    """Simulated: replies mean the right option with the probability that their reading says."""
    rng = random.Random(7)
    covered = 0
    covered_without = 0
    trials = 400
    for _ in range(trials):
        n = 60
        chances = [rng.choice((0.0, 1.0, 1.0, 0.15, 0.7, 0.7)) for _ in range(n)]
        values = [float(chance >= 0.5) for chance in chances]
        doubtful = [
            (value, ReadingDoubt(chance, chance * (1 - chance), 0.0, 1.0))
            for value, chance in zip(values, chances, strict=True)
            if 0 < chance < 1
        ]
        true_mean = (1.0 + 1.0 + 0.15 + 0.7 + 0.7) / 6
        plain = estimate_mean(values, range(n))
        widened = widened_by_reading(plain, doubtful, n, UNIT_INTERVAL)
        assert widened.low is not None and widened.high is not None
        assert plain.low is not None and plain.high is not None
        covered += widened.low <= true_mean <= widened.high
        covered_without += plain.low <= true_mean <= plain.high
    assert covered / trials >= 0.95
    assert covered_without / trials < 0.9


def halves(reply: str, options: Sequence[str], labels: Sequence[str]) -> ExtractedChoice:
    """Read a letter with certainty, and anything else as the first option with probability 0.6."""
    label = reply.strip("().")
    if label in labels:
        return ExtractedChoice(list(labels).index(label), "label", "certain")
    rest = 0.4 / len(options)
    probabilities = (0.6, *[rest] * (len(options) - 1), rest)
    return ExtractedChoice(0, "text", "likely", probabilities=probabilities)


def test_a_run_counts_the_most_probable_meaning_and_says_how_sure_it_is(tmp_path: Path) -> None:
    table = [{**row, "answer": 0} for row in small.rows(20)]
    questions = small.built(table, tmp_path / "questions")
    model = sn.Scripted(lambda request: "(A)" if request.sample_id < "q010" else "That one.")
    register("extractors", "halves", halves)

    sn.evaluate(model, str(questions.folder), runs=tmp_path, name="run")
    results = sn.score(tmp_path / "run", extractor="halves")

    values = {name: results.value(name, benchmark="mine") for name in metrics.ACCURACY.names}
    assert values == {
        "accuracy": 1.0,
        "accuracy_of_parsed": 1.0,
        "accuracy_lower": 0.5,
        "accuracy_upper": 1.0,
    }
    assert results.value("unsure_rate", benchmark="mine") == 0.5
    rows = [row for row in results.rows if row.metric == "accuracy" and row.benchmark == "mine"]
    [row] = [row for row in rows if not row.slice]
    expected_mean = (10 + 10 * 0.6) / 20
    assert row.estimate.low is not None and row.estimate.low < expected_mean


def mumbling(n_right: int, n_unsure: int, name: str) -> sn.Scripted:
    """A model that is right on the first questions, says something unclear on the next, and is wrong on all others."""

    def reply(request: sn.Request) -> str:
        number = int(request.sample_id[1:])
        if number < n_right:
            return "(A)"
        return "That one." if number < n_right + n_unsure else "(B)"

    return sn.Scripted(reply, name=name)


def compared(tmp_path: Path, first: sn.Scripted, second: sn.Scripted) -> sn.Results:
    table = [{**row, "answer": 0} for row in small.rows(100, pictures=100)]
    questions = str(small.built(table, tmp_path / "questions").folder)
    folders = []
    for model in (first, second):
        sn.evaluate(model, questions, runs=tmp_path, name=model.name)
        folders.append(tmp_path / model.name)
    register("extractors", "halves", halves)
    for folder in folders:
        sn.score(folder, extractor="halves")
    return sn.load_run(folders, scoring=next((folders[0] / "scores").iterdir()).name)


def test_no_verdict_stands_on_readings_that_could_turn_it(tmp_path: Path) -> None:
    """The first model is read to be right on 70 of 100, but 40 of these are unsure; the second is right on 50."""
    results = compared(tmp_path, mumbling(30, 40, "mumbler"), mumbling(50, 0, "clear"))
    [difference] = results.compare(resamples=0).differences
    assert difference.first_value == 0.7 and difference.second_value == 0.5
    assert difference.least_by_reading == pytest.approx(0.3 - 0.5)
    assert difference.most_by_reading == pytest.approx(0.7 - 0.5)
    assert difference.may_turn and not is_significant(difference)
    text = results.report(tmp_path / "report.md").read_text("utf-8")
    assert "mumbler and clear cannot be ranked" in text
    assert "read with a confidence below 90%: mumbler 40.0%" in text


def test_a_verdict_stands_if_unsure_readings_could_not_turn_it(tmp_path: Path) -> None:
    results = compared(tmp_path, mumbling(70, 5, "mumbler"), mumbling(30, 0, "clear"))
    [difference] = results.compare(resamples=0).differences
    assert not difference.may_turn and is_significant(difference)
    turned = oriented_from(difference, "clear")
    assert turned.least_by_reading == pytest.approx(0.3 - 0.75)
    assert turned.most_by_reading == pytest.approx(0.3 - 0.7)
    plain = estimate_mean([1.0] * 75 + [0.0] * 25, range(100))
    assert plain.low is not None and difference.difference.low is not None


@pytest.mark.parametrize("n_sentences", [1, 10])
def test_sentences_that_a_metric_compares_as_a_whole_are_mentioned(
    tmp_path: Path, n_sentences: int
) -> None:
    table = [
        {"id": f"q{i:03d}", "question": "What is it?", "answer": "cat", "image": small.cell(i)}
        for i in range(20)
    ]
    questions = small.built(
        table,
        tmp_path / "open",
        name="open",
        formulation="text",
        metrics=("exact_match", "typed_match"),
    )

    def reply(request: sn.Request) -> str:
        is_sentence = int(request.sample_id[1:]) < n_sentences
        return "The picture shows a cat." if is_sentence else "cat"

    said: list[str] = []
    results = sn.evaluate(
        sn.Scripted(reply), str(questions.folder), runs=tmp_path, announce=said.append
    )
    assert results.value("exact_match", benchmark="open") == (20 - n_sentences) / 20
    assert results.value("typed_match", benchmark="open") == 1.0

    report = results.report(tmp_path / "report.md").read_text("utf-8")
    words = "10 of 20 replies scored by exact_match are sentences and count as wrong"
    is_mentioned = n_sentences == 10  # one of twenty is not worth a word
    assert any(words in line for line in said) == is_mentioned
    assert (words in report) == is_mentioned
    assert "scored by typed_match" not in report
    assert ("or see typed_match, which finds" in report) == is_mentioned
    assert "add the metric typed_match" not in report


def test_same_replies_differ_in_nothing_however_uncertain_they_are(tmp_path: Path) -> None:
    results = compared(tmp_path, mumbling(30, 40, "mumbler"), mumbling(30, 40, "echo"))
    [difference] = results.compare(resamples=0).differences
    assert difference.same_replies and not difference.may_turn and not is_significant(difference)
    text = results.report(tmp_path / "report.md").read_text("utf-8")
    assert "mumbler and echo gave the same reply to every common question" in text
    assert "cannot be ranked" not in text
    folders = [str(run.folder) for run in results.runs]
    shown = sn.compare(*folders)
    assert all(each.same_replies for each in shown.differences)


def test_only_replies_that_differ_make_a_difference_uncertain(tmp_path: Path) -> None:
    """Both are unclear on the same 40 questions; the first is right on 20 further ones."""
    results = compared(tmp_path, mumbling(30, 40, "mumbler"), clearer())
    [difference] = results.compare(resamples=0).differences
    assert not difference.same_replies
    assert difference.least_by_reading is None and not difference.may_turn


def clearer() -> sn.Scripted:
    def reply(request: sn.Request) -> str:
        number = int(request.sample_id[1:])
        if number < 10:
            return "(B)"
        return "(A)" if number < 30 else "That one." if number < 70 else "(B)"

    return sn.Scripted(reply, name="clearer")
