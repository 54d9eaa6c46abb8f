"""Battles, votes, voters' pseudonyms, ratings."""

from __future__ import annotations

from snellen_server.arena.battles import arena_battle, arena_rating, arena_vote, arena_voter
from snellen_server.hosting.tables import create_declared

revision = "arena_0001"
down_revision = None
branch_labels = ("arena",)
depends_on = "core_0001"


def upgrade() -> None:
    create_declared(arena_battle, arena_vote, arena_voter, arena_rating)
