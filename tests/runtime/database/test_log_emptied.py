"""SQLite's log is emptied soon after a request, and no other work waits for that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import connect
from threading import Event

import pytest
from sqlalchemy import Connection, insert

from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.database.drivers import sqlite
from runtime.database.schema import meta
from runtime.search.index.embedded.index_file import IndexFile
from tests.clocks import until


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "EMPTY_SECONDS", 0.05)
    monkeypatch.setattr(sqlite, "EMPTY_AGAIN_SECONDS", 0.05)


async def put(database: Database, name: str) -> None:
    def work(connection: Connection) -> None:
        connection.execute(insert(meta).values(name=name, value="x"))

    await database.transact(work)


@contextmanager
def read_by_another(path: Path) -> Iterator[None]:
    """Read the database over another connection."""
    with closing(connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM meta").fetchall()
        yield
        reader.execute("COMMIT")


async def test_the_log_is_emptied_when_its_last_reader_has_gone_and_writes_go_on_until_then(tmp_path: Path) -> None:
    path = tmp_path / "symbiont.db"
    log = Path(f"{path}-wal")
    database = await Database.open(path, MasterKey(b"m" * 32))
    try:
        await until(lambda: log.stat().st_size == 0)  # what the opening wrote
        with read_by_another(path):
            await put(database, "qwertzuiop")
            database.empty_log()
            for number in range(50):
                await put(database, f"n{number}")
            assert b"qwertzuiop" in log.read_bytes()
        await until(lambda: log.stat().st_size == 0)
    finally:
        await database.close()


async def test_what_is_asked_for_while_the_log_is_emptied_is_done_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "symbiont.db"
    log = Path(f"{path}-wal")
    emptied, go_on = Event(), Event()
    empty = sqlite.Checkpoints._empty

    def slowly(checkpoints: sqlite.Checkpoints) -> bool:
        done = empty(checkpoints)
        emptied.set()
        go_on.wait(60)
        return done

    monkeypatch.setattr(sqlite.Checkpoints, "_empty", slowly)
    database = await Database.open(path, MasterKey(b"m" * 32))
    try:
        await until(emptied.is_set)  # what the opening wrote
        await put(database, "qwertzuiop")
        database.empty_log()
        go_on.set()
        await until(lambda: log.stat().st_size == 0)
    finally:
        go_on.set()
        await database.close()


async def test_the_log_is_cut_after_a_reader_let_it_grow(tmp_path: Path) -> None:
    engine = sqlite.async_engine(tmp_path / "a.db", readers=0)
    async with engine.connect() as connection:
        (limit,) = (await connection.exec_driver_sql("PRAGMA journal_size_limit")).one()
    await engine.dispose()
    assert limit == 64 * 1024 * 1024
    file = IndexFile(tmp_path / "index.db")
    assert file.reading.execute("PRAGMA journal_size_limit").fetchone() == (8 * 1024 * 1024,)
    file.close()
