"""Keys that identify a run's steps on every attempt."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("steps", sa.Column("key", sa.Text(), nullable=True))
