"""The tables of all users: separate, in processes that may end at any time, and in files that may be gone."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import SymbiontError
from runtime.identity import users
from runtime.tables.errors import QuotaExceeded, StatementError, TablesUnavailable
from runtime.tables.quota import Quota
from runtime.tables.sqlite import processes
from runtime.tables.sqlite.template import be_one_user
from tests.cases import each_case
from tests.clocks import until
from tests.lanes import LONG, first_of
from tests.runtime.tables.sqlite.opened import FREE, SEES_WORKERS, OpenTables, open_files, opened

SLOW = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) AS m FROM n"


@pytest.fixture
async def sql(tmp_path: Path) -> AsyncIterator[OpenTables]:
    async with opened(tmp_path) as tables:
        yield tables


def kill(sql: OpenTables) -> None:
    for worker in sql.workers():
        os.kill(worker, signal.SIGKILL)


async def test_each_user_has_a_file_a_process_and_tables_of_their_own(sql: OpenTables) -> None:
    ada = await users.add(sql.database, "ada", 0)
    assert await sql.tables.tables("owner") == []
    assert sql.files() == []
    for user_id in ("owner", ada):
        await sql.run("CREATE TABLE notes (text)", user_id=user_id)
        await sql.run("INSERT INTO notes VALUES (?)", [f"of {user_id}"], user_id=user_id)
    assert [await sql.value("SELECT text FROM notes", user_id=each) for each in ("owner", ada)] == [
        "of owner",
        f"of {ada}",
    ]
    assert len(sql.files()) == 2
    assert len(sql.workers()) == 2
    for path in sql.files():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((sql.folder / "tables").stat().st_mode) == 0o700


async def test_the_registry_knows_tables_and_bytes_when_a_change_is_acknowledged(sql: OpenTables) -> None:
    await sql.run("CREATE TABLE notes (text)")
    await sql.run("INSERT INTO notes VALUES (zeroblob(60000))")
    stored = await sql.storage.usage("owner")
    assert stored.tables == 1
    assert stored.table_bytes > 60_000
    await sql.run("DROP TABLE notes")
    stored = await sql.storage.usage("owner")
    assert (stored.tables, stored.table_bytes < 20_000) == (0, True)


async def test_limits_are_told_with_what_is_free_and_keys_and_tables_share_the_storage(sql: OpenTables) -> None:
    quota = Quota(tables=1, rows=3, storage=200_000)
    await sql.run("CREATE TABLE notes (text)", quota=quota)
    with pytest.raises(QuotaExceeded, match="1 table may exist, 1 is used, 0 are free"):
        await sql.run("CREATE TABLE more (text)", quota=quota)
    await sql.run("INSERT INTO notes VALUES (1), (2)", quota=quota)
    with pytest.raises(QuotaExceeded, match="3 rows may be in a table, 2 are in notes, 1 is free"):
        await sql.run("INSERT INTO notes SELECT text FROM notes", quota=quota)
    await sql.database.transact(lambda connection: sql.storage.add_kv(connection, "owner", 150_000, quota))
    with pytest.raises(QuotaExceeded, match="200 KB may be stored"):
        await sql.run("INSERT INTO notes VALUES (zeroblob(60000))", quota=quota)
    assert await sql.value("SELECT count(*) AS n FROM notes") == 2


async def test_many_rows_are_imported_in_one_transaction(sql: OpenTables) -> None:
    await sql.run("CREATE TABLE notes (n INTEGER UNIQUE)")
    done = await sql.tables.run_for_each("owner", "INSERT INTO notes VALUES (?)", [[n] for n in range(500)], FREE)
    assert (done.affected_rows, done.rows) == (500, [])
    with pytest.raises(StatementError, match="UNIQUE"):
        await sql.tables.run_for_each("owner", "INSERT INTO notes VALUES (:n)", [{"n": 900}, {"n": 1}], FREE)
    assert (await sql.tables.run_for_each("owner", "INSERT INTO notes VALUES (?)", [], FREE)).affected_rows == 0
    assert await sql.value("SELECT count(*) AS n FROM notes") == 500
    (table,) = await sql.tables.tables("owner")
    assert (table.name, table.row_count) == ("notes", 500)
    first = await sql.tables.page("owner", "notes", limit=300)
    last = await sql.tables.page("owner", "notes", after=first.after, limit=300)
    assert [row[0] for row in [*first.rows, *last.rows]] == list(range(500))
    assert last.after is None


@each_case(
    "value, message",
    [
        (2**63, "value 1 of params is an integer of more than 64 bits"),
        (float("nan"), "value 1 of params is not a finite number"),
        ("\ud800", "value 1 of params contains half of a surrogate pair"),
        ({"a": "\ud800"}, "value 1 of params cannot be written as JSON"),
    ],
)
async def test_values_that_cannot_be_bound_are_one_clear_error(sql: OpenTables, value: object, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        await sql.run("SELECT ? AS a", [value])  # type: ignore[list-item]  # what JSON can hold, and more
    assert sql.workers() == []


async def test_objects_arrays_and_truth_are_bound_as_sqlite_has_them(sql: OpenTables) -> None:
    assert (await sql.run("SELECT ? AS a, ? AS b, ? AS c", [True, {"x": [1]}, [None]])).rows == [
        [1, '{"x":[1]}', "[null]"]
    ]
    assert await sql.value("SELECT :o ->> '$.x[0]' AS a", {"o": {"x": [7]}}) == 7


async def test_what_is_too_long_to_be_sent_is_refused_before(sql: OpenTables) -> None:
    with pytest.raises(StatementError, match="too long together"):
        await sql.run("SELECT length(?) AS a", ["x" * 17_000_000])
    with pytest.raises(StatementError, match="65,536 bytes"):
        await sql.run("SELECT length(?) AS a", ["x" * 70_000])
    assert await sql.value("SELECT 1 AS a") == 1


async def test_nearest_names_are_told(sql: OpenTables) -> None:
    await sql.run("CREATE TABLE expenses (amount)")
    with pytest.raises(StatementError) as caught:
        await sql.run("SELECT * FROM expense")
    assert caught.value.line() == "no table is called 'expense' (did you mean expenses?)"
    with pytest.raises(StatementError, match="no column is called 'amout'"):
        await sql.run("SELECT amout FROM expenses")
    ada = await users.add(sql.database, "ada", 0)
    with pytest.raises(StatementError) as caught:
        await sql.run("SELECT * FROM expenses", user_id=ada)
    assert caught.value.hint == "there are none"


async def test_after_the_end_of_a_worker_or_the_template_the_next_call_works(sql: OpenTables) -> None:
    await sql.run("CREATE TABLE notes (text)")
    kill(sql)
    await until(lambda: not sql.workers())
    await sql.run("INSERT INTO notes VALUES ('a')")
    (template,) = sql.templates()
    os.kill(template, signal.SIGKILL)
    await until(lambda: not sql.templates())
    assert await sql.value("SELECT count(*) AS n FROM notes") == 1


async def test_after_the_end_of_a_worker_that_stores_a_change_the_advice_is_to_look(
    sql: OpenTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sql.run("CREATE TABLE notes (text)")
    note = sql.storage.note_tables

    async def killing(*given: Any) -> None:
        await note(*given)
        kill(sql)

    monkeypatch.setattr(sql.storage, "note_tables", killing)
    with pytest.raises(TablesUnavailable, match="ended before it answered") as caught:
        await sql.run("INSERT INTO notes VALUES (zeroblob(30000))")
    assert caught.value.maybe_done
    assert caught.value.hint == "the change may have been made: look before you repeat it"


async def test_a_worker_that_ends_in_a_statement_is_one_error_and_nothing_has_changed(sql: OpenTables) -> None:
    await sql.run("CREATE TABLE notes (text)")
    insert = asyncio.create_task(sql.run(f"INSERT INTO notes {SLOW}"))
    (worker,) = sql.workers()
    await until(lambda: _cpu(worker) > 0.05)
    kill(sql)
    with pytest.raises(TablesUnavailable, match="ended before it answered") as caught:
        await insert
    assert not caught.value.maybe_done
    assert await sql.value("SELECT count(*) AS n FROM notes") == 0


async def test_a_call_works_also_if_the_template_ends_while_it_forks(sql: OpenTables) -> None:
    await sql.run("CREATE TABLE notes (text)")
    (template,) = sql.templates()
    ada = await users.add(sql.database, "ada", 0)
    os.kill(template, signal.SIGSTOP)
    call = asyncio.create_task(sql.value("SELECT 1 AS a", user_id=ada))
    await until(sql.tables._template._forking.locked)
    os.kill(template, signal.SIGKILL)
    assert await call == 1


async def test_after_a_template_that_does_not_answer_the_next_call_works(
    sql: OpenTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sql.run("CREATE TABLE notes (text)")
    (template,) = sql.templates()
    kill(sql)
    await until(lambda: not sql.workers())
    os.kill(template, signal.SIGSTOP)
    with monkeypatch.context() as patch:
        patch.setattr(processes, "_FORK_SECONDS", 0.01)
        with pytest.raises(TablesUnavailable, match="no worker for your tables can be started: it takes too long"):
            await sql.run("SELECT text FROM notes")
    assert await sql.value("SELECT count(*) AS n FROM notes") == 0
    assert len(sql.workers()) == 1


async def test_an_error_of_the_disk_names_no_path(sql: OpenTables) -> None:
    await sql.run("CREATE TABLE notes (text)")
    await sql.tables.drop("owner")
    (sql.folder / "tables").rmdir()
    with pytest.raises(TablesUnavailable) as caught:
        await sql.run("SELECT 1 AS a")
    assert str(caught.value) == "the disk failed: no such file or directory; nothing was changed"


async def test_a_cancelled_call_leaves_its_worker_usable(sql: OpenTables) -> None:
    await sql.run("CREATE TABLE notes (text)")
    for _ in range(20):
        call = asyncio.create_task(sql.run("INSERT INTO notes VALUES ('a')"))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    workers = sql.workers()
    count = await sql.value("SELECT count(*) AS n FROM notes")
    assert count == 20
    assert sql.workers() == workers


@LONG
async def test_a_statement_that_takes_too_long_is_ended_and_the_loop_runs_meanwhile(sql: OpenTables) -> None:
    await sql.run("CREATE TABLE notes (text)")
    began = time.monotonic()
    slow = asyncio.create_task(sql.run(f"INSERT INTO notes {SLOW}"))
    longest = 0.0
    while not slow.done():
        before = time.monotonic()
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - before)
    with pytest.raises(StatementError, match="took longer than 5 seconds"):
        await slow
    assert 4.5 < time.monotonic() - began < 30
    assert longest < 2
    assert await sql.value("SELECT count(*) AS n FROM notes") == 0


@LONG
async def test_a_worker_that_does_not_look_at_the_clock_is_killed(sql: OpenTables) -> None:
    """As inside one long function of SQLite: a stopped process stands for it."""
    await sql.run("CREATE TABLE notes (text)")
    (worker,) = sql.workers()
    os.kill(worker, signal.SIGSTOP)
    with pytest.raises(StatementError, match="took longer than 5 seconds; nothing was changed"):
        await sql.run("INSERT INTO notes VALUES (1)")
    assert await sql.value("SELECT count(*) AS n FROM notes") == 0
    assert worker not in sql.workers()


async def test_files_beyond_the_bound_are_closed_and_opened_again(tmp_path: Path) -> None:
    async with opened(tmp_path, most_open=2) as sql:
        found = [await users.add(sql.database, f"user{number}", 0) for number in range(4)]
        for user_id in found:
            await sql.run("CREATE TABLE notes (text)", user_id=user_id)
            assert len(sql.workers()) <= 2
        await asyncio.gather(*(sql.run("INSERT INTO notes VALUES (1)", user_id=each) for each in found * 3))
        assert [await sql.value("SELECT count(*) AS n FROM notes", user_id=each) for each in found] == [3] * 4
        assert len(sql.workers()) == 2


async def test_a_file_that_nobody_uses_is_closed(tmp_path: Path) -> None:
    async with opened(tmp_path, idle_seconds=0.01) as sql:
        await sql.run("CREATE TABLE notes (text)")
        await until(lambda: not sql.workers())
        assert not list((tmp_path / "tables").glob("*-wal"))
        assert await sql.value("SELECT count(*) AS n FROM notes") == 0


async def test_dropping_deletes_the_file_and_a_new_one_may_begin(sql: OpenTables) -> None:
    await sql.tables.drop("owner")
    await sql.run("CREATE TABLE notes (text)")
    (before,) = sql.files()
    await sql.tables.drop("owner")
    assert list((sql.folder / "tables").iterdir()) == []
    assert (await sql.storage.usage("owner")).tables == 0
    assert await sql.tables.tables("owner") == []
    await sql.run("CREATE TABLE notes (text)")
    assert sql.files() != [before]
    await sql.tables.drop("owner")


async def test_a_removed_user_gets_no_tables_and_theirs_can_be_dropped_without_their_key(sql: OpenTables) -> None:
    ada = await users.add(sql.database, "ada", 0)
    await sql.run("CREATE TABLE notes (text)", user_id=ada)
    await sql.database.transact(lambda connection: users.remove(connection, ada))
    await asyncio.to_thread(sql.database.keys.forget, ada, 0)
    await sql.tables.drop(ada)
    assert sql.files() == []
    with pytest.raises(SymbiontError):
        await sql.run("CREATE TABLE notes (text)", user_id=ada)
    assert sql.files() == []


def _missing(path: Path) -> None:
    path.unlink()


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[1000:3000] = os.urandom(2000)
    path.write_bytes(content)


def _link(path: Path) -> None:
    path.rename(path.with_suffix(".away"))
    path.symlink_to(path.with_suffix(".away"))


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _other_key(path: Path) -> None:
    other = path.with_name(f"{'0' * 32}.db")
    shutil.copy(path, other)
    path.write_bytes(os.urandom(path.stat().st_size))


@first_of("break_it", [_missing, _damaged, _empty, _link, _folder, _other_key], 2)
async def test_a_file_that_is_not_what_it_was_is_one_clear_error(tmp_path: Path, break_it: object) -> None:
    assert callable(break_it)
    async with opened(tmp_path) as sql:
        await sql.run("CREATE TABLE notes (text)")
        (path,) = sql.files()
    break_it(path)
    async with opened(tmp_path) as sql:
        for _ in range(2):
            with pytest.raises(TablesUnavailable, match="the file of your tables ") as caught:
                await sql.run("SELECT * FROM notes")
            assert str(path) not in caught.value.line()


async def test_one_user_cannot_be_given_the_file_of_another(tmp_path: Path) -> None:
    async with opened(tmp_path) as sql:
        ada = await users.add(sql.database, "ada", 0)
        await sql.run("CREATE TABLE notes (text)")
        (of_owner,) = sql.files()
        await sql.run("CREATE TABLE notes (text)", user_id=ada)
        (of_ada,) = set(sql.files()) - {of_owner}
    shutil.copy(of_owner, of_ada)
    async with opened(tmp_path) as sql:
        with pytest.raises(TablesUnavailable, match="sealed with another key"):
            await sql.run("SELECT * FROM notes", user_id=ada)


async def test_a_file_that_no_user_has_is_deleted_when_it_is_old(tmp_path: Path) -> None:
    async with opened(tmp_path) as sql:
        await sql.run("CREATE TABLE notes (text)")
        (kept,) = sql.files()
    old, new = (kept.with_name(f"{digit * 32}.db") for digit in "01")
    for path in (old, new):
        path.write_bytes(b"left by a process that was killed")
    os.utime(old, (0, 0))
    os.utime(kept, (0, 0))
    async with opened(tmp_path) as sql:
        assert await sql.value("SELECT count(*) AS n FROM notes") == 0
        assert set(sql.files()) == {kept, new}


async def test_a_size_that_was_noted_for_a_change_that_failed_is_corrected(tmp_path: Path) -> None:
    async with opened(tmp_path) as sql:
        await sql.run("CREATE TABLE notes (text)")
        right = await sql.storage.usage("owner")
        await sql.storage.note_tables("owner", right.tables, right.table_bytes + 5000, FREE)
    async with opened(tmp_path) as sql:
        await sql.run("SELECT 1 AS a")
        assert (await sql.storage.usage("owner")).table_bytes == right.table_bytes


@pytest.mark.skipif(not SEES_WORKERS, reason="only the superuser sees what a worker has")
async def test_a_worker_has_nothing_of_the_daemon_or_of_another_user(sql: OpenTables) -> None:
    os.environ["SECRET_OF_DAEMON"] = "not-for-workers"
    ada = await users.add(sql.database, "ada", 0)
    for user_id in ("owner", ada):
        await sql.run("CREATE TABLE notes (text)", user_id=user_id)
    served = {worker: next(each for each in open_files(worker) if each.suffix == ".db") for worker in sql.workers()}
    assert sorted(served.values()) == sql.files()
    for worker, path in served.items():
        descriptors = [str(each.readlink()) for each in Path(f"/proc/{worker}/fd").iterdir()]
        files = [each for each in descriptors if not each.startswith(("socket:", "/dev/null"))]
        assert sorted(files) == [str(path), f"{path}-wal"]
        assert len([each for each in descriptors if each.startswith("socket:")]) == 1
        assert b"not-for-workers" not in Path(f"/proc/{worker}/environ").read_bytes()
        limits = Path(f"/proc/{worker}/limits").read_text()
        assert "Max core file size        0 " in limits
        assert "Max open files            32 " in limits
        assert "Max address space         unlimited" not in limits
        assert "Max cpu time              unlimited" not in limits
        assert Path(f"/proc/{worker}/oom_score_adj").read_text() == "500\n"
    del os.environ["SECRET_OF_DAEMON"]


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_processes_of_a_superusers_command_on_a_service_cannot_become_the_superuser() -> None:
    process = os.fork()
    if process == 0:
        os.setegid(65534)
        os.seteuid(65534)
        be_one_user()
        os._exit(os.getresuid() + os.getresgid() != (65534,) * 6)
    assert os.waitpid(process, 0)[1] == 0


async def test_after_closing_nothing_runs_and_no_call_begins(tmp_path: Path) -> None:
    async with opened(tmp_path) as sql:
        await sql.run("CREATE TABLE notes (text)")
        (template,) = sql.templates()
        await sql.tables.close()
        assert template not in sql.templates()
        with pytest.raises(TablesUnavailable, match="the program stops"):
            await sql.run("SELECT 1 AS a")
    async with opened(tmp_path) as sql:
        assert await sql.value("SELECT count(*) AS n FROM notes") == 0


def _cpu(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
