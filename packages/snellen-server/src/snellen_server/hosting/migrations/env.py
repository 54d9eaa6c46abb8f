"""What Alembic runs around migrations: over the connection that `snellen_server.hosting.database` opened."""

from __future__ import annotations

import alembic.context as context

from snellen_server.hosting.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,  # for the names of constraints
    transactional_ddl=True,
    transaction_per_migration=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
