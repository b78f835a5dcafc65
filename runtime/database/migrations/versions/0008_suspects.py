"""A mark for deliveries that were running when the daemon was killed, so that each runs alone next."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("deliveries", sa.Column("suspect", sa.Boolean(), server_default=sa.false(), nullable=False))
    where = sa.text("state = 'queued' AND suspect")
    op.create_index("ix_deliveries_suspect", "deliveries", ["id"], sqlite_where=where, postgresql_where=where)
