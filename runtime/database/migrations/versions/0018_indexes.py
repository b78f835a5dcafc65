"""Indexes by which turns that are due at the same time are claimed in order, and SQLite finds calls that wait."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    where = sa.text("state = 'queued' AND lane IS NULL")
    for table in ("deliveries", "inputs"):
        name = f"ix_{table}_due"
        op.drop_index(name, table)
        op.create_index(name, table, ["next_attempt_at", "id"], sqlite_where=where, postgresql_where=where)
    where = sa.text("state = 'awaiting'")
    columns = ["state", "user_id", "created_at", "id"]
    op.drop_index("ix_approvals_awaiting", "approvals")
    op.create_index("ix_approvals_awaiting", "approvals", columns, sqlite_where=where, postgresql_where=where)
