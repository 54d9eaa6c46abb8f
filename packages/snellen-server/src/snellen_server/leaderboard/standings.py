"""Rank the submissions to a board by their intervals.

Each has a best and a worst rank. Submissions whose intervals overlap may share ranks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec
from msgspec import Struct

from snellen import SnellenError
from snellen_server.hosting.accounts import Account
from snellen_server.hosting.services import Services
from snellen_server.leaderboard.boards import Board, board_benchmarks, build_digests, settings_of
from snellen_server.leaderboard.releasing import PublishedNumber, widening
from snellen_server.leaderboard.submissions import Submission, list_submissions

OVERALL = "mean"
"""In place of a benchmark: the mean over all of a board."""
Order = Literal["rank", "model", "newest"]


class BoardStanding(Struct, frozen=True, kw_only=True):
    """An entry (a scored submission) with its numbers and its rank: a row of the board."""

    entry: Submission
    numbers: dict[str, PublishedNumber]
    """By benchmark; with several benchmarks also their mean, under `OVERALL`."""
    best: int = 0
    """The rank: 1 + the number of entries whose interval is entirely above this one's; 0 for an entry without a rank."""
    worst: int = 0
    """The rank if every entry whose interval overlaps with this one's were better."""
    note: str = ""
    """Why it has no rank."""

    @property
    def rank_interval(self) -> str:
        """The best and the worst rank as text, such as `[1, 3]`; "" if they are equal."""
        return f"[{self.best}, {self.worst}]" if self.best < self.worst else ""


def standings(
    board: Board,
    entries: Sequence[Submission],
    builds: Mapping[str, tuple[str, str]],
    by: str = "",
    order: Order = "rank",
) -> list[BoardStanding]:
    """Return the scored submissions to a board with their ranks, sorted.

    Ranks are counted among public submissions. A private one, which only its owner sees, gets the
    rank that it would have if it were public. A submission has a note and no rank if it was scored
    by another build of the benchmarks, or has so few questions that the noise dominates its result.

    Args:
        board: The board.
        entries: Submissions to it; those that are not scored are left out.
        builds: For each benchmark of the board, the digests of its current build.
        by: The benchmark to rank by, or `OVERALL`. By default it is the only benchmark of the board, or `OVERALL` if
            there are several.
        order: "rank" puts the best first and entries without a rank last. "model" sorts by the name of the model, and
            "newest" by the time of submission.
    """
    benchmarks = list(builds)
    if not by:
        by = OVERALL if len(benchmarks) > 1 else benchmarks[0]
    unranked = [
        _standing_of_entry(board, entry, builds, by) for entry in entries if entry.state == "scored"
    ]
    public_numbers = []
    for standing in unranked:
        has_rank = not standing.note
        if has_rank and standing.entry.is_public:
            public_numbers.append(standing.numbers[by])
    ranked = [_with_ranks(standing, public_numbers, by) for standing in unranked]

    if order == "model":
        return sorted(ranked, key=lambda standing: standing.entry.model.casefold())
    if order == "newest":
        return sorted(ranked, key=lambda standing: standing.entry.created, reverse=True)

    def best_first(standing: BoardStanding) -> tuple[bool, float]:
        if standing.note:
            return True, 0.0
        _, value, _ = _oriented(standing.numbers[by])
        return False, -value

    return sorted(ranked, key=best_first)


async def read_standings(
    services: Services, board: Board, viewer: Account | None, by: str = "", order: Order = "rank"
) -> tuple[list[BoardStanding], list[Submission]]:
    """Read a board from the database.

    Args:
        services: The server.
        board: The board.
        viewer: The account that looks at it; None for a visitor. A private submission is only shown to its own account.
        by: The benchmark to rank by, `OVERALL` for the mean of all, or "" for the board's default.
        order: How the standings are sorted.

    Returns:
        The standings of scored submissions, and all submissions that the viewer may see.
    """
    builds = {}
    for benchmark in board_benchmarks(board):
        builds[benchmark.name] = build_digests(services, benchmark)
    submissions = await services.database.read(list_submissions, board.name, viewer)
    return standings(board, submissions, builds, by, order), submissions


