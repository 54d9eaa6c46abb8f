"""Ratings of items by accounts."""

from __future__ import annotations

from snellen_server.hosting.tables import create_declared
from snellen_server.rating.feature import item_rating

revision = "ratings_0001"
down_revision = None
branch_labels = ("ratings",)
depends_on = "core_0001"


def upgrade() -> None:
    create_declared(item_rating)
