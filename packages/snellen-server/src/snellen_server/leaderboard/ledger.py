"""What all that a board has shown tells about one hidden answer, and how much more it may tell.

Each number with Laplace noise of b answers tells at most 1 / (2 b^2) nats about any one answer, even to somebody who
knows all others: it is exp(1 / b)-indistinguishable from the number with another answer, which is (1 / 2 b^2)-zero
concentrated differential privacy (Bun and Steinke 2016, proposition 1.4), and what numbers tell adds up (lemma 1.7),
over entries, accounts, parts and boards. When T nats were told in all, a guess at one answer is right with a
probability at most sqrt(T / 2) above that without the board (Pinsker's inequality).

So the questions of a benchmark have a budget for life. Half of it goes for numbers with the noise that the board
declares, a quarter for twice the noise and the rest for four times. Then a submission is refused. Whoever sends what was
sent before, or differs from it in fewer answers than noise hides, is shown the numbers of then, which tells nothing new.

The ladder mechanism (Blum and Hardt 2015) was not chosen: it shows only who betters the best entry so far, and a board
shows a number for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Float,
    Index,
    LargeBinary,
    Row,
    String,
    Table,
    func,
    insert,
    select,
)

from snellen import DataError
from snellen_server.hosting.tables import METADATA, BigId, UtcDateTime, utc_now
from snellen_server.leaderboard.boards import Board
from snellen_server.leaderboard.releasing import Draw, PublishedNumber, release_number
from snellen_server.leaderboard.scoring_process import ExactNumber

STAGES = (1.0, 2.0, 4.0)
"""By what the noise is multiplied, one stage after the other."""
READING_BYTES = 4
"""Of the digest of one reading."""

leaderboard_release = Table(
    "leaderboard_release",
    METADATA,
    Column("id", BigId, primary_key=True, autoincrement=True),
    Column("questions", String(64), nullable=False),
    Column("board", String(64), nullable=False),
    Column("benchmark", String(200), nullable=False),
    Column("build", String(64), nullable=False),
    Column("account_id", String(24), index=True),
    Column("content", String(64), nullable=False),
    Column("noise", Float, nullable=False),
    Column("cost", Float, nullable=False),
    Column("readings", LargeBinary, nullable=False),
    Column("numbers", JSON, nullable=False),
    Column("made", UtcDateTime(), nullable=False),
    Index("ix_leaderboard_release_questions", "questions"),
)


@dataclass(frozen=True, kw_only=True)
class MeasuredBenchmark:
    """What was measured of one benchmark of a submission."""

    benchmark: str
    questions: str
    """Digest of its questions: a build with other answers has the same budget."""
    build: str
    """Signed digest of its build, with the answers."""
    content: str
    """Digest of what the metric saw."""
    readings: bytes
    """Digests of the readings, each of `READING_BYTES`, in the order of the questions."""
    numbers: tuple[ExactNumber, ...]


@dataclass(frozen=True)
class BudgetUse:
    """How far the budget of a board's questions is spent."""

    spent: float
    """Nats, of the benchmark of which most was told."""
    budget: float

    @property
    def share(self) -> float:
        return min(self.spent / self.budget, 1.0)


class SpentError(DataError):
    """The board may tell no more."""


def cost_of(noise: float, numbers: int = 1) -> float:
    """Nats that so many numbers with Laplace noise of `noise` answers tell about one answer at most.

    Example:
        >>> cost_of(10.0)
        0.005
    """
    return numbers / (2 * noise**2)


def affordable_noise(board: Board, spent: float, by_account: float, numbers: int) -> float | None:
    """Return the least noise of the next numbers, in answers; None when the budget allows none.

    Args:
        board: Declares noise, budget and the share of an account.
        spent: Nats told so far about these questions.
        by_account: Those of them told to the account that asks.
        numbers: How many numbers rest on one answer: the headline, and one for each kind of part.
    """
    slack = 1e-9
    for stage, factor in enumerate(STAGES):
        noise = factor * board.noise_answers
        cost = cost_of(noise, numbers)
        is_last = stage == len(STAGES) - 1
        share = 1.0 if is_last else 1 - 0.5 ** (stage + 1)
        within_budget = spent + cost <= share * board.budget + slack
        of_account = share * board.account_share * board.budget
        if within_budget and by_account + cost <= of_account + slack:
            return noise
    return None


