"""SQLite databases for tests, copied from one that was made once: making one takes longer than most tests."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache
from pathlib import Path

from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.database.drivers.key_stores import keys_file


def migrated(path: Path) -> Path:
    """Write a new database with the whole schema to `path` and return the path.

    It has no id and no key until it is opened, like an empty file.
    """
    return _copied(path, _template()[0])


def with_keys(path: Path, key: MasterKey, *, indexes: bool = True) -> Path:
    """Write a new database as `migrated` does, and beside it the file of keys that its first opening makes; with
    `indexes`, also the key that a first memory makes."""
    return _copied(path, *_template(key, indexes))


def _copied(path: Path, *contents: bytes) -> Path:
    for file, content in zip((path, keys_file(path)), contents, strict=False):
        file.touch(0o600, exist_ok=False)
        file.write_bytes(content)
    return path


@cache
def _template(key: MasterKey | None = None, indexes: bool = False) -> tuple[bytes, bytes]:
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as thread:
        path = Path(folder) / "template.db"
        # In a thread of its own, because the caller may have an event loop.
        thread.submit(lambda: asyncio.run(_make(path, key or MasterKey(bytes(32)), indexes))).result()
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            if key is None:
                connection.execute("DELETE FROM meta")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.read_bytes(), keys_file(path).read_bytes()


async def _make(path: Path, key: MasterKey, indexes: bool) -> None:
    database = await Database.open(path, key)
    if indexes:
        database.keys.index_keys("")
    await database.close()
