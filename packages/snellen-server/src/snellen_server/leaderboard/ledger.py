"""The privacy budget of a board: how much its published numbers reveal about single hidden answers.

A number with Laplace noise of the size of b answers reveals at most 1 / (2 b^2) nats about any single answer, even to
someone who knows all others: it is exp(1 / b)-indistinguishable from the number with another answer, which is
(1 / 2 b^2)-zero-concentrated differential privacy (Bun and Steinke 2016, proposition 1.4). These losses add up (lemma
1.7) over entries, accounts, parts and boards. After a loss of T nats, a guess at one answer is correct with a
probability at most sqrt(T / 2) higher than without the board (Pinsker's inequality).

So the questions of a benchmark have a budget for life. Half of it is spent on numbers with the noise that the board
declares, a quarter on twice that noise, and the rest on four times. Then submissions are refused. A submission that was
sent before, or differs from an earlier one in fewer answers than the noise hides, gets the earlier numbers, which
reveal nothing new.

The ladder mechanism (Blum and Hardt 2015) does not fit here: it only shows who improves on the best entry so far, but a
board shows a number for each entry.
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

NOISE_FACTORS = (1.0, 2.0, 4.0)
"""Factors by which the noise of a board grows as its budget is spent: none of them at first, then 2, then 4."""
READING_BYTES = 4
"""Length of the digest of one reading."""

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
    """The exact results of a submission on one benchmark, before noise is added."""

    benchmark: str
    questions: str
    """Digest of its questions: a build with other answers has the same budget."""
    build: str
    """Signed digest of its build, with the answers."""
    content: str
    """Digest of the part of the predictions that the metric depends on."""
    readings: bytes
    """Digests of the readings, each of `READING_BYTES`, in the order of the questions."""
    numbers: tuple[ExactNumber, ...]


@dataclass(frozen=True)
class BudgetUse:
    """How much of the privacy budget of a board's questions is spent."""

    spent: float
    """Privacy loss in nats, of the benchmark with the largest loss."""
    budget: float
    """Budget in nats."""

    @property
    def share(self) -> float:
        """Spent share of the budget, in [0, 1]."""
        return min(self.spent / self.budget, 1.0)


class SpentError(DataError):
    """The privacy budget of a board is spent: it may publish no more numbers."""


def cost_of(noise: float, numbers: int = 1) -> float:
    """Return the largest privacy loss, in nats, of publishing some numbers with Laplace noise.

    Args:
        noise: Scale of the noise, as the number of answers that change the number by as much.
        numbers: How many numbers depend on the same answer.

    Example:
        >>> cost_of(10.0)
        0.005
    """
    return numbers / (2 * noise**2)


def affordable_noise(
    board: Board, spent: float, spent_by_account: float, numbers: int
) -> float | None:
    """Return the smallest noise with which the next numbers may be published; None if the budget allows none.

    Args:
        board: The noise, the budget and the share of an account in the budget.
        spent: Privacy loss of these questions so far, in nats.
        spent_by_account: The part of it that is due to the account that submits.
        numbers: How many numbers depend on the same answer: the headline, and one for each kind of part.

    Returns:
        The noise, as the number of answers that change a number by as much.
    """
    rounding = 1e-9
    last_stage = len(NOISE_FACTORS) - 1
    for stage, factor in enumerate(NOISE_FACTORS):
        noise = factor * board.noise_answers
        cost = cost_of(noise, numbers)
        # The stages may use 1/2, 3/4 and in the end all of the budget.
        share = 1 - 0.5 ** (stage + 1)
        if stage == last_stage:
            share = 1.0
        budget = share * board.budget
        account_budget = share * board.account_share * board.budget
        is_within_budget = spent + cost <= budget + rounding
        if is_within_budget and spent_by_account + cost <= account_budget + rounding:
            return noise
    return None


def numbers_on_an_answer(numbers: Sequence[ExactNumber]) -> int:
    """Return the largest number of a benchmark's results that depend on the same answer.

    A question counts in the result for the whole benchmark, whose `slice` is "", and in one part of each kind. If parts
    are `colour=red`, `colour=blue` and `size=large`, an answer counts in at most three results.
    """
    kinds_of_parts = {number.slice.partition("=")[0] for number in numbers}
    return len(kinds_of_parts)


