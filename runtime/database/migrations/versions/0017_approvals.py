"""Calls that wait for the approval of a person, and tools that were approved for good."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "approvals",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("agent", sa.String(length=64), nullable=False),
        sa.Column("thread_id", sa.String(length=36), nullable=False),
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("call_id", sa.String(length=80), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("deadline", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.BigInteger()),
        sa.Column("decided_by", sa.String(length=64)),
        sa.Column("reason", sa.LargeBinary()),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("run_id", "call_id", name="uq_approvals_call"),
    )
    where = sa.text("state = 'awaiting'")
    newest = ["user_id", "created_at", "id"]
    op.create_index("ix_approvals_awaiting", "approvals", newest, sqlite_where=where, postgresql_where=where)
    op.create_index("ix_approvals_newest", "approvals", newest)
    op.create_index("ix_approvals_thread", "approvals", ["thread_id"])
    op.create_table(
        "standing_approvals",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("agent", sa.String(length=64), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("decided_by", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("user_id", "agent", "tool", name="uq_standing_approvals_tool"),
    )
