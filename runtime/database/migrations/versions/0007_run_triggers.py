"""The kind of turn that a run belongs to: runs no longer need a delivery."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("trigger", sa.String(length=16), server_default="delivery", nullable=False))
