"""Spot checks of local models: what they select, what they state, and that wrong answers are withdrawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="waits for torch")
pytest.importorskip("transformers", reason="waits for transformers")

import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.models.base import AnswerGroup, answer_group
from snellen.models.hf import reference, spot_checks
from snellen.models.hf.engine import Engine
from snellen.models.hf.sharing_plan import PLAIN, FastPaths
from snellen.models.hf.spot_checks import SpotChecks, largest_share
from snellen.models.loading import load_model
from snellen.records import ContinuationScore, Request
from snellen.runs.journal import read_exchanges
from snellen.runs.run_folder import read_manifest
from snellen.runs.withdrawn import read_withdrawn, withdraw, withdrawn_path

Make = Callable[..., Benchmark]
WORDS = (10, 30, 60, 70, 80, 150)
"""Words of each question; the shortest and the longest are in strata of their own."""
WRONG_FROM = 100
"""Tokens from which the fast paths are wrong in these tests."""


@pytest.fixture
def questions(make: Make) -> Benchmark:
    rows = small.rows(len(WORDS))
    for row, words in zip(rows, WORDS, strict=True):
        row["question"] = "red " * words + "?"
    return make(rows, name="lengths")


def break_long_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the fast paths add a nat to each score of a long text, as a head does that reads far places.

    The self-check of the model does not see it: it has been done in this process before.
    """
    load_model("snellen:tiny")
    score = Engine.score

    def wrong_when_long(self: Engine, rows: Sequence[Any], paths: FastPaths) -> Any:
        scores = score(self, rows, paths)
        if paths == PLAIN:
            return scores
        return [
            [[value + (len(row.context.ids) >= WRONG_FROM) for value in tail] for tail in tails]
            for row, tails in zip(rows, scores, strict=True)
        ]

    monkeypatch.setattr(Engine, "score", wrong_when_long)


def final_scores(folder: Path) -> dict[str, tuple[ContinuationScore, ...]]:
    """The scores of each sample that count: the last that came."""
    return {
        exchange.request.sample_id: exchange.response.scores for exchange in read_exchanges(folder)
    }


def evaluate(questions: Benchmark, folder: Path, model: str = "snellen:tiny") -> sn.Results:
    return sn.evaluate(
        model, str(questions.folder), "likelihood", name="run", runs=folder, window=1, report=False
    )


