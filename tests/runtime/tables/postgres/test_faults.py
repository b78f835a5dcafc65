"""Connections that are lost, stuck or exhausted, and a server that is away."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from runtime.database.drivers import postgresql
from runtime.errors import SymbiontError
from runtime.tables.errors import TablesUnavailable
from runtime.tables.postgres import database as module
from runtime.tables.postgres.connections import UserConnections
from runtime.tables.postgres.statement import StatementPlan
from tests.clocks import ManualClock
from tests.lanes import LONG
from tests.runtime.search.index.postgres.postgres_server import OwnServer
from tests.runtime.tables.postgres.opened import Opened, Place, execute, fetch, open_tables

KILL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{}'"


async def test_a_connection_that_was_closed_by_the_server_is_replaced(opened: Opened, place: Place) -> None:
    await opened.run(opened.eve, "CREATE TABLE notes (id int)")
    await execute(place.server, KILL.format(await opened.name(opened.eve)))
    answers: list[object] = []
    for _ in range(2):
        try:
            answers.append(await opened.run(opened.eve, "INSERT INTO notes VALUES (1)"))
        except TablesUnavailable as error:
            answers.append(error)
    assert not isinstance(answers[1], TablesUnavailable)


async def test_a_statement_whose_connection_is_killed_is_rolled_back_and_the_next_works(
    opened: Opened, place: Place
) -> None:
    await opened.run(opened.eve, "CREATE TABLE notes (id int)")
    name = await opened.name(opened.eve)
    await opened.run(opened.eve, "INSERT INTO notes SELECT generate_series(1, 2000)")
    slow = "INSERT INTO notes SELECT a.id FROM notes a, notes b, notes c WHERE a.id + b.id + c.id = 0"
    running = asyncio.create_task(opened.run(opened.eve, slow))
    active = "SELECT 1 FROM pg_stat_activity WHERE usename = $1 AND state = 'active' AND query LIKE 'INSERT%'"
    await eventually(lambda: fetch(place.server, active, name))
    await execute(place.server, KILL.format(name))
    with pytest.raises(TablesUnavailable):
        await running
    assert (await opened.run(opened.eve, "SELECT count(*) AS n FROM notes")).rows == [[2000]]


async def test_a_statement_that_does_not_answer_a_cancel_loses_its_connection(
    opened: Opened, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await opened.run(opened.eve, "CREATE TABLE notes (id int)")
    monkeypatch.setattr(module, "MOST_SECONDS", 0.2)
    monkeypatch.setattr(module, "WATCH_SECONDS", 0.3)
    stuck = StatementPlan("SELECT pg_sleep(60)::text AS a", "read", None, counted=False, few=True)
    monkeypatch.setattr(module, "check", lambda *_: stuck)
    began = time.monotonic()
    with pytest.raises(SymbiontError, match="cancelled"):
        await opened.run(opened.eve, "SELECT 1")
    assert time.monotonic() - began < 30
    name = await opened.name(opened.eve)
    alive = "SELECT 1 FROM pg_stat_activity WHERE usename = $1 AND query LIKE '%pg_sleep%'"
    await eventually(lambda: _none(place, alive, name))
    monkeypatch.undo()
    assert (await opened.run(opened.eve, "SELECT 2 AS b")).rows == [[2]]


async def eventually(happened: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(60):
        while not await happened():
            await asyncio.sleep(0.01)


async def _none(place: Place, query: str, name: str) -> bool:
    return not await fetch(place.server, query, name)


async def test_connections_are_bounded_and_the_idle_one_of_another_user_is_closed(opened: Opened, place: Place) -> None:
    opened.tables._connections = UserConnections(opened.database.location, most=2)
    for user in (opened.ada, opened.eve, "owner"):
        await opened.run(user, "SELECT 1 AS a")
    names = [await opened.name(user) for user in (opened.ada, opened.eve, "owner")]
    query = "SELECT usename FROM pg_stat_activity WHERE usename = ANY($1::text[])"

    async def left() -> bool:
        return {row[0] for row in await fetch(place.server, query, names)} == set(names[1:])

    await eventually(left)
    # More at once than there may be: they wait for one another.
    many = [opened.run(user, "SELECT 1 AS a") for user in (opened.ada, opened.eve, "owner") for _ in range(8)]
    assert [done.rows for done in await asyncio.gather(*many)] == [[[1]]] * 24
    await opened.tables.drop("owner")


async def test_a_cancelled_caller_leaves_no_transaction_open(opened: Opened, place: Place) -> None:
    await opened.run(opened.eve, "CREATE TABLE notes (id int)")
    name = await opened.name(opened.eve)
    await opened.run(opened.eve, "INSERT INTO notes SELECT generate_series(1, 2000)")
    slow = "UPDATE notes SET id = (SELECT max(a.id + b.id + c.id) FROM notes a, notes b, notes c)"
    running = asyncio.create_task(opened.run(opened.eve, slow))
    active = "SELECT 1 FROM pg_stat_activity WHERE usename = $1 AND state = 'active' AND query LIKE 'UPDATE%'"
    await eventually(lambda: fetch(place.server, active, name))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    busy = "SELECT 1 FROM pg_stat_activity WHERE usename = $1 AND state <> 'idle'"
    await eventually(lambda: _none(place, busy, name))
    assert (await opened.run(opened.eve, "UPDATE notes SET id = 1")).affected_rows == 2000


@pytest.fixture
def server() -> Iterator[OwnServer]:
    """A PostgreSQL server that this test may freeze and stop."""
    pytest.importorskip("pgserver")
    folder = Path(tempfile.mkdtemp(prefix="symbiont-tables-"))
    started = OwnServer(folder)
    started.start()
    yield started
    started.stop("immediate")
    shutil.rmtree(folder)


@LONG
async def test_a_server_that_hangs_or_is_away_is_one_clear_error_and_the_tables_are_there_afterwards(
    server: OwnServer, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "ANSWER_SECONDS", 2)
    async with open_tables(server.url, clock) as opened:
        await opened.run(opened.eve, "CREATE TABLE notes (id int)")
        await opened.run(opened.eve, "INSERT INTO notes VALUES (1)")
        with server.frozen():
            ticks = asyncio.create_task(counted())
            began = time.monotonic()
            for sql in ("SELECT 1 AS a", "INSERT INTO notes VALUES (2)"):
                with pytest.raises(SymbiontError):
                    await opened.run(opened.eve, sql)
            assert time.monotonic() - began < 40
            assert not ticks.done()
            ticks.cancel()
        server.stop("immediate")
        with pytest.raises(SymbiontError) as caught:
            await opened.run(opened.eve, "SELECT 1 AS a")
        assert "hunter2" not in caught.value.line()
        server.start()

        async def answers() -> bool:
            try:
                return (await opened.run(opened.eve, "SELECT count(*) AS n FROM notes")).rows == [[1]]
            except SymbiontError:
                return False

        await eventually(answers)


async def counted() -> None:
    """Fail if the event loop is blocked."""
    while True:
        began = time.monotonic()
        await asyncio.sleep(0.05)
        assert time.monotonic() - began < 5
