"""Alembic's entry point: runs the revisions over the connection given by `runtime.database.migrate`."""

from __future__ import annotations

from alembic import context

from runtime.database.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
