"""All boards at a glance: for the home page, and for the list of boards."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from snellen.plugin_api import SnellenError
from snellen_server.hosting.services import Services
from snellen_server.leaderboard.boards import Board, board_benchmarks, settings_of
from snellen_server.leaderboard.standings import OVERALL, BoardStanding, read_standings


class BoardSummary(Struct, frozen=True):
    """A board, and what everybody may know of its entries."""

    board: Board
    is_ready: bool
    """Whether its benchmarks can be opened with their answers."""
    questions: int = 0
    entries: int = 0
    """Public ones that were scored."""
    first: tuple[BoardStanding, ...] = ()
    """The public entries that share the first rank."""
    by: str = ""
    """What they are ranked by: a benchmark, or the mean."""


async def summarised_boards(services: Services) -> dict[str, Any]:
    """The values of `leaderboard/home.html`."""
    return {"boards": [await _summary(services, board) for board in settings_of(services).boards]}


async def _summary(services: Services, board: Board) -> BoardSummary:
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
