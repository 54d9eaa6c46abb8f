"""The arena at a glance, for the home page: who leads, and the latest battles.

A vote's outcome is public, as it is in the table of who wins against whom. What was asked is shown only where it is the
operator's, an example with its own question or a question of an earlier run: nobody else's words or pictures are.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, select

from snellen_server.arena.battles import HIDDEN
from snellen_server.arena.running import Arena, arena_of
from snellen_server.arena.standings import latest_standing
from snellen_server.arena.tables import arena_battle, arena_vote
from snellen_server.hosting.services import Services

SHOWN_MODELS, SHOWN_BATTLES = 5, 5


class VotedBattle(Struct, frozen=True):
    """A battle whose models are named, since it was voted on."""

    left: str
    right: str
    outcome: str
    question: str = ""
    """What was asked first; empty where that is a person's own."""
    image: str = ""


async def summarised_arena(services: Services) -> dict[str, Any]:
    """The values of `arena/home.html`."""
    arena = arena_of(services)
    standing, votes = await services.database.read(
        lambda connection: (latest_standing(connection), _latest_votes(connection))
    )
    rows = [*standing.settled, *standing.provisional] if standing else []
    return {
        "is_open": bool(arena.settings.models),
        "has_recorded": bool(arena.recorded.shared),
        "ratings": rows[:SHOWN_MODELS],
        "more": len(rows) - SHOWN_MODELS,
        "battles": [_voted_battle(arena, vote) for vote in votes],
    }


def _latest_votes(connection: Connection) -> list[Row[Any]]:
    """The last votes of people on models whose names were hidden."""
    battle = arena_battle.c
    chosen = (
        select(battle.kind, battle.left, battle.right, battle.image, battle.turns, arena_vote.c.outcome)
        .join(arena_vote, arena_vote.c.battle_id == battle.id)
        .where(arena_vote.c.voter_kind == "person", battle.kind.in_(HIDDEN))
        .order_by(arena_vote.c.cast.desc())
    )
    return list(connection.execute(chosen.limit(SHOWN_BATTLES)))


def _voted_battle(arena: Arena, vote: Row[Any]) -> VotedBattle:
    question = vote.turns[0]["prompt"] if vote.turns else ""
    is_example = any((one.digest, one.question) == (vote.image, question) for one in arena.examples)
    if not question or not (vote.kind == "offline" or is_example):
        return VotedBattle(vote.left, vote.right, vote.outcome)
    return VotedBattle(vote.left, vote.right, vote.outcome, question, vote.image or "")
