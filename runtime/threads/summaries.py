"""The summaries of threads: each absorbs the one before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from sqlalchemy import Select, select

from runtime.clock import Clock, milliseconds, uuid7
from runtime.database.connection import Database
from runtime.database.schema import summaries
from runtime.database.sealed import Seal
from runtime.database.text import storable
from runtime.threads.thread import Thread
from runtime.threads.thread_write import SUMMARY_COLUMNS, WRITES, SummaryRow, ThreadWrite, Writer


class NewSummary(Struct, frozen=True, kw_only=True):
    """A summary of the messages from `first_position` to `last_position`, both included."""

    first_position: int
    last_position: int
    message_count: int
    """Number of messages that it covers."""
    text: str
    tokens: int
    """Of the text."""
    embedding: bytes | None = None
    """Of the text: float32, little-endian."""
    embedding_model: str | None = None


class Summary(NewSummary, frozen=True, kw_only=True):
    """A stored summary. `created_at`: Unix milliseconds."""

    id: str
    thread_id: str
    user_id: str
    previous_id: str | None
    """The summary that it absorbed."""
    run_id: str | None
    created_at: int


class Summaries:
    """The summaries of one database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.on_change: Callable[[Thread], None] = lambda thread: None
        """Called with a thread that has a new summary, in this process alone; returns at once."""
        self._database = database
        self._clock = clock
        self._content = Seal(database.keys, summaries.c.content)
        self._embedding = Seal(database.keys, summaries.c.embedding)

    async def append(
        self, thread: Thread, new: NewSummary, *, run_id: str | None = None, attempt: int | None = None
    ) -> Summary:
        """Store a summary as the newest of its thread; on return it is durable. Returns it as stored.

        One that ends where the newest does is not stored again: the newest is returned. With `attempt` only the current
        attempt of the run may write.

        Raises Conflict if the newest one ends later, `Superseded`, `ThreadGone`, and `Unavailable`.
        """
        by = Writer(thread.id, thread.user_id, run_id, attempt, milliseconds(self._clock))
        stored = await self._database.commits.store(WRITES, ThreadWrite(by, summary=self._row(new, by)))
        assert isinstance(stored, SummaryRow)
        self.on_change(thread)
        return self._summary(stored, thread)

    async def latest(self, thread: Thread) -> Summary | None:
        """Return the newest summary of a thread; None if it has none."""
        found = await self._read(thread, _of(thread).order_by(summaries.c.last_position.desc()).limit(1))
        return found[0] if found else None

    async def chain(self, thread: Thread) -> list[Summary]:
        """Return all summaries of a thread, oldest first; each absorbed the one before it."""
        return await self._read(thread, _of(thread).order_by(summaries.c.last_position))

    def _row(self, new: NewSummary, by: Writer) -> SummaryRow:
        summary_id = uuid7(self._clock)
        given: dict[str, Any] = {"row": summary_id, "user_id": by.user_id}
        text = self._content.close((storable(new.text) or "").encode(), **given)
        embedding = None if new.embedding is None else self._embedding.close(new.embedding, **given)
        counted = new.first_position, new.last_position, new.message_count, new.tokens
        return SummaryRow(summary_id, *counted, new.embedding_model, None, by.run_id, by.at, text, embedding)

    async def _read(self, thread: Thread, query: Select[Any]) -> list[Summary]:
        async with self._database.read() as connection:
            rows = (await connection.execute(query)).all()
        return [self._summary(SummaryRow(*row), thread) for row in rows]

    def _summary(self, row: SummaryRow, thread: Thread) -> Summary:
        fields = row._asdict()
        sealed, embedding = fields.pop("content"), fields.pop("embedding")
        given: dict[str, Any] = {"row": row.id, "user_id": thread.user_id}
        if embedding is not None:
            embedding = self._embedding.open(embedding, **given)
        text = self._content.open(sealed, **given).decode()
        return Summary(text=text, embedding=embedding, thread_id=thread.id, user_id=thread.user_id, **fields)


def _of(thread: Thread) -> Select[Any]:
    return select(*summaries.c[*SUMMARY_COLUMNS]).where(summaries.c.thread_id == thread.id)
