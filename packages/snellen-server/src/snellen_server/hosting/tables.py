"""The database tables of the server itself, such as accounts. Features declare their own tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import alembic.op
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    TypeDecorator,
)

NAMES = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
"""Names for constraints, so that a later migration can refer to them."""
METADATA = MetaData(naming_convention=NAMES)
"""All tables of the server and of Snellen's features. Other packages use a MetaData of their own."""
BigId = BigInteger().with_variant(Integer(), "sqlite")
"""The type of an id that the database assigns, counting up."""


class UtcDateTime(TypeDecorator[datetime]):
    """A database column type for times with a time zone, which are stored in UTC on every database."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return a time as the database stores it: in UTC, for SQLite without a time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(
                f"{value!r} has no time zone; use snellen_server.hosting.tables.utc_now()"
            )
        return value.astimezone(UTC).replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return a stored time with UTC as its time zone."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def utc_now() -> datetime:
    return datetime.now(UTC)


def create_declared(*tables: Table) -> None:
    """Create tables exactly as the code declares them now.

    This is for the first revision of a feature's migrations, as long as there is no second one. If
    you add a second revision, replace the call in the first one by the tables as they were then.
    """
    for table in tables:
        table.create(alembic.op.get_bind())


def _moment(name: str, **settings: Any) -> Column[datetime]:
    return Column(name, UtcDateTime(), nullable=settings.pop("nullable", False), **settings)


account = Table(
    "account",
    METADATA,
    Column("id", String(24), primary_key=True),
    Column("name", String(64), nullable=False),
    Column("folded_name", String(64), nullable=False, unique=True),
    Column("password", String(256), nullable=True),
    Column("is_admin", Boolean, nullable=False),
    Column("is_disabled", Boolean, nullable=False),
    _moment("created"),
)
session = Table(
    "session",
    METADATA,
    Column("digest", String(64), primary_key=True),
    Column("account_id", ForeignKey("account.id", ondelete="CASCADE"), nullable=False, index=True),
    _moment("created"),
    _moment("expires", index=True),
)
api_key = Table(
    "api_key",
    METADATA,
    Column("id", String(24), primary_key=True),
    Column("account_id", ForeignKey("account.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("title", String(100), nullable=False),
    Column("scopes", JSON, nullable=False),
    _moment("created"),
    _moment("expires", nullable=True),
)
invitation = Table(
    "invitation",
    METADATA,
    Column("digest", String(64), primary_key=True),
    Column("account_id", ForeignKey("account.id", ondelete="CASCADE"), nullable=True, index=True),
    Column("is_admin", Boolean, nullable=False),
    _moment("created"),
    _moment("expires", index=True),
)
audit = Table(
    "audit",
    METADATA,
    Column("id", BigId, primary_key=True, autoincrement=True),
    _moment("at", index=True),
    Column("actor", String(80), nullable=False),
    Column("action", String(80), nullable=False),
    Column("subject", String(200), nullable=False),
    Column("detail", JSON, nullable=False),
    Index("ix_audit_actor", "actor"),
)
job_lease = Table(
    "job_lease",
    METADATA,
    Column("job", String(100), primary_key=True),
    Column("holder", String(24), nullable=False),
    _moment("until"),
)
