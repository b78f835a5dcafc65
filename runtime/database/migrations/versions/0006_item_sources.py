"""Several sources of one item, so that a text in two files is deleted when it is in neither; and a mark for compacted
entries of collections."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("items", sa.Column("compacted", sa.Integer(), nullable=True))
    op.create_table(
        "item_sources",
        sa.Column("memory", sa.String(length=64), nullable=False),
        sa.Column("item_id", sa.String(length=36), nullable=False),
        sa.Column("source_key", sa.String(length=32), nullable=False),
        sa.Column("user_id", sa.Text(), server_default="owner", nullable=False),
        sa.Column("source_uri", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["memory", "item_id"], ["items.memory", "items.id"], name="fk_item_sources_item", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("memory", "item_id", "source_key"),
    )
    op.create_index("ix_item_sources_source", "item_sources", ["memory", "source_key"], unique=False)
