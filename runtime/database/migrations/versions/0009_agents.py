"""Agents with a model: threads and their messages, core memory, and the usage of models."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "agent_settings",
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("agent", sa.String(length=64), nullable=False),
        sa.Column("settings", sa.LargeBinary(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "agent"),
    )
    op.create_table(
        "block_versions",
        sa.Column("block_id", sa.String(length=36), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("changed_by", sa.String(length=16), nullable=False),
        sa.Column("run_id", sa.String(length=36)),
        sa.Column("key", sa.String(length=80)),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("block_id", "version"),
        sa.UniqueConstraint("run_id", "key", name="uq_block_versions_key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "blocks",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("agent", sa.String(length=64)),
        sa.Column("subject", sa.Text()),
        sa.Column("subject_key", sa.String(length=32)),
        sa.Column("label", sa.String(length=64), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("char_limit", sa.Integer(), nullable=False),
        sa.Column("read_only", sa.Boolean(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    _where(
        "uq_blocks_agent",
        "blocks",
        ["user_id", "agent", "label"],
        "agent IS NOT NULL AND subject_key IS NULL",
        unique=True,
    )
    _where(
        "uq_blocks_subject",
        "blocks",
        ["user_id", "agent", "subject_key", "label"],
        "subject_key IS NOT NULL",
        unique=True,
    )
    _where("uq_blocks_user", "blocks", ["user_id", "label"], "agent IS NULL", unique=True)
    op.create_table(
        "inputs",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("agent", sa.String(length=64), nullable=False),
        sa.Column("thread_id", sa.String(length=36), nullable=False),
        sa.Column("scopes", sa.String(length=64), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.BigInteger()),
        sa.Column("run_id", sa.String(length=36)),
        sa.Column("finished_at", sa.BigInteger()),
        sa.Column("last_error", sa.Text()),
        sa.Column("lane", sa.String(length=64)),
        sa.Column("suspect", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    for name, columns, where in (
        ("due", ["next_attempt_at"], "state = 'queued' AND lane IS NULL"),
        ("lane", ["lane", "id", "next_attempt_at"], "state = 'queued' AND lane IS NOT NULL"),
        ("dead", ["id"], "state = 'dead'"),
        ("agent_gone", ["id"], "state = 'agent_gone'"),
        ("running", ["lease_until"], "state = 'running'"),
        ("suspect", ["id"], "state = 'queued' AND suspect"),
        ("waiting", ["id"], "state = 'waiting'"),
    ):
        _where(f"ix_inputs_{name}", "inputs", columns, where)
    op.create_index("ix_inputs_thread", "inputs", ["thread_id"])
    op.create_table(
        "messages",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("thread_id", sa.String(length=36), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(length=36)),
        sa.Column("key", sa.String(length=80)),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("run_id", "key", "thread_id", name="uq_messages_key"),
        sa.UniqueConstraint("thread_id", "position", name="uq_messages_position"),
    )
    op.create_table(
        "summaries",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("thread_id", sa.String(length=36), nullable=False),
        sa.Column("first_position", sa.Integer(), nullable=False),
        sa.Column("last_position", sa.Integer(), nullable=False),
        sa.Column("message_count", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("embedding_model", sa.Text()),
        sa.Column("previous_id", sa.String(length=36)),
        sa.Column("run_id", sa.String(length=36)),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("embedding", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("thread_id", "last_position", name="uq_summaries_last_position"),
    )
    op.create_table(
        "thread_turns",
        sa.Column("turn_id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("thread_id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("arrived_at", sa.BigInteger(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("turn_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_thread_turns_thread", "thread_turns", ["thread_id", "active", "arrived_at", "turn_id"])
    op.create_table(
        "usage",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("agent", sa.String(length=64)),
        sa.Column("thread_id", sa.String(length=36)),
        sa.Column("run_id", sa.String(length=36)),
        sa.Column("purpose", sa.String(length=16), nullable=False),
        sa.Column("model", sa.String(length=64), nullable=False),
        sa.Column("service_model", sa.Text(), nullable=False),
        sa.Column("tokens_in", sa.Integer()),
        sa.Column("tokens_out", sa.Integer()),
        sa.Column("cached", sa.Integer()),
        sa.Column("cost", sa.BigInteger()),
        sa.Column("duration", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_usage_created_at", "usage", ["user_id", "created_at"])
    op.create_index("ix_usage_run_id", "usage", ["run_id"])
    _where("ix_deliveries_waiting", "deliveries", ["id"], "state = 'waiting'")
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("runs", "state", type_=sa.String(length=32))
    op.add_column("runs", sa.Column("ended", sa.String(length=16)))
    op.add_column("runs", sa.Column("cancel", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.create_index("ix_runs_agent", "runs", ["user_id", "agent", "started_at"])
    op.add_column("threads", sa.Column("kind", sa.String(length=16), server_default="conversation", nullable=False))
    op.add_column("threads", sa.Column("subject", sa.Text()))
    op.add_column("threads", sa.Column("subject_key", sa.String(length=32)))
    op.add_column("threads", sa.Column("length", sa.Integer(), server_default="0", nullable=False))
    op.add_column("threads", sa.Column("deletions", sa.Integer(), server_default="0", nullable=False))
    op.add_column("threads", sa.Column("summary_count", sa.Integer(), server_default="0", nullable=False))
    op.add_column("threads", sa.Column("part", sa.Integer(), server_default="0", nullable=False))
    op.drop_index("ix_threads_agent", "threads")
    op.create_index("ix_threads_agent_newest", "threads", ["user_id", "agent", "kind", "updated_at", "id"])
    op.create_index("ix_threads_kind", "threads", ["agent", "kind", "updated_at"])
    op.create_index("ix_threads_part", "threads", ["agent", "part"])
    op.create_index("ix_threads_newest", "threads", ["user_id", "kind", "updated_at", "id"])
    _where("ix_threads_deleted", "threads", ["id"], "kind = 'deleted'")
    _where("uq_threads_keyed", "threads", ["user_id", "agent", "subject_key"], "kind = 'keyed'", unique=True)
    _where("uq_threads_main", "threads", ["user_id", "agent"], "kind = 'main'", unique=True)


def _where(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    some = sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=some, postgresql_where=some)
