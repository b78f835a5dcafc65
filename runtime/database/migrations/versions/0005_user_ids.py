"""Users have an id and a name. Of those that are there the name becomes the id, so that they keep what is theirs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("users", sa.Column("name", sa.String(length=64), nullable=True))
    op.add_column("users", sa.Column("removed_at", sa.BigInteger(), nullable=True))
    op.execute("UPDATE users SET name = user_id")
    op.create_index("ix_users_name", "users", ["name"], unique=True)
