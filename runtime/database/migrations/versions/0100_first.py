"""The schema of 0.2.0: a new database has it, and those of 0.2.0 are migrated from here."""

from __future__ import annotations

revision = "0100"
down_revision = None


def upgrade() -> None:
    """Leave the tables that `runtime.database.migrate` created."""