def numbers_on_an_answer(numbers: Sequence[ExactNumber]) -> int:
    """Return how many of a benchmark's numbers depend on one answer at most: it is in one part of each kind."""
    kinds = {number.slice.partition("=")[0] for number in numbers}
    return len(kinds)


def release(
    connection: Connection,
    board: Board,
    account_id: str,
    measured: Sequence[MeasuredBenchmark],
    draw_of: Mapping[str, Any],
) -> list[PublishedNumber]:
    """Record and return the numbers of a submission that may be seen, with their privacy loss.

    Args:
        connection: One writer at a time.
        board: The board that shows them.
        account_id: The account that submitted.
        measured: Each benchmark of the board.
        draw_of: Benchmark -> a function of the noise that gives its draw.

    Raises:
        SpentError: The budget is spent. Nothing is shown or written down then.
    """
    published: list[PublishedNumber] = []
    rows: list[dict[str, Any]] = []
    for benchmark in measured:
        earlier_release = _known_release(connection, board, benchmark)
        if earlier_release is not None:
            published += msgspec.convert(earlier_release.numbers, list[PublishedNumber])
            continue
        spent, by_account = told(connection, benchmark.questions, account_id)
        count = numbers_on_an_answer(benchmark.numbers)
        noise = affordable_noise(board, spent, by_account, count)
        if noise is None:
            raise SpentError(_refusal(board, spent, count))
        draw: Draw = draw_of[benchmark.benchmark](noise)
        numbers = [release_number(exact, noise, draw) for exact in benchmark.numbers]
        published += numbers
        rows.append(
            {
                "questions": benchmark.questions,
                "board": board.name,
                "benchmark": benchmark.benchmark,
                "build": benchmark.build,
                "account_id": account_id,
                "content": benchmark.content,
                "noise": noise,
                "cost": cost_of(noise, count),
                "readings": benchmark.readings,
                "numbers": msgspec.to_builtins(numbers),
                "made": utc_now(),
            }
        )
    if rows:
        connection.execute(insert(leaderboard_release), rows)
    return published


def told(connection: Connection, questions: str, account_id: str = "") -> tuple[float, float]:
    """Return the privacy loss, in nats, of any one answer to these questions so far: in all, and to one account."""
    of_questions = leaderboard_release.c.questions == questions
    total = select(func.coalesce(func.sum(leaderboard_release.c.cost), 0.0)).where(of_questions)
    of_account = total.where(leaderboard_release.c.account_id == account_id)
    return (
        float(connection.execute(total).scalar_one()),
        float(connection.execute(of_account).scalar_one()),
    )


def budget_use(connection: Connection, board: Board, questions: Sequence[str]) -> BudgetUse:
    """Return how much of the budget of a board, whose benchmarks have these questions, is spent."""
    spent = max((told(connection, digest)[0] for digest in questions), default=0.0)
    return BudgetUse(spent, board.budget)


def _known_release(
    connection: Connection, board: Board, measured: MeasuredBenchmark
) -> Row[Any] | None:
    """Return an earlier release of a file that hardly differs from this one, chosen independently of the answers."""
    release_of = leaderboard_release.c
    chosen = select(leaderboard_release).where(
        release_of.questions == measured.questions,
        release_of.board == board.name,
        release_of.benchmark == measured.benchmark,
        release_of.build == measured.build,
    )
    own = np.frombuffer(measured.readings, dtype=f"<u{READING_BYTES}")
    for row in connection.execute(chosen.order_by(release_of.id)):
        if row.content == measured.content:
            return row
        earlier = np.frombuffer(row.readings, dtype=f"<u{READING_BYTES}")
        if len(earlier) != len(own) or not len(own):
            continue
        if int((earlier != own).sum()) <= row.noise * board.alike:
            return row
    return None


def _refusal(board: Board, spent: float, numbers: int) -> str:
    """Say whether the board's whole budget or this account's share of it is spent."""
    if spent + cost_of(STAGES[-1] * board.noise_answers, numbers) > board.budget:
        return (
            f"{board.heading} takes no further submissions: its questions have a budget of {board.budget:g} nats per "
            "answer for life, and it is spent"
        )
    return (
        f"this account has had its share of what {board.heading} may tell about its answers "
        f"({board.account_share:.0%} of the budget)"
    )
