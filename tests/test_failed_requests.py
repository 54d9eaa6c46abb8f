"""A request that failed counts once, and no longer when a later call got its reply, wherever requests are counted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.errors import ErrorBudgetError
from snellen.experiments.outcome_checks import check_budget
from snellen.records import Exchange, Failure, Request, Response
from snellen.report.page import html_report
from snellen.report.progress_text import progress_lines
from snellen.report.reported_runs import prepare_reported_runs
from snellen.runs.journal import read_exchanges
from snellen.runs.journal_lines import write_line
from snellen.runs.run_folder import read_manifest
from snellen.runs.run_store import RunStore
from snellen.runs.runner import RunOutcome
from snellen.viewing.running import Progress

PROTOCOLS = ("vanilla", "circular?all_passes=true")
"""Four requests for a question of four options, of which both ask the first."""


class Failing:
    """Fails where it is told to; every reply is A."""

    name, kinds, batch_size = "failing", frozenset({"generate"}), 1

    def __init__(self, failing: Sequence[str]) -> None:
        self.failing = failing

    def fingerprint(self) -> dict[str, str]:
        return {}

    def generate(self, requests: Sequence[Request], images: object) -> list[Response]:
        return [self._reply(request) for request in requests]

    loglikelihood = generate

    def _reply(self, request: Request) -> Response:
        if request.sample_id in self.failing:
            return Response(error=Failure("server", "500"))
        return Response(text="A")


def counted_on_page(results: sn.Results) -> tuple[int, int]:
    """Requests, and those that failed, in the head of the report."""
    page = html_report(prepare_reported_runs(results.runs, results.rows))
    numbers = re.findall(r"<b>([\d,]+)</b>\s*(requests failed|requests)", page)
    by_words = {words: int(number.replace(",", "")) for number, words in numbers}
    return by_words["requests"], by_words["requests failed"]


@pytest.fixture
def questions(tmp_path: Path) -> Iterator[Benchmark]:
    yield small.built(small.rows(4), tmp_path / "made")


def asked(
    questions: Benchmark, folder: Path, *failing: str, announced: list[str] | None = None
) -> sn.Results:
    """A run whose requests of some questions fail; `announced` gets the progress of the call."""
    listen = progress_lines((announced if announced is not None else []).append)
    return sn.evaluate(
        Failing(failing),
        str(questions.folder),
        PROTOCOLS,
        runs=folder,
        name="r",
        error_budget=1.0,
        progress=listen,
    )


def test_a_request_of_two_protocols_that_failed_counts_once_on_every_surface(
    questions: Benchmark, tmp_path: Path
) -> None:
    lines: list[str] = []
    results = asked(questions, tmp_path, "q000", "q001", announced=lines)
    exchanges = [exchange for exchange in read_exchanges(tmp_path / "r") if not exchange.reused]
    attempts = sum(exchange.response.error is not None for exchange in exchanges)
    assert attempts == 10, "both protocols asked what failed"
    [use] = results.runs[0].roles
    assert (use.answered, use.failed) == (8, 8)
    assert use.sentence() == "evaluated failing: 16 requests, 8 failed"
    assert counted_on_page(results) == (16, 8)
    assert lines[-1].endswith("16 requests, 8 failed")
    assert {cost.protocol: cost.failed for cost in results.runs[0].costs} == dict(
        zip(PROTOCOLS, (2, 8), strict=True)
    )


def test_what_failed_and_was_answered_in_a_later_call_has_not_failed(
    questions: Benchmark, tmp_path: Path
) -> None:
    asked(questions, tmp_path, "q000", "q001")
    lines: list[str] = []
    results = asked(questions, tmp_path, "q001", announced=lines)
    [use] = results.runs[0].roles
    assert (use.answered, use.failed) == (12, 4)
    assert counted_on_page(results) == (16, 4)
    assert lines[-1].endswith("8 requests, 4 failed"), "of this call"
    whole = asked(questions, tmp_path)
    assert (whole.runs[0].distinct_requests, whole.runs[0].failed) == (16, 0)
    assert [cost.failed for cost in whole.runs[0].costs] == [0, 0]


def test_the_journal_with_the_reply_may_be_read_before_that_with_the_failure(
    questions: Benchmark, tmp_path: Path
) -> None:
    asked(questions, tmp_path, "q000")
    folder = tmp_path / "r"
    lines = (folder / "journal-0.jsonl").read_bytes()
    (folder / "journal-0.jsonl").rename(folder / "journal-1.jsonl")
    whole = asked(questions, tmp_path)
    assert (folder / "journal-1.jsonl").read_bytes() == lines
    assert (whole.runs[0].distinct_requests, whole.runs[0].failed) == (16, 0)


def test_a_request_that_only_another_presentation_got_an_answer_to_has_failed_and_counts_once(
    questions: Benchmark, tmp_path: Path
) -> None:
    manifest = read_manifest(asked(questions, tmp_path, "q000").runs[0].folder)
    journal = tmp_path / "r" / "journal-0.jsonl"
    [first, *_] = [
        exchange
        for exchange in read_exchanges(tmp_path / "r")
        if exchange.protocol == PROTOCOLS[1] and exchange.response.error
    ]
    with journal.open(
        "ab"
    ) as file:  # as if a second attempt, for the other protocol, had come through
        file.write(
            write_line(
                Exchange(first.protocol, first.request, Response(text="A")), manifest.authors
            )
        )
    run = sn.score(tmp_path / "r").runs[0]
    assert (run.distinct_requests, run.failed) == (16, 4)
    assert sum(p.error is not None for p in run.benchmarks[0].predictions) == 4


def test_the_error_budget_is_of_different_requests(questions: Benchmark, tmp_path: Path) -> None:
    with pytest.raises(ErrorBudgetError, match=r"^4 of 16 requests failed \(25\.0%"):
        sn.evaluate(Failing(["q000"]), str(questions.folder), PROTOCOLS, runs=tmp_path, name="r")


@pytest.mark.parametrize(
    ("reasons", "shown"),
    [
        ({"timeout": 9, "rate limit": 3, "server": 2, "HTTP 400": 1}, "and 1 other reason;"),
        ({"a": 9, "b": 3, "c": 2, "d": 1, "e": 1}, "9 x a, 3 x b, 2 x c, and 2 other reasons;"),
    ],
)
def test_reasons_beyond_three_are_counted(reasons: dict[str, int], shown: str) -> None:
    outcome = RunOutcome(
        Path("r"), answered={}, failed={"": sum(reasons.values())}, reasons=reasons
    )
    with pytest.raises(ErrorBudgetError, match=re.escape(shown)):
        check_budget(outcome, 0.05)


def test_the_page_of_a_stopped_run_counts_alike(questions: Benchmark, tmp_path: Path) -> None:
    asked(questions, tmp_path, "q000", "q001")
    folder = tmp_path / "r"
    (folder / "scoring.json").unlink()
    progress = Progress()
    assert progress.of(folder, read_manifest(folder), is_working=True).failures == {"server": 8}
    failed = next(exchange for exchange in read_exchanges(folder) if exchange.response.error)
    with RunStore(folder, authors=read_manifest(folder).authors) as store:
        store.append([Exchange(failed.protocol, failed.request, Response(text="A"))])
        store.find(PROTOCOLS[1], failed.request)
    assert progress.of(folder, read_manifest(folder), is_working=True).failures == {"server": 7}
    assert Progress().of(folder, read_manifest(folder), is_working=True).failures == {"server": 7}
