"""Collections: items as rows, and the parts in which they are read together."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "items",
        sa.Column("memory", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("user_id", sa.Text(), server_default="owner", nullable=False),
        sa.Column("agent_id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=True),
        sa.Column("memory_type", sa.String(length=16), nullable=False),
        sa.Column("timestamp", sa.BigInteger(), nullable=False),
        sa.Column("source_uri", sa.Text(), nullable=True),
        sa.Column("source_key", sa.String(length=32), nullable=True),
        sa.Column("chunk_hash", sa.String(length=64), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("memory", "id"),
    )
    op.create_index("ix_items_chunk", "items", ["memory", "agent_id", "user_id", "chunk_hash"], unique=False)
    op.create_index("ix_items_part", "items", ["memory", "part", "position"], unique=False)
    op.create_index("ix_items_time", "items", ["memory", "agent_id", "timestamp", "id"], unique=False)
    op.create_index(
        "ix_items_source",
        "items",
        ["memory", "agent_id", "user_id", "source_key"],
        unique=False,
        sqlite_where=sa.text("source_key IS NOT NULL"),
        postgresql_where=sa.text("source_key IS NOT NULL"),
    )
    op.create_table(
        "item_parts",
        sa.Column("memory", sa.String(length=64), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("user_id", sa.Text(), server_default="owner", nullable=False),
        sa.Column("agent_id", sa.String(length=64), nullable=False),
        sa.Column("revision", sa.String(length=36), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.Column("episodic", sa.Integer(), nullable=False),
        sa.Column("semantic", sa.Integer(), nullable=False),
        sa.Column("procedural", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("memory", "part"),
    )
    op.create_index("ix_item_parts_agent", "item_parts", ["memory", "agent_id", "user_id", "part"], unique=False)
