"""Restores an export of keys in a root that no daemon runs on, because none starts without its keys."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, StaticPool, create_engine, inspect

from runtime.clock import SYSTEM, milliseconds
from runtime.daemon.process import master_key
from runtime.daemon.process.root import DATABASE_FILE, Root, adopting, own
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.program.app import refuse_another_database
from runtime.database import meta
from runtime.database.drivers.key_stores import PostgresKeys, SqliteKeys, keys_file
from runtime.database.drivers.sqlite import BUSY_SECONDS
from runtime.database.errors import opening_error
from runtime.database.keys import export, tables
from runtime.database.keys.ring import OF_NO_USER, OWNER, KeyStore
from runtime.database.location import DatabaseLocation, locate
from runtime.errors import UsageError
from runtime.identity import users


def import_keys(root: Root, file: Path) -> export.ImportCounts:
    """Add the keys in `file` that are missing, but none of a user whom the data does not have. Raises UsageError, also
    if a process uses the root, or if its data is missing."""
    try:
        content = export.read(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{file}: {(error.strerror or 'cannot be read').lower()}") from None
    settings = ProcessSettings.read({})
    refuse_another_database(root, settings)
    location = locate(settings.database or root.state / DATABASE_FILE)
    with own(root, seconds=0), adopting(root, os.environ):
        try:
            if location.path is not None and not location.path.exists():
                raise _no_data(location)
            key = master_key.load(root, settings.master_key, os.environ)
            store = PostgresKeys(location) if location.path is None else SqliteKeys(keys_file(location.path))
            try:
                absent = _absent_holders(location, store, content)
                return export.restore(store, content, key, milliseconds(SYSTEM), absent)
            finally:
                store.close()
        except UsageError:
            raise
        except Exception as error:
            raise opening_error(error, location) or error from None


def _absent_holders(location: DatabaseLocation, store: KeyStore, content: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the holders of keys who are no users of the data, see `export.restore`. Raises UsageError if the data
    belongs to other keys."""

    def find(connection: Connection) -> dict[str, str | None]:
        if not inspect(connection).has_table("users"):
            raise _no_data(location)
        if meta.keys_id(connection) not in (None, content[tables.ID]):
            raise UsageError(f"the export is of another database than {location.label}", hint="nothing was changed")
        holders = {row[0] for row in content["rows"]} - {OWNER, *OF_NO_USER}
        return users.removals(connection, holders)

    if location.path is None:
        return store.transact(find)
    path = location.path
    engine = create_engine(
        "sqlite://", creator=lambda: sqlite3.connect(path, timeout=BUSY_SECONDS), poolclass=StaticPool
    )
    try:
        with engine.connect() as connection:
            return find(connection)
    finally:
        engine.dispose()


def _no_data(location: DatabaseLocation) -> UsageError:
    return UsageError(
        f"{location.label}: there is no data that the keys could open", hint="put the copy of the data back first"
    )