def _standing_of_entry(
    board: Board, entry: Submission, builds: Mapping[str, tuple[str, str]], by: str
) -> BoardStanding:
    """Return an entry with its numbers by benchmark, and a note if it cannot be ranked.

    Args:
        board: The board.
        entry: A scored submission.
        builds: For each benchmark, the digests of its current build; entries scored on an earlier one are not ranked.
        by: The benchmark that orders the standings, or `OVERALL` for the mean of all.
    """
    by_benchmark: dict[str, PublishedNumber] = {}
    for name in builds:
        number = entry.number(name)
        if number:
            by_benchmark[name] = number
    numbers = dict(by_benchmark)
    if len(builds) > 1 and len(by_benchmark) == len(builds):
        mean = _mean_over_benchmarks(list(by_benchmark.values()))
        if mean:
            numbers[OVERALL] = mean

    note = ""
    if entry.builds != builds:
        note = "scored by an earlier build of the benchmark"
    elif by not in numbers:
        note = "without this number"
    else:
        # The factor by which noise widens the interval: of the one number, or of the mean of several.
        ranked_numbers = list(by_benchmark.values()) if by == OVERALL else [by_benchmark[by]]
        widths = []
        for number in ranked_numbers:
            noise_answers = number.noise_answers or board.noise_answers
            widths.append(widening(number.n, noise_answers))
        if math.hypot(*widths) / len(widths) > board.widest_noise:
            note = "not ranked: too few questions for the noise"
    return BoardStanding(entry=entry, numbers=numbers, note=note)


def _mean_over_benchmarks(numbers: Sequence[PublishedNumber]) -> PublishedNumber | None:
    """Return the mean of the numbers of several benchmarks, with an interval.

    None if a number is not a share, or if a lower value of it is better. The mean reveals nothing about the answers
    that the numbers themselves do not.
    """
    first = numbers[0]
    count = len(numbers)
    for number in numbers:
        if number.unit != "share" or number.better != "higher":
            return None
    value = sum(number.value for number in numbers) / count
    half_widths = [(number.high - number.low) / 2 for number in numbers]
    half_width = math.sqrt(sum(width**2 for width in half_widths)) / count
    metrics = {number.metric for number in numbers}
    return replace(
        first,
        benchmark=OVERALL,
        metric=first.metric if len(metrics) == 1 else OVERALL,
        value=value,
        low=max(value - half_width, 0.0),
        high=min(value + half_width, 1.0),
        n=sum(number.n for number in numbers),
        noise=max(number.noise for number in numbers) / count,
    )


def _oriented(number: PublishedNumber) -> tuple[float, float, float]:
    """Return the lower end, value and upper end of a number, negated if a lower value is better."""
    if number.better == "lower":
        return -number.high, -number.value, -number.low
    return number.low, number.value, number.high


def _with_ranks(
    standing: BoardStanding, public: Sequence[PublishedNumber], by: str
) -> BoardStanding:
    """Return a standing with the best and the worst rank that the intervals allow.

    Args:
        standing: An entry of the board. If it has a note, it has no rank and is returned unchanged.
        public: The numbers of all public entries, perhaps with this one.
        by: The benchmark, or `OVERALL`, whose number is ranked.
    """
    if standing.note:
        return standing
    own_number = standing.numbers[by]
    own_low, _, own_high = _oriented(own_number)
    certainly_better = 0
    possibly_better = 0
    for rival in public:
        if rival is own_number:
            continue
        low, _, high = _oriented(rival)
        if low > own_high:
            certainly_better += 1
        if high >= own_low:
            possibly_better += 1
    return msgspec.structs.replace(standing, best=1 + certainly_better, worst=1 + possibly_better)


def shown_number(number: PublishedNumber | None) -> str:
    """Return a number and its interval for a page, shares in percent: `71.5 [66.0, 77.0]`; "–" for None."""
    if number is None:
        return "–"
    is_share = number.unit == "share"

    def text(value: float) -> str:
        return f"{100 * value:.1f}" if is_share else f"{value:.2f}"

    return f"{text(number.value)} [{text(number.low)}, {text(number.high)}]"


class BoardSummary(Struct, frozen=True):
    """A board, and what everybody may know of its entries."""

    board: Board
    is_ready: bool
    """Whether its benchmarks can be opened with their answers."""
    questions: int = 0
    entries: int = 0
    """Number of public, scored entries."""
    first: tuple[BoardStanding, ...] = ()
    """The public entries that share the first rank."""
    by: str = ""
    """What they are ranked by: a benchmark, or the mean."""


async def summarised_boards(services: Services) -> dict[str, Any]:
    """Return the values of `leaderboard/home.html`."""
    return {
        "boards": [await _board_summary(services, board) for board in settings_of(services).boards]
    }


async def _board_summary(services: Services, board: Board) -> BoardSummary:
    """Return a board's line for the page of all boards, which also shows boards whose benchmarks are not built."""
    try:
        benchmarks = board_benchmarks(board)
    except SnellenError:  # /readyz says so, and the board's own page
        return BoardSummary(board, is_ready=False)
    standings, _ = await read_standings(services, board, None)
    return BoardSummary(
        board,
        True,
        sum(benchmark.manifest.counts.questions for benchmark in benchmarks),
        len(standings),
        tuple(standing for standing in standings if standing.best == 1),
        OVERALL if len(benchmarks) > 1 else benchmarks[0].name,
    )
