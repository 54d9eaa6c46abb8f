"""Boards: the tables of the leaderboard, to which predictions are submitted.

The server's configuration declares them. Their benchmarks must be built with answers.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from snellen import DataError, SnellenError
from snellen.plugin_api import Benchmark, find_benchmarks, has_answers
from snellen_server.hosting.services import Services
from snellen_server.leaderboard.releasing import SMALLEST_ROUNDING_STEP, questions_needed

NAME = "leaderboard"
_BOARD_NAME = re.compile("[a-z0-9][a-z0-9._-]{0,63}")


class Board(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of the leaderboard, declared as `[[feature.leaderboard.boards]]`."""

    name: str
    """Part of its address: small letters, digits, dots and dashes."""
    benchmarks: tuple[str, ...]
    """Names, suites or folders of benchmarks that are built with their answers."""
    rotation: tuple[tuple[str, ...], ...] = ()
    """Further sets of benchmarks, each of which takes over when the budget of the one before is spent (`rotation`)."""
    title: str = ""
    about: str = ""
    a_day: int = 2
    """How many submissions of one account are scored within 24 hours."""
    presentations: int = 1
    """Rows of each question."""
    breakdown: tuple[str, ...] = ()
    """Tags of samples by which numbers are shown, too."""
    smallest_group: int = 50
    """Questions of the smallest part of a benchmark that has a number of its own."""
    noise_answers: float = 10.0
    """Scale of the noise in each number, in answers (`releasing` says what it is good for)."""
    budget: float = 0.25
    """Nats that all numbers together may tell about any one answer, for life (`ledger`)."""
    account_share: float = 0.25
    """The share of the budget that one account may have."""
    alike: float = 0.25
    """A file that differs from an earlier one in at most this share of the noise gets the numbers of then."""
    widest_noise: float = 0.05
    """How much the noise may widen an interval on either side, as a share of the metric's range, before a number is no
    longer ranked."""

    def __post_init__(self) -> None:
        """Raise ValueError if a setting is out of its range."""
        if not _BOARD_NAME.fullmatch(self.name):
            raise ValueError(
                f"a board's name has small letters, digits, dots and dashes, and {self.name!r} has not"
            )
        if not self.benchmarks or not all(self.rotation):
            raise ValueError(f"the board {self.name!r} needs benchmarks")
        if not self.noise_answers > 0:
            raise ValueError(f"the board {self.name!r}: noise_answers is more than 0")
        if not SMALLEST_ROUNDING_STEP < self.widest_noise <= 1:
            raise ValueError(
                f"the board {self.name!r}: widest_noise is more than {SMALLEST_ROUNDING_STEP}, and at most 1"
            )
        if not self.budget > 0:
            raise ValueError(f"the board {self.name!r}: budget is more than 0")
        if not 0 < self.account_share <= 1:
            raise ValueError(
                f"the board {self.name!r}: account_share is more than 0, and at most 1"
            )
        if not 0 <= self.alike <= 1:
            raise ValueError(f"the board {self.name!r}: alike is from 0 to 1")
        for name in ("a_day", "presentations", "smallest_group"):
            if getattr(self, name) < 1:
                raise ValueError(f"the board {self.name!r}: {name} is at least 1")

    @property
    def sets(self) -> int:
        """Number of sets of benchmarks, including the first."""
        return 1 + len(self.rotation)

    @property
    def heading(self) -> str:
        return self.title or self.name

    @property
    def questions_needed(self) -> int:
        """Return the smallest number of questions that is ranked with this board's noise."""
        return questions_needed(self.noise_answers, self.widest_noise)


class LeaderboardSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings in `[feature.leaderboard]`."""

    boards: tuple[Board, ...] = ()
    upload_bytes: int = 20 * 1024 * 1024
    unpacked_bytes: int = 100 * 1024 * 1024
    """Bytes that an .xlsx or Parquet file may unpack to."""
    rows: int = 200_000
    seconds: int = 900
    """After so long the scoring of a file is given up."""
    memory_bytes: int = 8 * 1024**3
    """Of address space, for the process that reads and scores a file."""

    def __post_init__(self) -> None:
        """Raise ValueError if two boards have the same name."""
        names = [board.name for board in self.boards]
        for name in sorted(names):
            if names.count(name) > 1:
                raise ValueError(f"two boards are named {name!r}")


@dataclass
class BoardSets:
    """Which of its sets of benchmarks each board currently uses, by the board's name.

    Sets are numbered from 0. Only boards with a `rotation` have several.
    """

    in_use: dict[str, int] = field(default_factory=dict)


def board_with_set(board: Board, number: int) -> Board:
    """Return a board whose benchmarks are those of one of its sets: set 0 is `benchmarks`, set 1 is `rotation[0]`."""
    sets = (board.benchmarks, *board.rotation)
    return replace(board, benchmarks=sets[number])


def settings_of(services: Services) -> LeaderboardSettings:
    """Return the settings of the leaderboard, where each board lists the benchmarks of its current set of questions."""
    settings: LeaderboardSettings = services.settings(NAME)
    board_sets: BoardSets = services.held.get(NAME, BoardSets())
    boards = []
    for board in settings.boards:
        set_number = board_sets.in_use.get(board.name, 0)
        boards.append(board_with_set(board, set_number))
    return replace(settings, boards=tuple(boards))


def find_board(services: Services, name: str) -> Board | None:
    return next((board for board in settings_of(services).boards if board.name == name), None)


@lru_cache(maxsize=64)
def board_benchmarks(board: Board) -> tuple[Benchmark, ...]:
    """Return the benchmarks of a board, which are opened only once.

    Raises DataError if one was built without answers.
    """
    opened = tuple(use.benchmark for use in find_benchmarks(board.benchmarks))
    for benchmark in opened:
        if not has_answers(benchmark.folder) or not benchmark.manifest.counts.answers:
            raise DataError(
                f"the board {board.name} cannot score {benchmark.name}: it was built without answers"
            )
    return opened


def build_digests(services: Services, benchmark: Benchmark) -> tuple[str, str]:
    """Return two digests that identify the build of a benchmark and reveal nothing of its answers.

    Returns:
        A digest of the questions, and one of questions and answers. The second is signed by the
        server: otherwise, if there are few answers, one could try all of them until the digest
        fits.
    """
    manifest = benchmark.manifest
    signature = services.signer.signature("leaderboard build", manifest.version)
    return manifest.questions[:12], signature[:12]


async def boards_fault(services: Services) -> str | None:
    """Return why a board cannot be used, for the health check `/readyz`; None if all can be used.

    Everybody can read this text, so it contains no path.
    """
    for board in settings_of(services).boards:
        try:
            await asyncio.to_thread(board_benchmarks, board)
        except SnellenError:
            return f"the benchmarks of the board {board.name} cannot be opened with their answers"
    return None
