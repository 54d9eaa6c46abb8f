"""Fresh questions for a board whose questions have privacy_loss all that they may.

A board may have further sets of benchmarks, its `rotation`. When the budget of the questions in use is spent, the next
set takes over: submissions are made to it and ranked on it. Entries on earlier questions stay, without a rank, since
numbers on different questions cannot be compared. The answers of a set that is out of use may be published.

Which set is in use follows from the ledger alone, so that all processes and every restart agree.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from sqlalchemy import Connection

from snellen import SnellenError
from snellen_server.hosting.monitoring import LOGGER
from snellen_server.hosting.repeating import repeating
from snellen_server.hosting.services import Services
from snellen_server.leaderboard.boards import (
    NAME,
    Board,
    BoardSets,
    LeaderboardSettings,
    board_benchmarks,
    board_with_set,
    build_digests,
)
from snellen_server.leaderboard.ledger import affordable_noise, privacy_loss

REPEAT_SECONDS = 15.0
"""Pause between two looks at the ledger."""


@asynccontextmanager
async def open_sets(services: Services) -> AsyncIterator[BoardSets]:
    """Find out which questions each board uses, for as long as the server runs."""
    sets = BoardSets()
    services.held[NAME] = sets
    await rotate_boards(services)
    async with repeating(services, REPEAT_SECONDS, rotate_boards):
        yield sets


async def rotate_boards(services: Services) -> None:
    """Have each board use the first of its sets whose budget is not spent, or the last one."""
    settings: LeaderboardSettings = services.settings(NAME)
    sets: BoardSets = services.held[NAME]
    for board in settings.boards:
        if not board.rotation:
            continue
        before = sets.in_use.get(board.name)
        try:
            in_use = await _set_in_use(services, board)
        except SnellenError as error:
            facts = {"board": board.name, "error": str(error)}
            LOGGER.error("the questions of a board cannot be opened", extra={"facts": facts})
            continue
        sets.in_use[board.name] = in_use
        if before is not None and in_use != before:
            facts = {"board": board.name, "set": str(in_use + 1)}
            LOGGER.info("a board has fresh questions", extra={"facts": facts})


async def _set_in_use(services: Services, board: Board) -> int:
    """Return the number of the first set of questions whose budget is not spent; the last set if all are."""
    for number in range(board.sets - 1):
        board_of_set = board_with_set(board, number)
        benchmarks = await asyncio.to_thread(board_benchmarks, board_of_set)
        digests = [build_digests(services, benchmark)[0] for benchmark in benchmarks]
        if not await services.database.read(is_spent, board_of_set, digests):
            return number
    return board.sets - 1


def is_spent(connection: Connection, board: Board, questions: Sequence[str]) -> bool:
    """Return whether the budget of any benchmark of a board allows no further submission.

    Args:
        connection: A database connection.
        board: Declares budget and noise.
        questions: Digests of the questions of its benchmarks.
    """
    numbers = 1 + len(board.breakdown)
    for digest in questions:
        spent, _ = privacy_loss(connection, digest)
        if affordable_noise(board, spent, 0.0, numbers) is None:
            return True
    return False
