"""What old copies of the data hold of a removed user is unreadable with the present master key and keys."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest

from runtime.crypto import Unsealable
from runtime.database.connection import Database
from runtime.database.keys.tables import SCHEMA
from runtime.database.schema import metadata
from runtime.database.sealed import Sealed
from runtime.errors import UsageError
from runtime.identity.belongings import delete_rows
from tests.conftest import KEY
from tests.runtime.database.keys.sealed_rows import fill, opened, sealed_values

SEALED = sum(isinstance(column.type, Sealed) for table in metadata.sorted_tables for column in table.c)


async def _filled(url: str) -> Database:
    database = await Database.open(url, KEY)
    await database.transact(lambda connection: fill(connection, database.keys, {1: "ada", 2: "bob"}))
    return database


async def _remove(database: Database) -> None:
    database.keys.forget("ada", 1)
    await delete_rows(database, "ada")


async def _check(copy: Database) -> None:
    """Nothing of the removed user opens, and everything of the other one."""
    assert len(await opened(copy, "bob")) == SEALED
    values = await sealed_values(copy, "ada")
    assert len(values) == SEALED
    for value in values:
        with pytest.raises(Unsealable, match="does not exist"):
            value()


async def test_a_copy_of_the_file_from_before_the_removal(tmp_path: Path) -> None:
    path = tmp_path / "symbiont.db"
    database = await _filled(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(tmp_path / "copy")) as copy:
        source.backup(copy)
    await _remove(database)
    await database.close()
    path.unlink()
    (tmp_path / "copy").replace(path)
    restored = await Database.open(path, KEY)
    await _check(restored)
    await restored.close()


async def test_a_dump_from_before_the_removal(postgres: str, postgres_url: str, tmp_path: Path) -> None:
    dump = _tool("pg_dump")
    database = await _filled(postgres_url)
    data, keys = tmp_path / "data.sql", tmp_path / "keys.sql"
    await _run(dump, f"--exclude-schema={SCHEMA}", f"--file={data}", postgres_url)
    assert SCHEMA not in data.read_text()
    await _remove(database)
    await database.close()
    await _run(dump, f"--schema={SCHEMA}", f"--file={keys}", postgres_url)
    admin = await asyncpg.connect(postgres)
    name = f"test_{uuid4().hex}"
    await admin.execute(f"CREATE DATABASE {name}")
    restored_url = urlunsplit(urlsplit(postgres_url)._replace(path=f"/{name}"))
    try:
        await _run(_tool("psql"), "--quiet", f"--file={data}", restored_url)
        # Without the keys it is refused, and gets no new ones.
        with pytest.raises(UsageError, match="the keys of its users are missing"):
            await Database.open(restored_url, KEY)
        await _run(_tool("psql"), "--quiet", f"--file={keys}", restored_url)
        restored = await Database.open(restored_url, KEY)
        await _check(restored)
        await restored.close()
    finally:
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await admin.close()


def _tool(name: str) -> str:
    """Return the path of a program of PostgreSQL, of the packaged server or of the system; skips without one."""
    try:
        import pgserver

        own = Path(pgserver.__file__).parent / "pginstall" / "bin" / name
    except ImportError:
        own = Path(name)
    found = str(own) if own.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


async def _run(*command: str) -> None:
    def run(command: Sequence[str]) -> None:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    await asyncio.to_thread(run, command)
