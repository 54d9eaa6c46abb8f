"""Images that people sent, and who sent them."""

from __future__ import annotations

from snellen_server.hosting.pictures import picture, picture_sending
from snellen_server.hosting.tables import create_declared

revision = "pictures_0001"
down_revision = None
branch_labels = ("pictures",)
depends_on = "core_0001"


def upgrade() -> None:
    create_declared(picture, picture_sending)
