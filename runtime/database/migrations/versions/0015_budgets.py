"""Budgets: totals of each day, reservations of calls, limits of users, and the begin of runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "usage_totals",
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("agent", sa.String(length=64), nullable=False),
        sa.Column("day", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "agent", "day"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "reservations",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("agent", sa.String(length=64), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", "user_id", "agent"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_reservations_total", "reservations", ["user_id", "agent", "day"])
    op.create_table(
        "user_settings",
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("tokens_per_day", sa.BigInteger()),
        sa.Column("cost_per_day", sa.BigInteger()),
        sa.Column("runs_per_hour", sa.BigInteger()),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id"),
    )
    op.add_column("runs", sa.Column("begun_at", sa.BigInteger()))
    where = sa.text("begun_at IS NOT NULL")
    for name, column in (("ix_runs_begun_agent", "agent"), ("ix_runs_begun_user", "user_id")):
        op.create_index(name, "runs", [column, "begun_at"], sqlite_where=where, postgresql_where=where)
