"""Users have an id and a name. The name of an existing user becomes its id, so that it keeps its data."""

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
