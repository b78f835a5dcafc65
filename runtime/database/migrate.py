"""Upgrades the schema of a database when it is opened."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect

from runtime.errors import UsageError

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0019"
"""The newest revision, repeated here so that an up-to-date database opens without importing alembic."""

_LOCK = zlib.crc32(b"symbiont migrations")


def migrate(connection: Connection, shown: str) -> str | None:
    """Run the missing migrations in this connection's transaction. Returns the former revision, None if there was none.

    `shown` names the database in errors. Raises UsageError for a database of a newer program.
    """
    if connection.dialect.name == "postgresql":
        # Daemons that start together migrate one after the other.
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    current = None
    if inspect(connection).has_table("alembic_version"):
        current = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        if current == HEAD:
            return None
        _refuse_newer(str(current), shown)
    _upgrade(connection)
    return current


def _upgrade(connection: Connection) -> None:
    from alembic import command

    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)


def _refuse_newer(revision: str, shown: str) -> None:
    from alembic.script import ScriptDirectory

    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if revision not in known:
        raise UsageError(
            f"{shown}: the schema {revision} is newer than this program, which supports up to {HEAD}",
            hint="upgrade symbi, or restore the backup made before the upgrade",
        )


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "runtime.database:migrations")
    return config
