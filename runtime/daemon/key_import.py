"""Restores an export of keys in a root that no daemon runs on, because none starts without its keys."""

from __future__ import annotations

import os
from pathlib import Path

from runtime.clock import SYSTEM, milliseconds
from runtime.daemon.process import master_key
from runtime.daemon.process.root import DATABASE_FILE, Root, own
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.program.app import refuse_another_database
from runtime.database.drivers.key_stores import PostgresKeys, SqliteKeys, keys_file
from runtime.database.errors import opening
from runtime.database.keys import export
from runtime.database.location import locate
from runtime.errors import UsageError


def import_keys(root: Root, file: Path) -> export.Imported:
    """Add the keys in `file` that are missing. Raises UsageError, also if a process uses the root."""
    try:
        content = export.read(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{file}: {(error.strerror or 'cannot be read').lower()}") from None
    settings = ProcessSettings.read({})
    refuse_another_database(root, settings)
    location = locate(settings.database or root.state / DATABASE_FILE)
    with own(root, seconds=0):
        key = master_key.load(root, settings.master_key, os.environ)
        store = PostgresKeys(location) if location.path is None else SqliteKeys(keys_file(location.path))
        try:
            return export.restore(store, content, key, milliseconds(SYSTEM))
        except UsageError:
            raise
        except Exception as error:
            raise opening(error, location) or error from None
        finally:
            store.close()