def test_answers_before_the_difference_was_found_are_asked_again(
    questions: Benchmark,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    evaluate(questions, tmp_path / "right", "snellen:tiny?scoring=exact")
    right = final_scores(tmp_path / "right" / "run")

    break_long_texts(monkeypatch)
    results = evaluate(questions, tmp_path / "mended")

    mended = final_scores(tmp_path / "mended" / "run")
    for sample, scores in right.items():
        sums = [score.sum for score in mended[sample]]
        assert sums == pytest.approx([score.sum for score in scores], abs=1e-3)
    assert "falls back" not in caplog.text
    assert "are asked again one row at a time" in caplog.text
    notes = "; ".join(read_manifest(tmp_path / "mended" / "run").notes)
    assert f"answered one row at a time: {len(WORDS)}" in notes
    assert "at most" not in notes
    assert results.runs[0].failed == 0
    assert not withdrawn_path(tmp_path / "mended" / "run", 0).exists()


def test_what_a_run_withdrew_before_it_was_stopped_is_asked_when_it_resumes(
    questions: Benchmark, tmp_path: Path
) -> None:
    evaluate(questions, tmp_path)
    [first, *_] = list(read_exchanges(tmp_path / "run"))
    withdrawn_path(tmp_path / "run", 0).write_text(f"{first.request.key}\n")
    assert read_withdrawn(tmp_path / "run", 0) == {first.request.key}
    before = len(list(read_exchanges(tmp_path / "run")))

    evaluate(questions, tmp_path)

    asked = list(read_exchanges(tmp_path / "run"))[before:]
    assert [exchange.request.key for exchange in asked] == [first.request.key]
    assert not withdrawn_path(tmp_path / "run", 0).exists()


def test_resuming_answers_what_was_withdrawn_by_the_plain_path(
    questions: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate(questions, tmp_path / "right", "snellen:tiny?scoring=exact")
    right = final_scores(tmp_path / "right" / "run")
    break_long_texts(monkeypatch)
    # No check of either session finds the difference, as where the request that showed it was mended at once.
    monkeypatch.setattr(SpotChecks, "reason_to_check", lambda *args: None)
    evaluate(questions, tmp_path)
    keys = {exchange.request.key for exchange in read_exchanges(tmp_path / "run")}
    withdrawn_path(tmp_path / "run", 0).write_text("".join(f"{key}\n" for key in keys))

    evaluate(questions, tmp_path)

    for sample, scores in final_scores(tmp_path / "run").items():
        sums = [score.sum for score in scores]
        assert sums == pytest.approx([score.sum for score in right[sample]], abs=1e-3)


def test_a_session_that_is_stopped_keeps_what_an_earlier_one_withdrew(
    questions: Benchmark, tmp_path: Path
) -> None:
    evaluate(questions, tmp_path)
    [first, second, *_] = list(read_exchanges(tmp_path / "run"))
    withdrawn_path(tmp_path / "run", 0).write_text(f"{first.request.key}\n")

    class Doubting:
        disproved = frozenset({answer_group(second.request)})

        def doubts(self, request: Request) -> bool:
            return request.key == second.request.key

        def distrust(self, group: AnswerGroup) -> None:
            raise AssertionError

    model: Any = Doubting()
    assert withdraw(tmp_path / "run", 0, {"": model}) == {second.request.key}
    assert read_withdrawn(tmp_path / "run", 0) == {first.request.key, second.request.key}


def test_the_cache_gives_the_new_answer_afterwards(
    questions: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    settings: dict[str, Any] = {"cache": cache, "window": 1, "report": False}
    with monkeypatch.context() as broken:
        break_long_texts(broken)
        for name in ("one", "two"):
            sn.evaluate(
                "snellen:tiny",
                str(questions.folder),
                "likelihood",
                name=name,
                runs=tmp_path,
                **settings,
            )
    assert final_scores(tmp_path / "one") == final_scores(tmp_path / "two")


def test_a_run_states_the_share_of_answers_that_may_differ(make: Make, tmp_path: Path) -> None:
    results = sn.evaluate(
        "snellen:tiny", str(make(small.rows(200)).folder), runs=tmp_path, name="run", report=False
    )
    [note] = [note for note in read_manifest(results.runs[0].folder).notes if "spot checks" in note]
    assert "chosen at random, so at most" in note
    assert "(95% confidence)" in note


def test_the_stated_share_is_the_exact_bound_for_no_event() -> None:
    from scipy.stats import beta  # Clopper and Pearson's interval is one of the beta distribution

    for checks in (1, 7, 59, 299):
        assert largest_share(checks) == pytest.approx(beta.ppf(0.95, 1, checks))
    assert largest_share(0) == 1.0


def test_the_first_checks_of_a_short_run_are_limited(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = 0
    score_again = reference.reference_reply

    def counted(*args: Any, **settings: Any) -> Any:
        nonlocal passes
        passes += 1
        return score_again(*args, **settings)

    load_model("snellen:tiny")  # its self-check asks the reference too
    monkeypatch.setattr(reference, "reference_reply", counted)
    evaluate(make(small.rows(20, options=4)), tmp_path)

    # Without a limit these would be all four options of 16 questions, in 64 passes.
    assert 10 < passes < 30


def test_a_check_for_which_memory_does_not_suffice_is_not_counted(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(*args: Any) -> Any:
        raise MemoryError

    load_model("snellen:tiny")
    monkeypatch.setattr(spot_checks, "reference_scores", too_large)
    drawn: list[SpotChecks] = []
    choose = SpotChecks.reason_to_check

    def watched(self: SpotChecks, request: Request, row: Any) -> Any:
        reason = choose(self, request, row)
        if reason == "random":
            drawn.append(self)
        return reason

    monkeypatch.setattr(SpotChecks, "reason_to_check", watched)
    results = evaluate(make(small.rows(200)), tmp_path)

    assert results.runs[0].failed == 0
    assert drawn
    assert all(not checks.random_checks and not checks.checked for checks in drawn)
