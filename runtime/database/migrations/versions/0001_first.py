"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "attempts",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("webhook", sa.String(length=64), nullable=True),
        sa.Column("verdict", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("event", sa.Text(), nullable=True),
        sa.Column("provider_delivery_id", sa.Text(), nullable=True),
        sa.Column("delivery_id", sa.String(length=36), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("body_sha256", sa.String(length=64), nullable=True),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("verified", sa.Boolean(), nullable=False),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_attempts_reason", "attempts", ["verdict", "reason", "id"], unique=False)
    op.create_index("ix_attempts_received_at", "attempts", ["received_at"], unique=False)
    op.create_table(
        "bodies",
        sa.Column("delivery_id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("delivery_id"),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("webhook", sa.String(length=64), nullable=False),
        sa.Column("agent", sa.String(length=64), nullable=False),
        sa.Column("provider", sa.String(length=64), nullable=False),
        sa.Column("provider_delivery_id", sa.Text(), nullable=True),
        sa.Column("event", sa.Text(), nullable=True),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("body_sha256", sa.String(length=64), nullable=True),
        sa.Column("content_type", sa.Text(), nullable=True),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("verified", sa.Boolean(), nullable=False),
        sa.Column("secret_index", sa.Integer(), nullable=True),
        sa.Column("keep_body", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=True),
        sa.Column("run_id", sa.String(length=36), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("user_id", "webhook", "provider_delivery_id", name="uq_deliveries_provider_delivery_id"),
    )
    op.create_index(
        "ix_deliveries_due",
        "deliveries",
        ["next_attempt_at"],
        unique=False,
        sqlite_where=sa.text("state = 'queued'"),
        postgresql_where=sa.text("state = 'queued'"),
    )
    op.create_index(
        "ix_deliveries_running",
        "deliveries",
        ["lease_until"],
        unique=False,
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_table(
        "meta",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "replay_keys",
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("webhook", sa.String(length=64), nullable=False),
        sa.Column("mac", sa.LargeBinary(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("delivery_id", sa.String(length=36), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "webhook", "mac"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_replay_keys_expires_at", "replay_keys", ["expires_at"], unique=False)
    op.create_table(
        "secrets",
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "name"),
    )
    op.create_table(
        "steps",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("repeatable", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("intent", sa.LargeBinary(), nullable=False),
        sa.Column("result", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "position"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "threads",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("agent", sa.String(length=64), nullable=False),
        sa.Column("title", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_threads_agent", "threads", ["user_id", "agent", "updated_at"], unique=False)
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("thread_id", sa.String(length=36), nullable=True),
        sa.Column("delivery_id", sa.String(length=36), nullable=True),
        sa.Column("agent", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.id"], name="fk_runs_thread_id", ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_runs_delivery_id", "runs", ["delivery_id"], unique=False)
    op.create_index("ix_runs_thread_id", "runs", ["thread_id"], unique=False)
