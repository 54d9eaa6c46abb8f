"""Ratings of items by accounts."""

from __future__ import annotations

from snellen_lab.rating_pages.feature import item_rating
from snellen_server.hosting.tables import create_declared

revision = "ratings_0001"
down_revision = None
branch_labels = ("ratings",)
depends_on = "core_0001"


def upgrade() -> None:
    create_declared(item_rating)
