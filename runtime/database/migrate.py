"""Brings the schema of a database up to date when it is opened."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect

from runtime.errors import UsageError

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0001"
"""The newest revision. Known here so that an up-to-date database opens without importing alembic."""

_LOCK = zlib.crc32(b"symbiont migrations")


def migrate(connection: Connection, shown: str) -> None:
    """Run the missing migrations in this connection's transaction.

    `shown` names the database in errors. Raises UsageError for a database that a newer program made, and for a
    file that belongs to something else.
    """
    postgresql = connection.dialect.name == "postgresql"
    if postgresql:
        # Daemons that start together wait here, one by one.
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    tables = set(inspect(connection).get_table_names())
    if "alembic_version" in tables:
        current = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        if current == HEAD:
            return
        _refuse_newer(str(current), shown)
    elif tables and not postgresql:
        raise UsageError(f"{shown}: this database belongs to another program", hint="name another file")
    _upgrade(connection)


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
            f"{shown}: its schema {revision} is newer than this program, which knows up to {HEAD}",
            hint="upgrade symbi, or restore the copy made before the upgrade",
        )


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "runtime.database:migrations")
    return config
