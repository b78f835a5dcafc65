"""Errors at opening are one line each; an open database reads, writes and closes cleanly."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from sqlalchemy import Connection, func, insert, select, text
from sqlalchemy.exc import SQLAlchemyError

from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.database.errors import Unavailable, unavailable
from runtime.database.group_commit import Stage
from runtime.database.location import locate
from runtime.database.meta import DATABASE_ID, KEYS_ID
from runtime.database.schema import meta
from runtime.errors import UsageError
from tests.databases import migrated
from tests.lanes import LONG


async def refusal(url: str | Path, key: MasterKey) -> str:
    """Return the line with which opening fails."""
    with pytest.raises(UsageError) as caught:
        await Database.open(url, key)
    line = caught.value.line()
    assert "\n" not in line
    return line


async def put(database: Database, name: str, value: str = "") -> None:
    async with database.write() as connection:
        await connection.execute(insert(meta).values(name=name, value=value))


async def count(database: Database) -> int:
    async with database.read() as connection:
        query = select(func.count()).select_from(meta).where(meta.c.name.not_in((DATABASE_ID, KEYS_ID)))
        return (await connection.execute(query)).scalar_one()


async def test_what_was_written_is_there_when_it_is_opened_again(database_url: str, master_key: MasterKey) -> None:
    for expected in (1, 2):
        database = await Database.open(database_url, master_key)
        await put(database, f"name {expected}")
        assert await count(database) == expected
        await database.close()


async def test_a_file_that_was_removed_is_an_outage_also_for_a_new_connection(
    tmp_path: Path, master_key: MasterKey
) -> None:
    path = tmp_path / "symbiont.db"
    database = await Database.open(path, master_key)
    async with database.read():
        # The open connection is in use, so that the next one opens the path.
        path.rename(tmp_path / "gone.db")
        with pytest.raises(Unavailable, match="was removed or replaced"):
            await count(database)
    await database.close()


async def test_a_block_that_raises_writes_nothing(database: Database) -> None:
    before = await count(database)

    async def fail() -> None:
        async with database.write() as connection:
            await connection.execute(insert(meta).values(name="a", value=""))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await count(database) == before


async def test_a_cancelled_block_writes_nothing_and_lets_others_write(database: Database) -> None:
    begun = asyncio.Event()

    async def stuck() -> None:
        async with database.write() as connection:
            await connection.execute(insert(meta).values(name="a", value=""))
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(stuck())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await put(database, "a", "second")
    assert await count(database) == 1


async def test_writers_take_turns(database: Database) -> None:
    await put(database, "counter", "0")

    async def add() -> None:
        async with database.write() as connection:
            value = (await connection.execute(select(meta.c.value).where(meta.c.name == "counter"))).scalar_one()
            await asyncio.sleep(0)
            await connection.execute(meta.update().where(meta.c.name == "counter").values(value=str(int(value) + 1)))

    await asyncio.gather(*(add() for _ in range(20)))
    async with database.read() as connection:
        query = select(meta.c.value).where(meta.c.name == "counter")
        assert (await connection.execute(query)).scalar_one() == "20"


async def test_during_an_outage_nobody_waits_for_the_one_who_writes(database: Database) -> None:
    async with database.write():
        database.outage.problem = Unavailable("away")
        async with asyncio.timeout(60):
            with pytest.raises(Unavailable, match="away"):
                await database.transact(lambda _: None)
            with pytest.raises(Unavailable, match="away"):
                async with database.write():
                    pass
    database.outage.problem = None


async def test_readers_cannot_write(database: Database) -> None:
    with pytest.raises(Exception, match=r"readonly|read-only"):
        async with database.read() as connection:
            await connection.execute(insert(meta).values(name="a", value=""))


async def test_readers_see_one_moment(database: Database) -> None:
    async with database.read() as connection:
        query = select(func.count()).select_from(meta)
        before = (await connection.execute(query)).scalar_one()
        await put(database, "a")
        assert (await connection.execute(query)).scalar_one() == before


async def test_a_transaction_goes_on_when_its_caller_is_cancelled(database: Database) -> None:
    row = insert(meta).values(name="a", value="")
    task = asyncio.create_task(database.transact(lambda connection: connection.execute(row).rowcount))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await put(database, "b")
    assert await count(database) == 2


async def test_a_file_is_synced_at_every_commit_and_readable_by_its_owner_only(
    tmp_path: Path, master_key: MasterKey
) -> None:
    database = await Database.open(tmp_path / "db", master_key)
    assert database.kind == "sqlite"
    async with database.write() as connection:
        pragmas = {
            name: (await connection.execute(text(f"PRAGMA {name}"))).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 2_000}
    full = await database.transact(lambda connection: connection.exec_driver_sql("PRAGMA synchronous").scalar())
    assert full == 2
    await put(database, "a")
    modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == {0o600}
    await database.close()


async def test_two_daemons_that_start_at_once_both_open(
    postgres: str, postgres_url: str, master_key: MasterKey
) -> None:
    import asyncpg

    connection = await asyncpg.connect(postgres_url)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await connection.close()
    databases = await asyncio.gather(*(Database.open(postgres_url, master_key) for _ in range(4)))
    assert [await count(database) for database in databases] == [0] * 4
    for database in databases:
        await database.close()


@LONG
@pytest.mark.parametrize("new", [True, False])
def test_opening_what_is_new_or_up_to_date_does_not_import_alembic(tmp_path: Path, new: bool) -> None:
    path = tmp_path / "new.db" if new else migrated(tmp_path / "old.db")
    program = (
        "import asyncio, sys\n"
        "from runtime.database.connection import Database\n"
        "from tests.conftest import KEY\n"
        "async def main():\n"
        "    await (await Database.open(sys.argv[1], KEY)).close()\n"
        "asyncio.run(main())\n"
        "sys.exit('alembic' in sys.modules)\n"
    )
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", program, path], cwd=root, check=False).returncode == 0


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mysql://me:hunter2@host/db", "'mysql'"),
        ("sqlite://", "names no file"),
        ("", "''"),
        ("postgresql://me:hunter2@127.0.0.1:1/db", "me@127.0.0.1:1/db"),
        ("postgresql://me:hunter2@no.such.host.invalid/db", "me@no.such.host.invalid/db"),
        ("postgresql://me:hunter2@host:notaport/db", "postgresql://…"),
        ("postgresql:///db?host=/nowhere&password=hunter2", "/nowhere/db"),
    ],
)
async def test_a_url_that_does_not_open_is_named_without_its_password(
    url: str, reason: str, master_key: MasterKey
) -> None:
    line = await refusal(url, master_key)
    assert reason in line
    assert "hunter2" not in line


async def test_a_postgresql_database_that_is_not_there_is_named(postgres: str, master_key: MasterKey) -> None:
    missing = urlunsplit(urlsplit(postgres)._replace(path="/nowhere"))
    line = await refusal(missing, master_key)
    assert '"nowhere" does not exist' in line
    assert "create the database first" in line


async def test_files_that_are_no_databases_of_ours_are_refused_and_left_alone(
    tmp_path: Path, master_key: MasterKey
) -> None:
    prose, damaged, other = (tmp_path / name for name in ("prose", "damaged", "other"))
    prose.write_text("This is a letter to my aunt. " * 100)
    await (await Database.open(damaged, master_key)).close()
    content = damaged.read_bytes()
    damaged.write_bytes(content[:200] + b"\xff" * 4000 + content[4200:])
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    for file, reason in ((prose, "not a database"), (damaged, "damaged"), (other, "belongs to another program")):
        before = file.read_bytes()
        assert f"{file}: " in (line := await refusal(file, master_key))
        assert reason in line
        assert file.read_bytes() == before


async def test_a_missing_folder_and_one_in_the_place_of_the_file_are_named(
    tmp_path: Path, master_key: MasterKey
) -> None:
    assert "its folder does not exist" in await refusal(tmp_path / "no" / "db", master_key)
    assert "is a directory" in await refusal(tmp_path, master_key)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, master_key: MasterKey) -> None:
    tmp_path.chmod(0o500)
    assert "check the permissions" in await refusal(tmp_path / "db", master_key)
    tmp_path.chmod(0o700)


async def test_a_full_disk_is_told_and_is_not_fatal(tmp_path: Path, master_key: MasterKey) -> None:
    database = await Database.open(tmp_path / "db", master_key)

    # SQLite's own limit fails like a full disk, with SQLITE_FULL.
    pages = await database.transact(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar_one())
    await database.transact(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count = {pages}").scalar_one())
    rows = [{"name": str(number), "value": "x" * 10_000} for number in range(10)]
    with pytest.raises(Unavailable, match="full") as caught:
        await database.transact(lambda connection: connection.execute(insert(meta), rows).rowcount)
    assert not caught.value.fatal
    await put(database, "small")
    await database.close()


async def test_a_disk_that_fails_a_write_is_reported_once(tmp_path: Path, master_key: MasterKey) -> None:
    def fail(connection: Connection) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        raise error

    database = await Database.open(tmp_path / "symbiont.db", master_key)
    reported: list[Unavailable] = []
    database.on_fatal = reported.append
    for _ in range(2):
        with pytest.raises(Unavailable, match="disk I/O error"):
            await database.transact(fail)
    assert [error.fatal for error in reported] == [True]
    await database.close()


def test_a_used_up_quota_is_no_failing_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def over(_descriptor: int) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    failed = sqlite3.OperationalError("disk I/O error")
    failed.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    location = locate(tmp_path / "symbiont.db")
    known = unavailable(failed, location)
    assert known is not None
    assert known.fatal
    # Tests have no file system with quotas: the write is real, its failure is simulated.
    monkeypatch.setattr(os, "fsync", over)
    known = unavailable(failed, location)
    assert known is not None
    assert (known.fatal, str(known).endswith("the disk quota is used up")) == (False, True)


async def test_the_loop_goes_on_while_another_process_holds_the_lock(tmp_path: Path, master_key: MasterKey) -> None:
    def store(connection: Connection, names: Sequence[str]) -> Sequence[str | Exception]:
        connection.execute(insert(meta), [{"name": name, "value": ""} for name in names])
        return names

    alive, held = threading.Event(), threading.Event()

    def hold() -> bool:
        with closing(sqlite3.connect(tmp_path / "symbiont.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            held.set()
            went_on = alive.wait(60)
            other.execute("ROLLBACK")
            return went_on

    database = await Database.open(tmp_path / "symbiont.db", master_key)
    other = asyncio.create_task(asyncio.to_thread(hold))
    await asyncio.to_thread(held.wait)
    stored = asyncio.create_task(database.commits.store(Stage(1, store), "a"))
    for _ in range(50):
        await asyncio.sleep(0)
    alive.set()
    assert await other
    assert await stored == "a"
    assert await database.commits.store(Stage(1, store), "b") == "b"
    await database.close()


async def test_a_claim_that_went_with_its_connection_is_claimed_again_unless_another_has_it(
    postgres_url: str, master_key: MasterKey
) -> None:
    first, second = [await Database.open(postgres_url, master_key) for _ in range(2)]
    mine = "pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = :name)"
    name = {"name": urlsplit(postgres_url).path.lstrip("/")}

    async def cut_off() -> None:
        async with second.write() as connection:
            await connection.execute(text(f"SELECT pg_terminate_backend(pid, 5000) FROM {mine}"), name)

    async def claimed() -> bool:
        async with second.read() as connection:
            return bool(await connection.scalar(text(f"SELECT count(*) FROM {mine}"), name))

    assert await first.keep_claim()
    assert not await claimed()
    assert await first.claim()
    assert not await second.claim()
    await cut_off()
    async with asyncio.timeout(60):
        while not await claimed():
            assert await first.keep_claim()
    assert not await second.claim()
    await cut_off()
    assert await second.claim()
    async with asyncio.timeout(60):
        while await first.keep_claim():
            await asyncio.sleep(0.01)
    await first.close()
    await second.close()


async def test_an_error_of_a_statement_does_not_show_its_values(database: Database) -> None:
    query = text("SELECT name FROM no_such_table WHERE name = :name")
    with pytest.raises(SQLAlchemyError, match="no_such_table") as written:
        await database.transact(lambda connection: connection.execute(query, {"name": "hunter2"}))
    async with database.read() as connection:
        with pytest.raises(SQLAlchemyError, match="no_such_table") as read:
            await connection.execute(query, {"name": "hunter2"})
    assert "hunter2" not in f"{written.value} {read.value}"
