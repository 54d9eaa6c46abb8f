"""Accounts, their sessions, keys and invitations, the audit log, leases of jobs."""

from __future__ import annotations

from snellen_server.hosting.tables import (
    account,
    api_key,
    audit,
    create_declared,
    invitation,
    job_lease,
    session,
)

revision = "core_0001"
down_revision = None
branch_labels = ("core",)
depends_on = None


def upgrade() -> None:
    create_declared(account, session, api_key, invitation, audit, job_lease)
