"""Messages, a kind of turn for tests: their own table, no delivery, one per thread at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from sqlalchemy import BigInteger, Column, MetaData, String, Table, Text

from runtime.clock import Clock, milliseconds, uuid7
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import index_turns, threads, turn_columns
from runtime.threads.turns.concurrency import ConcurrencyLimits
from runtime.threads.turns.queue import LEASE_SECONDS, TurnQueue
from runtime.threads.turns.turn import DEAD, QUEUED, ClaimedTurn, Ending

metadata = MetaData()

messages = Table(
    "messages",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("user_id", String(64), nullable=False),
    Column("agent", String(64), nullable=False),
    Column("thread_id", String(36), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("text", Text, nullable=False),
    Column("note", Text),
    *turn_columns(),
)
index_turns(messages)


class ClaimedMessage(ClaimedTurn, frozen=True, kw_only=True):
    """A message of a person as the turn of an agent."""

    trigger: ClassVar[str] = "message"

    text: str


class Messages(TurnQueue[ClaimedMessage]):
    """The messages of one database."""

    kind = ClaimedMessage
    table = messages
    columns = ("thread_id", "text")
    group = "thread_id"
    arrived = "created_at"

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        lease: float = LEASE_SECONDS,
        limits: Callable[[], ConcurrencyLimits] = lambda: ConcurrencyLimits(others=1),
    ) -> None:
        super().__init__(database, clock, lease=lease, limits=limits)

    def read(self, connection: object, rows: Sequence[Any]) -> list[ClaimedMessage | str]:
        return [
            ClaimedMessage(
                id=row.id,
                run_id=self.run_id(row),
                attempt=row.attempt + 1,
                tries=row.tries + 1,
                agent=row.agent,
                user_id=row.user_id,
                thread_id=row.thread_id,
                text=row.text,
            )
            if row.text
            else "it is empty"
            for row in rows
        ]

    def ended(self, connection: Any, endings: Sequence[Ending[ClaimedMessage]]) -> None:
        notes = [(each.turn.id, f"failed: {each.turn.text}") for each in endings if each.outcome.state == DEAD]
        bulk.update(connection, messages, ("id",), ("note",), notes)


async def create(database: Database) -> None:
    """Create the table."""
    await database.transact(metadata.create_all)


async def send(database: Database, clock: Clock, *texts: str, thread: str = "0") -> list[str]:
    """Queue messages of one thread and return their ids."""
    now = milliseconds(clock)
    thread_id = f"{thread:0>8}-0000-7000-8000-000000000000"
    ids = [uuid7(clock) for _ in texts]

    def store(connection: Any) -> None:
        of_thread = ("id", "user_id", "agent", "created_at", "updated_at")
        bulk.insert(connection, threads, of_thread, [(thread_id, "owner", "helper", now, now)], ignore=True)
        columns = ("id", "user_id", "agent", "thread_id", "created_at", "text")
        queue = ("state", "attempt", "tries", "next_attempt_at")
        rows = [
            (each, "owner", "helper", thread_id, now, text, QUEUED, 0, 0, now)
            for each, text in zip(ids, texts, strict=True)
        ]
        bulk.insert(connection, messages, (*columns, *queue), rows)

    await database.transact(store)
    return ids
