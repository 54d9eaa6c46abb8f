"""What the replies of an arena may cost: a budget for each day, and a switch that stops all questions."""

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
"""In the folder of the server: while it is there, no model is asked. Every process sees it, and a restart keeps it."""
REFRESH_SECONDS = 60.0
"""After so long the sum is read from the database again, which knows what other processes spent."""
JUDGE_REPLIES = 2
"""A judge is asked in both orders."""


class Spending:
    """What the replies of today have cost, and whether one more may be asked for."""

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
        """Charge what these models cost from now on."""
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
        """Charge one reply of each of these models, and give it back when the block fails, since none is asked then.

        Raises BusyError where none may be asked for.
        """
        cost = sum(self._prices.get(name, 0.0) for name in models)
        await self.spend_money(cost)
        charged_at = self._read_at
        try:
            yield
        except BaseException:
            # A sum that was read since does not have this charge.
            if self._read_at == charged_at:
                self._spent -= cost
            raise

    async def spend_on_judge(self) -> None:
        """Charge what a judge replies to one battle. Raises BusyError."""
        judge = self._settings.judge
        await self.spend_money(JUDGE_REPLIES * judge.reply_price if judge else 0.0)

    async def spend_money(self, cost: float) -> None:
        """Charge so much. Raises BusyError where it is more than is left, or the switch is off."""
        if self.is_stopped:
            raise BusyError(
                "the arena is paused by its operator; votes on open battles still count"
            )
        budget = self._settings.daily_budget
        if budget is None:
            return
        # One at a time: a sum that is read late would forget what others were charged meanwhile.
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
    """Return an upper limit for the cost of replies since midnight (UTC): all questions of battles that changed since."""
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
