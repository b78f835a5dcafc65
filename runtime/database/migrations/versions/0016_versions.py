"""Versions of values that are sealed again in place, so that an old value is told from the newest one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table, name, kind in (
        ("threads", "title_version", sa.BigInteger()),
        ("secrets", "version", sa.Integer()),
        ("webhooks", "secret_version", sa.Integer()),
        ("items", "version", sa.Integer()),
    ):
        op.add_column(table, sa.Column(name, kind, nullable=False, server_default="0"))
