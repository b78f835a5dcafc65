"""The log of changed threads, by which an index over messages finds out what to read again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "thread_changes",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("thread_id", sa.String(length=36), nullable=False),
        sa.Column("agent", sa.String(length=64), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.Column("summary_count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("number", "thread_id"),
        sqlite_with_rowid=False,
    )
