"""A root that lost its database, or a part of its state, refuses and names what is there; only a person makes a new
one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import text

from runtime.daemon.process.root import Root, make
from runtime.database.drivers.key_stores import SqliteKeys
from runtime.database.drivers.postgresql import PostgresConnections
from runtime.database.drivers.sqlite import make_file
from runtime.database.keys import tables
from runtime.database.location import locate
from tests.lanes import first_of
from tests.runtime.daemon.running import Daemon, on_postgres, running, symbi, until, write_program

PORTS = ("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
MCP = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": "symbiont://memory-types"}},
)
GENERATED = """\
webhook hooks {
    path     "/hooks/x"
    provider github
    secret   "secret://generated/hooks"
    agent    reviewer
}
agent reviewer {
    instruction "Remember."
}
"""


def snapshot(root: Path) -> dict[str, bytes]:
    state = root / ".symbi"
    files = {str(file.relative_to(state)): file for file in state.rglob("*") if file.is_file()}
    # SQLite makes and removes these by itself.
    return {name: file.read_bytes() for name, file in files.items() if not name.endswith(("-wal", "-shm", "lock"))}


def removed(state: Path) -> None:
    (state / "symbiont.db").unlink()


def emptied(state: Path) -> None:
    (state / "symbiont.db").write_bytes(b"")


def gone_with_the_keys(state: Path) -> None:
    for name in ("symbiont.db", "keys.db"):
        (state / name).unlink()


def gone_with_all_keys(state: Path) -> None:
    gone_with_the_keys(state)
    (state / "master.key").unlink()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a delivery, stopped, and a copy of its state in `kept`."""
    root = tmp_path_factory.mktemp("used")
    write_program(root)
    with running(root, "program") as daemon:
        assert daemon.github(b"{}", "1").status == 202
        until(lambda: daemon.attempts()[0]["run_state"] == "done")
    # A stop may leave the log, and a database is not made beside it.
    with closing(sqlite3.connect(root / ".symbi/symbiont.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copytree(root / ".symbi", root / "kept")
    return root


@pytest.fixture
def used(stopped: Path) -> Path:
    """The root as it was when it was stopped."""
    shutil.rmtree(stopped / ".symbi")
    shutil.copytree(stopped / "kept", stopped / ".symbi")
    return stopped


@pytest.mark.parametrize("lose", [removed, emptied, gone_with_the_keys, gone_with_all_keys])
def test_a_root_without_its_database_refuses_and_changes_nothing(used: Path, lose: Callable[[Path], None]) -> None:
    lose(used / ".symbi")
    before = snapshot(used)
    (used / "file.txt").write_text("text")
    for command in (
        ("up", "program", *PORTS),
        ("webhook", "logs"),
        ("secret", "show", "github-events"),
        ("push", "file.txt"),
        ("user", "add", "ada"),
    ):
        done = symbi(*command, root=used)
        assert done.returncode == 2, done.stdout
        assert "symbiont.db is missing or empty" in done.stderr
        assert "program.json, last-program.sealed" in done.stderr
        assert f"symbi database create --root {used}" in done.stderr
        assert "Traceback" not in done.stderr
    ready = symbi("readiness", root=used)
    assert ready.returncode == 1
    assert "symbiont.db is missing or empty" in ready.stdout
    served = symbi("mcp", root=used, input="".join(f"{json.dumps(each)}\n" for each in MCP))
    assert "symbiont.db is missing or empty" in served.stdout
    assert snapshot(used) == before
    # Put back, it goes on as if nothing had been: a repeated delivery gets the first answer.
    for file in (used / "kept").iterdir():
        if file.is_file():
            shutil.copy2(file, used / ".symbi")
    with running(used, "program") as daemon:
        first = daemon.attempts()[-1]["delivery_id"]
        assert daemon.github(b"{}", "1").json()["delivery_id"] == first


def test_a_person_makes_a_new_database_once(tmp_path: Path) -> None:
    write_program(tmp_path, GENERATED)
    with running(tmp_path, "program") as daemon:
        before = daemon.symbi("secret", "show", "hooks").stdout
    (tmp_path / ".symbi/symbiont.db").unlink()
    made = symbi("database", "create", root=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "is new" in made.stdout
    assert symbi("user", "add", "ada", root=tmp_path).returncode == 0
    with running(tmp_path, "program") as daemon:
        assert daemon.symbi("secret", "show", "hooks").stdout != before
        refused = daemon.symbi("database", "create")
        assert refused.returncode == 2
        assert "is in use by" in refused.stderr
    again = symbi("database", "create", "--json", root=tmp_path)
    assert json.loads(again.stdout)["is_new"] is False
    assert "ada" in symbi("user", "list", root=tmp_path).stdout


def test_a_new_database_is_made_when_the_keys_are_gone_too(used: Path) -> None:
    gone_with_all_keys(used / ".symbi")
    assert symbi("database", "create", root=used).returncode == 0
    with running(used, "program") as daemon:
        assert daemon.github(b"{}", "1").status == 202


def test_the_last_changes_of_a_database_that_is_gone_are_not_deleted(used: Path) -> None:
    (used / ".symbi/symbiont.db").unlink()
    log = used / ".symbi/symbiont.db-wal"
    log.write_bytes(b"changes")
    for command in (("up", "program", *PORTS), ("database", "create")):
        assert symbi(*command, root=used).returncode == 2
        assert log.read_bytes() == b"changes"


def _folder(root: Root) -> None:
    """After the folder was made."""


def _key(root: Root) -> None:
    (root.state / "master.key").write_text("ab" * 32)
    (root.state / "master.key").chmod(0o600)


def _file(root: Root) -> None:
    _key(root)
    make_file(root.state / "symbiont.db")


def _wal(root: Root) -> None:
    _file(root)
    with closing(sqlite3.connect(root.state / "symbiont.db")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")


def _keys(root: Root) -> None:
    """After the keys were stored, and before the database was."""
    from runtime.crypto import MasterKey

    _wal(root)
    store = SqliteKeys(root.state / "keys.db")
    store.transact(lambda keys: tables.make(keys, uuid4().hex, MasterKey(bytes.fromhex("ab" * 32)).key_id.hex()))
    store.close()


@first_of("interrupted", [_keys, _folder, _key, _file, _wal], 2)
def test_a_first_start_that_was_killed_is_no_lost_root(tmp_path: Path, interrupted: Callable[[Root], None]) -> None:
    write_program(tmp_path)
    interrupted(make(tmp_path, os.environ, tmp_path))
    assert symbi("webhook", "logs", root=tmp_path).returncode == 0
    with running(tmp_path, "program") as daemon:
        assert daemon.github(b"{}", "1").status == 202


def test_keys_that_sealed_something_are_of_a_database_that_was_there(used: Path) -> None:
    for name in ("symbiont.db", "program.json", "last-program.sealed"):
        (used / ".symbi" / name).unlink()
    for name in ("index", "tables"):
        shutil.rmtree(used / ".symbi" / name, ignore_errors=True)
    (used / ".symbi/compacted.json").unlink(missing_ok=True)
    done = symbi("up", "program", *PORTS, root=used)
    assert done.returncode == 2
    assert "keys.db are there" in done.stderr


def test_the_database_of_another_root_is_refused_until_a_person_says_so(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_program(tmp_path / name)
        with running(tmp_path / name, "program") as daemon:
            daemon.symbi("user", "add", name)
    one = tmp_path / "one"
    for name in ("symbiont.db", "keys.db", "master.key"):
        shutil.copy2(tmp_path / "two/.symbi" / name, one / ".symbi")
    for command in (("up", "program", *PORTS), ("user", "list")):
        done = symbi(*command, root=one)
        assert done.returncode == 2
        assert "another database than the one" in done.stderr
    made = symbi("database", "create", root=one)
    assert "had data before" in made.stdout, made.stderr
    assert "two" in symbi("user", "list", root=one).stdout


async def _run(url: str, *statements: str) -> None:
    server = PostgresConnections(locate(url), connections=1)
    async with server.engine.begin() as connection:
        for statement in statements:
            await connection.execute(text(statement))
    await server.engine.dispose()


def test_an_emptied_postgresql_is_refused_and_a_new_root_may_share_a_full_one(
    tmp_path: Path, postgres_url: str
) -> None:
    environ = on_postgres(postgres_url)
    roots = [tmp_path / name for name in ("one", "two")]
    for root in roots:
        root.mkdir()
        write_program(root)
        with running(root, "program", wait=True, **environ) as daemon:
            assert daemon.github(b"{}", "1").status in (200, 202)
    lost = roots[0]
    asyncio.run(_run(postgres_url, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public"))
    new = tmp_path / "new"
    new.mkdir()
    write_program(new)
    for root in (lost, new):
        # The keys are in a schema of their own, and still there.
        done = symbi("up", "program", *PORTS, root=root, **environ)
        assert done.returncode == 2
        assert "is missing or empty" in done.stderr
    asyncio.run(_run(postgres_url, "DROP SCHEMA symbiont_keys CASCADE"))
    assert symbi("up", "program", *PORTS, root=lost, **environ).returncode == 2
    assert symbi("user", "list", root=lost, **environ).returncode == 2
    made = symbi("database", "create", root=lost, **environ)
    assert "is new" in made.stdout, made.stderr
    # The other root has the former one in mind.
    done = symbi("up", "program", *PORTS, root=roots[1], **environ)
    assert done.returncode == 2
    assert "another database" in done.stderr
    with running(lost, "program", wait=True, **environ):
        pass


def test_a_root_from_before_the_first_release_is_refused_in_one_line_and_unchanged(used: Path) -> None:
    with closing(sqlite3.connect(used / ".symbi/symbiont.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0024'")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = snapshot(used)
    for command in (("up", "program", *PORTS), ("webhook", "logs"), ("user", "add", "ada"), ("memory", "list")):
        done = symbi(*command, root=used)
        assert (done.returncode, done.stdout) == (2, "")
        line, hint = done.stderr.splitlines()[-2:]
        assert "symbiont.db is of a program before 0.2.0, and was not changed" in line
        assert "`symbi memory export`" in hint
    assert snapshot(used) == before


def _ended(daemon: Daemon) -> str:
    until(lambda: daemon.process.poll() is not None)
    assert daemon.process.poll() == 1
    return daemon.log.read_text()


@pytest.mark.parametrize("lose", [removed, emptied])
def test_a_daemon_whose_database_goes_away_stops_and_is_not_started_anew(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        lose(tmp_path / ".symbi")
        assert "was removed or replaced" in _ended(daemon)
    for file in (tmp_path / ".symbi").glob("symbiont.db*"):
        file.unlink()
    assert symbi("up", "program", *PORTS, root=tmp_path).returncode == 2


def test_a_daemon_whose_log_or_lock_goes_away_stops_before_more_is_lost(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        accepted = daemon.github(b"{}", "1").json()
        (tmp_path / ".symbi/symbiont.db-wal").unlink()
        assert "was removed or replaced" in _ended(daemon)
    with running(tmp_path, "program") as daemon:
        assert daemon.github(b"{}", "1").json() == accepted
        (tmp_path / ".symbi/lock").unlink()
        assert "was removed, so another process may use it too" in _ended(daemon)
