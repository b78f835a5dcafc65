"""SQLite databases for tests, copied from one that was migrated once: migrating takes longer than most tests."""

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


def migrated(path: Path) -> Path:
    """Write a new database with the whole schema to `path` and return the path.

    It has no id and no key until it is opened, like an empty file.
    """
    path.touch(0o600, exist_ok=False)
    path.write_bytes(_template())
    return path


@cache
def _template() -> bytes:
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as thread:
        path = Path(folder) / "template.db"
        # In a thread of its own, because the caller may have an event loop.
        thread.submit(lambda: asyncio.run(_make(path))).result()
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("DELETE FROM meta")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.read_bytes()


async def _make(path: Path) -> None:
    await (await Database.open(path, MasterKey(bytes(32)))).close()
