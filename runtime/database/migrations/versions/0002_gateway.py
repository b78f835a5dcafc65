"""Users, their tokens and webhooks; rates; rotated secrets; headers as received.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("deliveries", sa.Column("lane", sa.String(64), nullable=True))
    op.drop_index("ix_deliveries_due", "deliveries")
    for name, columns, part in (
        ("ix_deliveries_due", ["next_attempt_at"], "state = 'queued' AND lane IS NULL"),
        ("ix_deliveries_lane", ["lane", "id", "next_attempt_at"], "state = 'queued' AND lane IS NOT NULL"),
        ("ix_deliveries_dead", ["id"], "state = 'dead'"),
        ("ix_deliveries_agent_gone", ["id"], "state = 'agent_gone'"),
    ):
        op.create_index(name, "deliveries", columns, sqlite_where=sa.text(part), postgresql_where=sa.text(part))
    op.add_column("bodies", sa.Column("headers_size", sa.Integer(), server_default="0", nullable=False))
    op.add_column("attempts", sa.Column("secret_index", sa.Integer(), nullable=True))
    op.drop_index("ix_attempts_reason", "attempts")
    op.create_index("ix_attempts_group", "attempts", ["user_id", "webhook", "verdict", "reason", "id"])
    op.add_column("secrets", sa.Column("previous", sa.LargeBinary(), nullable=True))
    op.add_column("secrets", sa.Column("previous_until", sa.BigInteger(), nullable=True))
    op.create_table(
        "users",
        sa.Column("user_id", sa.String(64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("user_id", sa.String(64), server_default="owner", nullable=False),
        sa.Column("label", sa.String(64), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.String(64), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("hash", name="uq_tokens_hash"),
    )
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("user_id", sa.String(64), server_default="owner", nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("agent", sa.String(64), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=True),
        sa.Column("previous_secret", sa.LargeBinary(), nullable=True),
        sa.Column("previous_until", sa.BigInteger(), nullable=True),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_webhooks_user_id", "webhooks", ["user_id", "created_at"])
    op.create_table(
        "rates",
        sa.Column("user_id", sa.String(64), server_default="owner", nullable=False),
        sa.Column("scope", sa.String(16), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("newest", sa.BigInteger(), nullable=False),
        sa.Column("counts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "scope", "name"),
        sqlite_with_rowid=False,
    )
