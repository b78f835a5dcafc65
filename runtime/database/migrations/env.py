"""Alembic's entry: runs the revisions over the connection that `runtime.database.migrate` handed in."""

from __future__ import annotations

from alembic import context

from runtime.database.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
