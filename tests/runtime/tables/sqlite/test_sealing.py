"""Nothing of a user's tables is readable on the disk, at any time, and new keys replace old ones."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import apsw
import pytest

from runtime.clock import SYSTEM
from runtime.database.resealing import Resealing
from runtime.identity import users
from runtime.tables.errors import TablesUnavailable
from tests.clocks import until
from tests.lanes import LONG, repeated
from tests.runtime.tables.sqlite.opened import FREE, OpenTables, opened

HERE = Path(__file__).parents[4]
MARKS = ("CLEARTEXTvalue", "CLEARTEXTtable", "CLEARTEXTcolumn")


def marks_in(folder: Path) -> set[str]:
    """Return the marks that are readable in a file of the folder."""
    contents = [each.read_bytes() for each in folder.rglob("*") if each.is_file()]
    return {mark for mark in MARKS for content in contents if mark.encode() in content}


def copied(folder: Path, name: str) -> Path:
    return Path(shutil.copytree(folder, folder.parent / name, ignore_dangling_symlinks=True))


async def marked(sql: OpenTables) -> None:
    await sql.run("CREATE TABLE CLEARTEXTtable (id INTEGER PRIMARY KEY, CLEARTEXTcolumn TEXT)")
    await sql.run("INSERT INTO CLEARTEXTtable (CLEARTEXTcolumn) VALUES ('CLEARTEXTvalue')")


def test_the_marks_would_be_found(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "clear.db")) as clear:
        clear.execute("CREATE TABLE CLEARTEXTtable (CLEARTEXTcolumn)")
        clear.execute("INSERT INTO CLEARTEXTtable VALUES ('CLEARTEXTvalue')")
        clear.commit()
    assert marks_in(tmp_path) == set(MARKS)


async def test_nothing_is_readable_while_the_file_is_open_during_a_transaction_and_after_a_kill(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    async with opened(root) as sql:
        await marked(sql)
        assert marks_in(root) == set()
        # More than the cache holds, so that pages of an open transaction are on the disk.
        change = asyncio.create_task(
            sql.run(
                "INSERT INTO CLEARTEXTtable (CLEARTEXTcolumn) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                "FROM n LIMIT 300000) SELECT 'CLEARTEXTvalue' || hex(randomblob(100)) FROM n",
                quota=FREE._replace(rows=None, storage=1_000_000_000),
            )
        )
        (log,) = (root / "tables").glob("*-wal")
        await until(lambda: change.done() or log.stat().st_size > 2_000_000)
        assert not change.done()
        assert marks_in(copied(root, "during")) == set()
        for worker in sql.workers():
            os.kill(worker, signal.SIGKILL)
        with pytest.raises(TablesUnavailable):
            await change
        assert marks_in(copied(root, "killed")) == set()
        assert await sql.value("SELECT count(*) AS n FROM CLEARTEXTtable") == 1
    async with opened(tmp_path / "killed") as sql:
        assert await sql.value("SELECT count(*) AS n FROM CLEARTEXTtable") == 1
    assert marks_in(tmp_path) == set()


async def test_a_rotated_key_of_a_user_gives_the_file_a_new_key(tmp_path: Path) -> None:
    async with opened(tmp_path) as sql:
        ada = await users.add(sql.database, "ada", 0)
        await marked(sql)
        await sql.run("CREATE TABLE notes (text)", user_id=ada)
        await sql.tables.renew_keys()
        before, old = set(sql.files()), await sql.tables._files.find("owner")
        await asyncio.to_thread(sql.database.keys.rotate, ["owner"], 1)
        await sql.tables.renew_keys()
        after, new = set(sql.files()), await sql.tables._files.find("owner")
        assert old is not None
        assert new is not None
        assert old.key != new.key
        assert len(before & after) == 1
        assert len(after) == 2
        assert not list((tmp_path / "tables").glob(f"{old.name}*"))
        assert await sql.value("SELECT CLEARTEXTcolumn AS c FROM CLEARTEXTtable") == "CLEARTEXTvalue"
        await sql.run("INSERT INTO CLEARTEXTtable (CLEARTEXTcolumn) VALUES ('more')")
        await sql.tables.renew_keys()
        assert set(sql.files()) == after
    with pytest.raises(apsw.NotADBError):
        readable(tmp_path / "tables" / f"{new.name}.db", old.key)
    assert readable(tmp_path / "tables" / f"{new.name}.db", new.key) == 2
    assert marks_in(tmp_path) == set()


def readable(path: Path, key: bytes) -> int:
    connection = apsw.Connection(str(path))
    try:
        connection.execute(f"PRAGMA key='raw:{key.hex()}'")
        return len(connection.execute("SELECT id FROM CLEARTEXTtable").fetchall())
    finally:
        connection.close()


async def test_a_rotation_that_was_missed_is_noticed_later_also_when_the_old_key_is_gone(tmp_path: Path) -> None:
    async with opened(tmp_path) as sql:
        await marked(sql)
        old = sql.files()
    async with opened(tmp_path) as sql:
        keys = sql.database.keys
        await asyncio.to_thread(keys.rotate, ["owner"], 1)
        await Resealing(sql.database, SYSTEM).run_pass()
        await asyncio.to_thread(keys.drop, [key for key in keys.retired if key.holder == "owner"])
    async with opened(tmp_path) as sql:
        await sql.tables.renew_keys()
        assert sql.files() != old
        assert await sql.value("SELECT count(*) AS n FROM CLEARTEXTtable") == 1


async def test_what_is_kept_of_a_removed_user_gets_a_key_of_the_owner(tmp_path: Path) -> None:
    async with opened(tmp_path) as sql:
        ada = await users.add(sql.database, "ada", 0)
        await marked(sql)
        await sql.run("CREATE TABLE notes (text)", user_id=ada)
        before = set(sql.files())
        await sql.database.transact(lambda connection: users.remove(connection, ada))
        await asyncio.to_thread(partial(sql.database.keys.forget, ada, 0, kept_by="owner"))
        await Resealing(sql.database, SYSTEM).run_pass()
        await sql.tables.renew_keys()
        assert len(set(sql.files()) & before) == 1
        assert await sql.value("SELECT count(*) AS n FROM notes", user_id=ada) == 0
        await sql.tables.drop(ada)
        assert len(sql.files()) == 1


async def test_a_file_whose_key_cannot_be_renewed_keeps_its_key_and_stops_no_other(tmp_path: Path) -> None:
    async with opened(tmp_path) as sql:
        ada = await users.add(sql.database, "ada", 0)
        await marked(sql)
        await sql.run("CREATE TABLE notes (text)", user_id=ada)
        of_owner = await sql.tables._files.find("owner")
        assert of_owner is not None
    (tmp_path / "tables" / f"{of_owner.name}.db").unlink()
    async with opened(tmp_path) as sql:
        await asyncio.to_thread(sql.database.keys.rotate, ["owner", ada], 1)
        before = sql.files()
        await sql.tables.renew_keys()
        assert sql.files() != before
        assert await sql.value("SELECT count(*) AS n FROM notes", user_id=ada) == 0
        with pytest.raises(TablesUnavailable, match="is missing"):
            await sql.run("SELECT 1 AS a")


async def test_without_the_key_of_its_user_a_file_cannot_be_read(tmp_path: Path) -> None:
    async with opened(tmp_path) as sql:
        ada = await users.add(sql.database, "ada", 0)
        await sql.run("CREATE TABLE notes (text)", user_id=ada)
    async with opened(tmp_path) as sql:
        await asyncio.to_thread(sql.database.keys.forget, ada, 0)
        for call in (
            sql.run("SELECT * FROM notes", user_id=ada),
            sql.tables.tables(ada),
            sql.tables.page(ada, "notes"),
        ):
            with pytest.raises(TablesUnavailable, match="the key of your tables cannot be read"):
                await call


@LONG
@repeated("rounds", 1, 20)
async def test_a_kill_while_keys_are_renewed_loses_nothing(tmp_path: Path, rounds: int) -> None:
    async with opened(tmp_path) as sql:
        await marked(sql)
        await sql.run("INSERT INTO CLEARTEXTtable (CLEARTEXTcolumn) VALUES (hex(zeroblob(30000)))")
    for number in range(rounds):
        renewing = subprocess.Popen(
            [sys.executable, "-m", "tests.runtime.tables.sqlite.renewing", str(tmp_path)],
            cwd=HERE,
            stdout=subprocess.PIPE,
        )
        assert renewing.stdout is not None
        for _ in range(1 + number % 3):
            assert renewing.stdout.readline()
        await asyncio.sleep(0.002 * (number % 10))  # at any point of a renewal
        renewing.kill()
        renewing.communicate()
        async with opened(tmp_path) as sql:
            assert await sql.value("SELECT count(*) AS n FROM CLEARTEXTtable") == 2
    for path in (tmp_path / "tables").iterdir():
        os.utime(path, (0, 0))
    async with opened(tmp_path) as sql:
        assert await sql.value("SELECT count(*) AS n FROM CLEARTEXTtable") == 2
        assert len(sql.files()) == 1
    assert marks_in(tmp_path) == set()
