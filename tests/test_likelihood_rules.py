"""Scoring rules by name and baselines without the image: every reduction from one journal, worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import snellen
from small import rows
from snellen.building.benchmark import Benchmark
from snellen.common.decoding import inspect_image
from snellen.common.images import BLANK, BLANK_PNG, ImageStore
from snellen.errors import UnknownNameError
from snellen.protocols.prediction import above_baseline, option_values
from snellen.records import ContinuationScore, Failure, ImagePart, Prediction, Request, Response
from snellen.runs.journal import read_exchanges

LENGTHS = {"cat": 1, "dog": 1, "horse": 2, "cow": 4}
"""Tokens of each option in the model below."""


PLAIN = {"cat": -1.0, "dog": -2.0, "horse": -3.0, "cow": -6.0}
RAISED = {"cat": -1.0, "dog": -2.0, "horse": -2.0, "cow": -3.0}


class Prior:
    """Finds cats likely whatever is shown; the image raises cows by 3 nats, and horses by 1."""

    name = fingerprint = "prior"

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.broken: set[str] = set()

    def generate(self, requests: list[Request], images: Any) -> list[str]:
        return ["(A)"] * len(requests)

    def loglikelihood(self, requests: list[Request], images: Any) -> list[Response]:
        self.asked += requests
        return [self._score(request, images) for request in requests]

    def _score(self, request: Request, images: Any) -> Response:
        shown = [image for image in request.images if image != BLANK]
        assert all(images.read(image) for image in request.images)
        if not shown and request.sample_id in self.broken:
            return Response(error=Failure("model", "no text-only prompts"))
        values = RAISED if shown else PLAIN
        return Response(
            scores=tuple(
                ContinuationScore(values[text], LENGTHS[text], len(text.encode()))
                for text in request.continuations
            )
        )


def choices(results: snellen.Results) -> dict[str, set[int | None]]:
    """By protocol, the options that were chosen."""
    chosen: dict[str, set[int | None]] = {}
    for prediction in predictions(results):
        chosen.setdefault(prediction.protocol, set()).add(prediction.choice)
    return chosen


def predictions(results: snellen.Results) -> list[Prediction]:
    return [p for run in results.runs for scored in run.benchmarks for p in scored.predictions]


CAT, DOG, HORSE, COW = range(4)


@pytest.mark.parametrize("instead", ["text", "blank"])
def test_every_rule_reads_the_same_journal(
    instead: str, questions: Benchmark, tmp_path: Path
) -> None:
    pmi = f"likelihood?pmi={instead}"
    model = Prior()
    results = snellen.evaluate(
        model, str(questions.folder), ["likelihood", pmi], runs=tmp_path, name="run"
    )
    assert choices(results) == {"likelihood": {CAT}, pmi: {COW}}
    # 12 questions with the image, once for both protocols; without it they share what stands in its place.
    assert len([request for request in model.asked if not request.variant.baseline]) == 12
    expected = {
        "mean": (COW, COW),
        "softmax": (COW, COW),
        "conditional": (CAT, CAT),
        "byte": (CAT, COW),
    }
    for rule, (plain, without) in expected.items():
        again = snellen.score(tmp_path / "run", likelihood_rule=rule)
        assert choices(again) == {"likelihood": {plain}, pmi: {without}}, rule
    assert choices(snellen.score(tmp_path / "run", likelihood_rule="pmi")) == {
        "likelihood": {None},
        pmi: {COW},
    }
    assert {
        (p.extraction_method, p.reason)
        for p in predictions(snellen.score(tmp_path / "run", likelihood_rule="pmi"))
    } == {
        (None, "no baseline"),
        ("likelihood", None),
    }


def test_a_baseline_shows_no_picture_or_a_grey_one(questions: Benchmark, tmp_path: Path) -> None:
    for instead, shown in (("text", ()), ("blank", (BLANK,))):
        model = Prior()
        snellen.evaluate(
            model,
            str(questions.folder),
            f"likelihood?pmi={instead}&m=2",
            limit=1,
            runs=tmp_path / instead,
        )
        with_picture, without = model.asked[:2], model.asked[2:]
        assert [request.images for request in without] == [shown, shown]
        for one, other in zip(with_picture, without, strict=True):
            texts = [
                [part for part in message.content if not isinstance(part, ImagePart)]
                for message in one.messages
            ]
            assert [
                [part for part in message.content if not isinstance(part, ImagePart)]
                for message in other.messages
            ] == texts
            assert one.continuations == other.continuations


def test_a_missing_baseline_is_an_error_of_its_question(
    questions: Benchmark, tmp_path: Path
) -> None:
    model = Prior()
    model.broken = {"q003"}
    results = snellen.evaluate(
        model,
        str(questions.folder),
        "likelihood?pmi=text",
        runs=tmp_path,
        name="run",
        error_budget=1.0,
    )
    assert {p.sample_id for p in predictions(results) if p.reason == "no baseline"} == {"q003"}
    [row] = [
        r
        for r in results.rows
        if r.metric == "accuracy" and r.benchmark == questions.name and not r.slice
    ]
    assert (row.estimate.n, row.estimate.unscored, row.estimate.errors) == (11, 0, 1)
    [lost] = [
        s
        for s in results.runs[0].benchmarks[0].scores
        if s.metric == "accuracy" and s.value is None
    ]
    assert (lost.sample_id, lost.reason, lost.detail) == ("q003", "no baseline", "")
    model.broken = set()
    again = snellen.evaluate(
        model, str(questions.folder), "likelihood?pmi=text", runs=tmp_path, name="run"
    )
    assert choices(again) == {"likelihood?pmi=text": {COW}}
    assert sum(1 for _ in read_exchanges(tmp_path / "run")) == 25


def test_a_presentation_without_its_baseline_is_left_out_of_accuracy_and_makes_no_entropy(
    questions: Benchmark, tmp_path: Path
) -> None:
    class BreaksLater(Prior):
        def _score(self, request: Request, images: Any) -> Response:
            self.broken = {"q003"} if request.variant.test == 1 else set()
            return super()._score(request, images)

    protocol = "likelihood?pmi=text&m=2"
    results = snellen.evaluate(
        BreaksLater(), str(questions.folder), protocol, runs=tmp_path, name="run", error_budget=1.0
    )
    scores = {s.metric: s for s in results.runs[0].benchmarks[0].scores if s.sample_id == "q003"}
    told = {name: (s.value, s.reason, s.n_presentations) for name, s in scores.items()}
    assert told["accuracy"] == (1.0, None, 1)  # q003 is about the cow, which the image raises
    for name in ("instability", "legacy_instability"):
        assert told[name] == (None, "no baseline", 1)


def test_a_journal_without_baselines_is_read_once(questions: Benchmark, tmp_path: Path) -> None:
    results = snellen.evaluate(Prior(), str(questions.folder), "likelihood", runs=tmp_path)
    assert choices(results) == {"likelihood": {CAT}}


def test_values_of_options_are_kept_and_softmax_makes_them_shares(
    questions: Benchmark, tmp_path: Path
) -> None:
    first = predictions(
        snellen.evaluate(Prior(), str(questions.folder), "likelihood", runs=tmp_path, name="run")
    )[0]
    assert first.scores == (-1.0, -2.0, -2.0, -3.0)
    shares = predictions(snellen.score(tmp_path / "run", likelihood_rule="softmax"))[0].scores
    weights = [math.exp(value) for value in (-1.0, -2.0, -1.0, -0.75)]
    assert shares == pytest.approx([weight / sum(weights) for weight in weights])


def test_ties_are_counted_among_the_results(make: Callable[..., Benchmark], tmp_path: Path) -> None:
    class Ties(Prior):
        def _score(self, request: Request, images: Any) -> Response:
            number = int(request.sample_id[1:])
            best = {0: (-1.0, -1.0), 1: (-2.0, -2.0)}.get(number, (-1.0, -3.0))
            values = (*best, -2.0, -2.0)
            return Response(scores=tuple(ContinuationScore(value, 1, 3) for value in values))

    results = snellen.evaluate(Ties(), str(make(rows(8)).folder), "likelihood", runs=tmp_path)
    assert results.value("tie_rate", benchmark="mine") == pytest.approx(2 / 8)
    # An exact tie goes to the first; scores that are all the same choose nothing.
    chosen = {p.sample_id: p.choice for p in predictions(results)}
    assert [chosen[f"q00{i}"] for i in range(3)] == [0, None, 0]
    told = {
        s.sample_id: s.reason
        for s in results.runs[0].benchmarks[0].scores
        if s.metric == "accuracy_of_parsed"
    }
    assert told == {f"q00{i}": "all alike" if i == 1 else None for i in range(8)}


def test_dialogues_have_no_baselines_and_an_unknown_one_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="pmi"):
        snellen.parse_protocol("likelihood?pmi=noise")
    assert snellen.parse_protocol("likelihood?pmi=text").label == "likelihood?pmi=text"


def test_the_blank_picture_is_a_picture_that_every_store_has(tmp_path: Path) -> None:
    assert inspect_image(BLANK_PNG, "blank") == BLANK
    assert ImageStore(tmp_path).read(BLANK) == BLANK_PNG


finite = st.floats(-50, 0)
pairs = st.lists(
    st.tuples(finite, finite, st.integers(1, 5), st.integers(1, 9)), min_size=2, max_size=6
)


@given(pairs)
def test_shares_add_up_to_one_and_a_baseline_of_nothing_changes_nothing(options: list[Any]) -> None:
    scores = [ContinuationScore(a, t, b) for a, _, t, b in options]
    assert math.fsum(option_values(scores, "softmax")) == pytest.approx(1)
    nothing = [ContinuationScore(0.0, t, b) for _, _, t, b in options]
    assert above_baseline(scores, nothing, "sum") == scores
    assert above_baseline(scores, nothing[1:], "sum") is None
    assert above_baseline(scores, nothing[1:], "conditional") == scores