def release(
    connection: Connection,
    board: Board,
    account_id: str,
    measured: Sequence[MeasuredBenchmark],
    draw_of: Mapping[str, Any],
) -> list[PublishedNumber]:
    """Record and return the numbers of a submission that may be published, with noise in them.

    If an earlier submission had (nearly) the same predictions, its numbers are returned again.

    Args:
        connection: The transaction to write in. Only one may run at a time.
        board: The board that shows the numbers.
        account_id: The account that submitted.
        measured: The exact results on each benchmark of the board.
        draw_of: For each benchmark, a function that takes the size of the noise and returns the
            source of random numbers.

    Raises:
        SpentError: The budget is spent. Nothing is published or recorded then.
    """
    published: list[PublishedNumber] = []
    rows: list[dict[str, Any]] = []
    for benchmark in measured:
        earlier_release = _release_of_same_predictions(connection, board, benchmark)
        if earlier_release is not None:
            published += msgspec.convert(earlier_release.numbers, list[PublishedNumber])
            continue
        spent, spent_by_account = privacy_loss(connection, benchmark.questions, account_id)
        numbers_per_answer = numbers_on_an_answer(benchmark.numbers)
        noise = affordable_noise(board, spent, spent_by_account, numbers_per_answer)
        if noise is None:
            raise SpentError(_budget_spent_message(board, spent, numbers_per_answer))
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
                "cost": cost_of(noise, numbers_per_answer),
                "readings": benchmark.readings,
                "numbers": msgspec.to_builtins(numbers),
                "made": utc_now(),
            }
        )
    if rows:
        connection.execute(insert(leaderboard_release), rows)
    return published


def privacy_loss(
    connection: Connection, questions: str, account_id: str = ""
) -> tuple[float, float]:
    """Return how much the numbers published so far reveal about a benchmark's answers, in nats.

    Args:
        connection: The transaction to read in.
        questions: Digest of the questions.
        account_id: The account of which the own part is returned.

    Returns:
        A pair: the privacy loss through the submissions of all accounts, and the part of it that is due to this account.
    """
    is_on_questions = leaderboard_release.c.questions == questions
    sum_of_costs = func.coalesce(func.sum(leaderboard_release.c.cost), 0.0)
    by_all = select(sum_of_costs).where(is_on_questions)
    by_this_account = by_all.where(leaderboard_release.c.account_id == account_id)
    loss = connection.execute(by_all).scalar_one()
    account_loss = connection.execute(by_this_account).scalar_one()
    return float(loss), float(account_loss)


def budget_use(connection: Connection, board: Board, questions: Sequence[str]) -> BudgetUse:
    """Return how much of a board's privacy budget is spent.

    Args:
        connection: The transaction to read in.
        board: The board.
        questions: For each of its benchmarks, the digest of the questions.
    """
    spent = max((privacy_loss(connection, digest)[0] for digest in questions), default=0.0)
    return BudgetUse(spent, board.budget)


def _release_of_same_predictions(
    connection: Connection, board: Board, measured: MeasuredBenchmark
) -> Row[Any] | None:
    """Find the first earlier release of (nearly) the same predictions, whose numbers are shown again.

    Predictions are nearly the same if at most `board.alike` times the noise of their readings differ: with a quarter of
    a noise of 10 answers, two readings may differ. This choice does not depend on the hidden answers, so it reveals
    nothing about them.

    Args:
        connection: The transaction to read in.
        board: The board that shows the numbers.
        measured: What scoring gave for a benchmark. Its `readings` are digests of what was read in each prediction.

    Returns:
        The row of `leaderboard_release`; None if no earlier predictions are as similar.
    """
    columns = leaderboard_release.c
    query = select(leaderboard_release).where(
        columns.questions == measured.questions,
        columns.board == board.name,
        columns.benchmark == measured.benchmark,
        columns.build == measured.build,
    )
    # The digest of each reading, as an unsigned integer of four bytes; shape (number of readings,).
    digest_type = f"<u{READING_BYTES}"
    readings = np.frombuffer(measured.readings, dtype=digest_type)
    for row in connection.execute(query.order_by(columns.id)):
        if row.content == measured.content:
            return row
        earlier_readings = np.frombuffer(row.readings, dtype=digest_type)
        if len(earlier_readings) != len(readings) or not len(readings):
            continue
        different_readings = int((earlier_readings != readings).sum())
        if different_readings <= row.noise * board.alike:
            return row
    return None


def _budget_spent_message(board: Board, spent: float, numbers: int) -> str:
    """Say whether the board's whole budget or this account's share of it is spent."""
    if spent + cost_of(NOISE_FACTORS[-1] * board.noise_answers, numbers) > board.budget:
        return (
            f"{board.heading} takes no further submissions: its questions have a budget of {board.budget:g} nats per "
            "answer for life, and it is spent"
        )
    return (
        f"this account has had its share of what {board.heading} may tell about its answers "
        f"({board.account_share:.0%} of the budget)"
    )
