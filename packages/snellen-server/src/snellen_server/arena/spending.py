"""A daily budget for the cost of an arena's replies, and a switch that stops all questions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, func, select

from snellen_server.arena.battles import arena_battle, arena_vote
from snellen_server.arena.settings import ArenaModel, ArenaSettings
from snellen_server.hosting.database import BusyError, Database
from snellen_server.hosting.tables import utc_now

STOP_FILE = "arena-stopped"
"""A file in the folder of the server. While it exists, no process asks a model, also after a restart."""
REFRESH_SECONDS = 60.0
"""Seconds after which the sum is read from the database again, because other processes spend money, too."""
JUDGE_REPLIES = 2
"""A judge is asked in both orders."""


class Spending:
    """Keeps track of what today's replies have cost, and refuses questions above the budget."""

    def __init__(self, settings: ArenaSettings, folder: Path, database: Database) -> None:
        """Prepare the budget; the amount spent today is read from the database when it is first needed."""
        self._settings, self._database = settings, database
        self._stop_file = folder / STOP_FILE
        self._prices = {model.name: model.reply_price for model in settings.models}
        self._day = ""
        self._spent = 0.0
        self._read_at = 0.0
        self._reading = asyncio.Lock()

    def change_prices(self, models: Iterable[ArenaModel]) -> None:
        """Use the reply prices of these models from now on."""
        self._prices = {model.name: model.reply_price for model in models}

    @property
    def is_stopped(self) -> bool:
        """Whether the operator has stopped all questions."""
        return self._stop_file.exists()

    def switch(self, *, stopped: bool) -> None:
        """Stop all questions, or allow them again."""
        if stopped:
            self._stop_file.touch(mode=0o600)
        else:
            self._stop_file.unlink(missing_ok=True)

    @asynccontextmanager
    async def spend(self, models: Iterable[str]) -> AsyncIterator[None]:
        """Charge one reply of each of these models for the duration of a `with` block.

        If the block fails, no model was asked and the charge is taken back. Raises BusyError if the
        arena is stopped or the rest of the budget does not suffice.
        """
        cost = sum(self._prices.get(name, 0.0) for name in models)
        await self.spend_money(cost)
        charged_at = self._read_at
        try:
            yield
        except BaseException:
            # If the sum was read from the database in the meantime, it does not contain this charge.
            if self._read_at == charged_at:
                self._spent -= cost
            raise

    async def spend_on_judge(self) -> None:
        """Charge the replies of the judge model to one battle, which it judges in both orders.

        Raises BusyError if the arena is stopped or the rest of the budget does not suffice.
        """
        judge = self._settings.judge
        await self.spend_money(JUDGE_REPLIES * judge.reply_price if judge else 0.0)

    async def spend_money(self, cost: float) -> None:
        """Charge an amount to today's budget, in the unit of `daily_budget`.

        Raises BusyError if the arena is stopped or the amount is more than is left of the budget.
        """
        if self.is_stopped:
            raise BusyError(
                "the arena is paused by its operator; votes on open battles still count"
            )
        budget = self._settings.daily_budget
        if budget is None:
            return
        # Only one task at a time reads the sum: a late result would overwrite what others were charged in the meantime.
        async with self._reading:
            today = f"{datetime.now(UTC):%Y-%m-%d}"
            if today != self._day or time.monotonic() - self._read_at > REFRESH_SECONDS:
                self._spent = await self._database.read(spent_today, self._prices, self._settings)
                self._day, self._read_at = today, time.monotonic()
        if self._spent + cost > budget + 1e-9:
            raise BusyError("today's budget for replies is spent; come back after midnight UTC")
        self._spent += cost


def spent_today(
    connection: Connection, prices: Mapping[str, float], settings: ArenaSettings
) -> float:
    """Return an upper limit for the cost of all replies since midnight (UTC).

    All questions of a battle count if the battle has changed since then, even earlier ones.
    """
    midnight = utc_now().replace(hour=0, minute=0, second=0, microsecond=0)
    battle = arena_battle.c
    asked = (
        select(battle.left, battle.right, func.sum(battle.turn_count))
        .where(battle.changed >= midnight, battle.kind != "offline")
        .group_by(battle.left, battle.right)
    )
    spent = 0.0
    for left, right, turns in connection.execute(asked):
        spent += turns * (prices.get(left, 0.0) + prices.get(right, 0.0))
    if settings.judge is not None:
        judged = select(func.count()).where(
            arena_vote.c.voter_kind == "judge", arena_vote.c.cast >= midnight
        )
        count = connection.execute(judged).scalar_one()
        spent += count * JUDGE_REPLIES * settings.judge.reply_price
    return spent
