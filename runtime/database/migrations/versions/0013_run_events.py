"""The log of what happens in runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_events",
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("agent", sa.String(length=64), nullable=False),
        sa.Column("thread_id", sa.String(length=36), nullable=True),
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("key", sa.String(length=80), nullable=True),
        sa.Column("name", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "number"),
        sa.UniqueConstraint("run_id", "key", name="uq_run_events_key"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_run_events_run", "run_events", ["run_id", "number"])
    op.create_index("ix_run_events_thread", "run_events", ["thread_id"])
    op.create_index("ix_run_events_created_at", "run_events", ["created_at"])
    op.create_table(
        "run_event_counts",
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("newest", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id"),
        sqlite_with_rowid=False,
    )
