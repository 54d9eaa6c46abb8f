"""Pictures that people sent, and who sent them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from snellen_server.hosting.tables import BigId, UtcDateTime

revision = "pictures_0001"
down_revision = None
branch_labels = ("pictures",)
depends_on = "core_0001"


def upgrade() -> None:
    op.create_table(
        "picture",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("media_type", sa.String(20), nullable=False),
        sa.Column("width", sa.Integer, nullable=False),
        sa.Column("height", sa.Integer, nullable=False),
        sa.Column("bytes", sa.Integer, nullable=False),
        sa.Column("created", UtcDateTime(), nullable=False, index=True),
    )
    op.create_table(
        "picture_sending",
        sa.Column("id", BigId, primary_key=True, autoincrement=True),
        sa.Column(
            "digest", sa.String(64), sa.ForeignKey("picture.digest", ondelete="CASCADE"), nullable=False, index=True
        ),
        sa.Column("account_id", sa.String(24), index=True),
        sa.Column("visitor", sa.String(24), index=True),
        sa.Column("sent", UtcDateTime(), nullable=False, index=True),
    )
