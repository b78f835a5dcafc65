"""Runs and threads for tests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event, func, select, text

from runtime.clock import SYSTEM, uuid7
from runtime.database.connection import Database
from runtime.database.schema import thread_changes
from runtime.threads import change_log, run
from runtime.threads.content import TextPart
from runtime.threads.messages import Message, NewMessage


def said(words: str, *, key: str | None = None, tokens: int = 1, **more: Any) -> NewMessage:
    """Return a message of a person."""
    return NewMessage(**{"role": "user", "parts": (TextPart(words),), "tokens": tokens, "key": key, **more})


def texts(found: list[Message]) -> list[str]:
    return [message.text for message in found]


async def begin(
    database: Database,
    thread_id: str | None,
    *,
    run_id: str | None = None,
    attempt: int = 1,
    user_id: str = "owner",
    delivery_id: str | None = None,
) -> str:
    """Begin an attempt at a run, as a claim does; return the run's id."""
    known = run_id or uuid7(SYSTEM)
    ids = known, user_id, "delivery" if delivery_id else "message", delivery_id, thread_id
    begun = run.Begin(*ids, "helper", attempt, 1, new=attempt == 1)
    await database.transact(lambda connection: run.begin(connection, [begun]))
    return known


async def end(database: Database, run_id: str, state: str = run.DONE) -> None:
    """End the first attempt of a run."""
    ended = run.End(run_id, 1, state, 2, None)
    await database.transact(lambda connection: run.end(connection, [ended]))


async def count(database: Database, table: str) -> int:
    async with database.read() as connection:
        return int((await connection.execute(text(f"SELECT count(*) FROM {table}"))).scalar_one())


async def many_threads(
    database: Database, number: int, *, kind: str = "delivery", agent: str = "helper", length: int = 0
) -> None:
    """Store threads of the owner, each a millisecond after the one before."""
    series = {
        "sqlite": "WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < :last)",
        "postgresql": "WITH s(n) AS (SELECT generate_series(0, :last))",
    }[database.kind]
    ids = "CAST(n AS TEXT)"
    insert = text(
        f"INSERT INTO threads (id, user_id, agent, kind, part, length, created_at, updated_at) {series} "
        f"SELECT :kind || {ids}, 'owner', CAST(:agent AS TEXT), CAST(:kind AS TEXT), n / 32, :length, n, n FROM s"
    )

    def fill(connection: Connection) -> None:
        connection.execute(insert, {"last": number - 1, "kind": kind, "agent": agent, "length": length})
        connection.execute(text("ANALYZE"))

    await database.transact(fill)


@contextmanager
def statements() -> Iterator[list[tuple[str, Any]]]:
    """Record the statements and parameters of every connection."""
    found: list[tuple[str, Any]] = []

    def record(connection: object, cursor: object, statement: str, parameters: Any, *more: object) -> None:
        found.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", record)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", record)


async def plans(database: Database, recorded: list[tuple[str, Any]]) -> list[str]:
    """Return how the database executes these statements."""
    explain = "EXPLAIN QUERY PLAN" if database.kind == "sqlite" else "EXPLAIN"

    def plan(connection: Connection, statement: str, parameters: Any) -> str:
        rows = connection.exec_driver_sql(f"{explain} {statement}", parameters)
        return "\n".join(str(row[-1]) for row in rows)

    wanted = [each for each in recorded if each[0].lstrip().startswith(("SELECT", "UPDATE", "DELETE", "WITH"))]
    wanted = [each for each in wanted if "threads" in each[0] or "messages" in each[0]]
    async with database.read() as connection:
        return [await connection.run_sync(plan, *each) for each in wanted]


def reads_everything(plan: str) -> bool:
    """Return True if a plan reads all rows of a table, or sorts very many."""
    for line in plan.splitlines():
        if "TEMP B-TREE" in line or re.search(r"SCAN (threads|messages)(?! USING INDEX ix_threads_deleted)", line):
            return True
        estimate = re.search(r"(?:Sort|Seq Scan on \w+) .*rows=(\d+)", line)
        if estimate is not None and int(estimate[1]) > 1000:
            return True
    return False


async def all_ended(database: Database) -> None:
    """Wait until no transaction runs that began before the newest change: other tests use the same server."""

    def running(connection: Connection) -> bool:
        newest = connection.execute(select(func.max(thread_changes.c.number))).scalar() or 0
        return change_log.next_number(connection) <= newest

    async with asyncio.timeout(60):
        while True:
            async with database.read() as connection:
                if not await connection.run_sync(running):
                    return
            await asyncio.sleep(0.01)
