"""Items of collections that belong to a subject, replace or retract others, and name the run that wrote them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_INDEXES = (
    ("ix_items_subject", ["memory", "agent_id", "subject_key", "timestamp", "id"], "subject_key IS NOT NULL"),
    ("ix_items_replaces", ["memory", "replaces"], "replaces IS NOT NULL"),
    ("ix_items_retracts", ["memory", "retracts"], "retracts IS NOT NULL"),
    ("ix_items_run", ["memory", "run_id"], "run_id IS NOT NULL"),
)


def upgrade() -> None:
    op.add_column("items", sa.Column("subject", sa.Text()))
    op.add_column("items", sa.Column("subject_key", sa.String(length=32)))
    for name in ("replaces", "retracts", "run_id"):
        op.add_column("items", sa.Column(name, sa.Text()))
    for name, columns, condition in _INDEXES:
        where = sa.text(condition)
        op.create_index(name, "items", columns, sqlite_where=where, postgresql_where=where)
