"""Submissions to the leaderboard."""

from __future__ import annotations

from snellen_server.hosting.tables import create_declared
from snellen_server.leaderboard.submissions import submission

revision = "leaderboard_0001"
down_revision = None
branch_labels = ("leaderboard",)
depends_on = "core_0001"


def upgrade() -> None:
    create_declared(submission)
