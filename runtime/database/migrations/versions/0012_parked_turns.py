"""Turns that are parked: they leave their thread to others, and are woken."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("thread_turns", sa.Column("parked", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("runs", sa.Column("woken", sa.Boolean(), server_default=sa.false(), nullable=False))
    where = sa.text("state IN ('awaiting', 'budget_exceeded', 'switched_off')")
    op.create_index("ix_runs_parked", "runs", ["state", "user_id", "agent"], sqlite_where=where, postgresql_where=where)
