"""A battle may be about several images."""

from __future__ import annotations

import alembic.op
from sqlalchemy import JSON, Column, text

revision = "arena_0003"
down_revision = "arena_0002"
branch_labels = None
depends_on = None

FILL = {
    "sqlite": "UPDATE arena_battle SET images = json_array(image) WHERE image IS NOT NULL",
    "postgresql": "UPDATE arena_battle SET images = json_build_array(image) WHERE image IS NOT NULL",
}
"""Statements that make a list of the image of before, by kind of database."""


def upgrade() -> None:
    new_column = Column("images", JSON, nullable=False, server_default="[]")
    alembic.op.add_column("arena_battle", new_column)
    alembic.op.execute(text(FILL[alembic.op.get_bind().dialect.name]))
    alembic.op.drop_column("arena_battle", "image")
