"""Storage of users: SQL tables, the key-value store and tasks; settings of users, and groups of tools of tokens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tokens", sa.Column("tools", sa.Text(), nullable=True))
    for name, kind in (
        ("tier", sa.String(length=16)),
        ("storage", sa.BigInteger()),
        ("time_zone", sa.String(length=64)),
    ):
        op.add_column("user_settings", sa.Column(name, kind, nullable=True))
    op.create_table(
        "kv",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("code", sa.LargeBinary(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("user_id", "code", name="uq_kv_code"),
    )
    op.create_index(
        "ix_kv_expires_at",
        "kv",
        ["expires_at"],
        unique=False,
        sqlite_where=sa.text("expires_at IS NOT NULL"),
        postgresql_where=sa.text("expires_at IS NOT NULL"),
    )
    op.create_index("ix_kv_user", "kv", ["user_id", "id"], unique=False)
    op.create_table(
        "task_feeds",
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("token", sa.LargeBinary(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("user_id"),
        sa.UniqueConstraint("hash", name="uq_task_feeds_hash"),
    )
    op.create_table(
        "tasks",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("priority", sa.String(length=16), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("due_day", sa.Integer(), nullable=True),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("created_by_agent", sa.String(length=64), nullable=True),
        sa.Column("origin_run_id", sa.String(length=36), nullable=True),
        sa.Column("updated_source", sa.String(length=16), nullable=False),
        sa.Column("updated_by_agent", sa.String(length=64), nullable=True),
        sa.Column("updated_run_id", sa.String(length=36), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("completed_at", sa.BigInteger(), nullable=True),
        sa.Column("said_at", sa.BigInteger(), nullable=True),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_tasks_due_at",
        "tasks",
        ["user_id", "due_at"],
        unique=False,
        sqlite_where=sa.text("status IN ('pending', 'in_progress')"),
        postgresql_where=sa.text("status IN ('pending', 'in_progress')"),
    )
    op.create_index(
        "ix_tasks_urgent",
        "tasks",
        ["user_id", "due_at"],
        unique=False,
        sqlite_where=sa.text("status IN ('pending', 'in_progress') AND priority = 'urgent'"),
        postgresql_where=sa.text("status IN ('pending', 'in_progress') AND priority = 'urgent'"),
    )
    op.create_index("ix_tasks_part", "tasks", ["user_id", "part"], unique=False)
    op.create_index("ix_tasks_status", "tasks", ["user_id", "status", "id"], unique=False)
    op.create_index("ix_tasks_user", "tasks", ["user_id", "id"], unique=False)
    op.create_table(
        "user_storage",
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("name", sa.String(length=64), nullable=True),
        sa.Column("secret", sa.LargeBinary(), nullable=True),
        sa.Column("secret_version", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("table_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("table_bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("kv_key", sa.LargeBinary(), nullable=True),
        sa.Column("kv_bytes", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("kv_version", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("accessed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id"),
    )
    op.create_table(
        "kv_tags",
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("code", sa.LargeBinary(), nullable=False),
        sa.Column("kv_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(["kv_id"], ["kv.id"], name="fk_kv_tags_kv", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", "code", "kv_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_kv_tags_kv_id", "kv_tags", ["kv_id"], unique=False)
    op.create_table(
        "kv_calls",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("key", sa.String(length=80), nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_kv_calls_run", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "task_changes",
        sa.Column("task_id", sa.String(length=36), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("agent", sa.String(length=64), nullable=True),
        sa.Column("run_id", sa.String(length=36), nullable=True),
        sa.Column("key", sa.String(length=64), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name="fk_task_changes_task", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("task_id", "version"),
        sa.UniqueConstraint("run_id", "key", "task_id", name="uq_task_changes_key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "task_tags",
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("tag", sa.String(length=64), nullable=False),
        sa.Column("task_id", sa.String(length=36), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name="fk_task_tags_task", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id", "tag", "task_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_task_tags_task_id", "task_tags", ["task_id"], unique=False)
    op.create_table(
        "task_parts",
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.String(length=36), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "part"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "task_creations",
        sa.Column("user_id", sa.String(length=64), server_default="owner", nullable=False),
        sa.Column("minute", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "minute"),
        sqlite_with_rowid=False,
    )
