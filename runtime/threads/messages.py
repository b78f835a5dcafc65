"""The messages of threads: appended once and in order, read from either end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from msgspec import Struct
from sqlalchemy import Connection, Select, delete, exists, select, update

from runtime.clock import Clock, milliseconds, uuid7
from runtime.crypto import Unsealable
from runtime.database.connection import Database
from runtime.database.schema import approvals, messages, runs, threads
from runtime.database.sealed import Seal
from runtime.errors import NotFound
from runtime.threads import change_log, content
from runtime.threads.content import Deletion, EventPart, MessageKind, Part, Role
from runtime.threads.events.log import EventLog
from runtime.threads.events.run_event import RunEvent
from runtime.threads.removal import quotes
from runtime.threads.removal.deletion import DELETED
from runtime.threads.run import ENDED
from runtime.threads.thread import Thread, not_found
from runtime.threads.thread_write import (
    KEY_LENGTH,
    MESSAGE_COLUMNS,
    WRITES,
    MessageRow,
    StoredRows,
    ThreadWrite,
    Writer,
    store,
)

PAGE: Final = 100
"""Default number of messages of a page."""

_READ_BACK: Final = 64
"""Messages whose tokens are read together, going back."""


class NewMessage(Struct, frozen=True, kw_only=True):
    """A message to append. `key`: identifies it among those of its run, the same in every attempt; at most 80
    characters. `tokens`: how many it has in a context. `events`: appended to the event log with it."""

    role: Role
    kind: MessageKind = "message"
    parts: tuple[Part, ...]
    tokens: int
    key: str | None = None
    events: tuple[RunEvent, ...] = ()


class Message(Struct, frozen=True, kw_only=True):
    """A stored message. Positions are counted from 0; `created_at`: Unix milliseconds."""

    id: str
    thread_id: str
    user_id: str
    position: int
    role: Role
    kind: MessageKind
    parts: tuple[Part, ...]
    tokens: int
    run_id: str | None
    key: str | None
    created_at: int

    @property
    def text(self) -> str:
        """Return the text of all its parts."""
        return content.text_of(self.parts)


class Messages:
    """The messages of one database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.on_change: Callable[[Thread], None] = lambda thread: None
        """Called with a thread whose messages changed, in this process alone; returns at once."""
        self._database = database
        self._clock = clock
        self._seal = Seal(database.keys, messages.c.content)
        self._events = EventLog(database, clock)

    async def append(
        self, thread: Thread, new: Sequence[NewMessage], *, run_id: str | None = None, attempt: int | None = None
    ) -> list[Message]:
        """Append messages to a thread in one transaction; on return they are durable. Returns them as stored.

        A message with a key that the run has used in this thread is not appended again: the stored one is returned.
        With `attempt` only the current attempt of the run may write.

        Raises `Superseded` for another attempt, `ThreadGone`, and `Unavailable`: then they may be stored or not. A call
        that is repeated with the same keys appends each once. ValueError for a key that is too long.
        """
        return await self.put(thread, new, run_id=run_id, attempt=attempt)

    def put(
        self, thread: Thread, new: Sequence[NewMessage], *, run_id: str | None = None, attempt: int | None = None
    ) -> asyncio.Future[list[Message]]:
        """Like `append`, without waiting: steps and messages that are put together are usually in one transaction, in
        this order. Raises `Unavailable` immediately during an outage."""
        by = Writer(thread.id, thread.user_id, run_id, attempt, milliseconds(self._clock))
        stored = self._database.commits.put(WRITES, self._write(by, new))
        return asyncio.create_task(self._await_stored(stored, thread), name="messages appended")

    def store_event(self, connection: Connection, by: Writer, event: EventPart) -> None:
        """Append an event in a transaction that has locked the thread. Nothing happens if the thread is gone."""
        self.store(connection, by, [NewMessage(role="system", kind="event", parts=(event,), tokens=len(event.text))])

    def store(self, connection: Connection, by: Writer, new: Sequence[NewMessage]) -> None:
        """Append messages in a transaction that has locked the thread, see `append`. Nothing happens if the thread is
        gone."""
        store(connection, [self._write(by, new)])

    def last_calls(self, connection: Connection, thread_id: str, user_id: str, run_id: str) -> list[Message]:
        """Return the newest message with calls of tools that a run appended to a thread, and the outputs after it;
        nothing if it called none."""
        mine = messages.c.run_id == run_id, messages.c.thread_id == thread_id
        query = select(messages.c.position).where(*mine, messages.c.kind == "tool_call")
        first = connection.execute(query.order_by(messages.c.position.desc()).limit(1)).scalar()
        if first is None:
            return []
        kinds = messages.c.kind.in_(("tool_call", "tool_output")), messages.c.position >= first
        found = connection.execute(select(*messages.c[*MESSAGE_COLUMNS]).where(*mine, *kinds).order_by("position"))
        return [self._message(MessageRow(*row), thread_id, user_id) for row in found]

    async def read(
        self, thread: Thread, *, after: int = -1, before: int | None = None, limit: int = PAGE
    ) -> list[Message]:
        """Return the first `limit` messages after the position `after`, before `before`, oldest first."""
        query = _of(thread).where(messages.c.position > after)
        if before is not None:
            query = query.where(messages.c.position < before)
        return await self._read(thread, query.order_by(messages.c.position).limit(limit))

    async def newest(self, thread: Thread, *, before: int | None = None, limit: int = PAGE) -> list[Message]:
        """Return the newest `limit` messages, or those before the position `before`, oldest first."""
        query = _of(thread)
        if before is not None:
            query = query.where(messages.c.position < before)
        return (await self._read(thread, query.order_by(messages.c.position.desc()).limit(limit)))[::-1]

    async def newest_within(self, thread: Thread, tokens: int, *, after: int = -1) -> list[Message]:
        """Return the newest messages after the position `after` that have at most `tokens` tokens together, oldest
        first; at least the newest message, if there is one.

        The cost depends on how many they are, not on the length of the thread.
        """
        async with self._database.read() as connection:
            first = await connection.run_sync(lambda connection: _first_within(connection, thread, tokens, after))
            if first is None:
                return []
            query = _of(thread).where(messages.c.position >= first).order_by(messages.c.position)
            rows = (await connection.execute(query)).all()
        return [self._message(MessageRow(*row), thread.id, thread.user_id) for row in rows]

    async def of_run(self, thread: Thread, run_id: str) -> list[Message]:
        """Return the messages that a run appended to a thread, oldest first."""
        async with self._database.read() as connection:
            return await connection.run_sync(self.find_of_run, thread.id, thread.user_id, run_id)

    def find_of_run(self, connection: Connection, thread_id: str, user_id: str, run_id: str) -> list[Message]:
        """Return the same as `of_run`, within a transaction."""
        mine = messages.c.thread_id == thread_id, messages.c.run_id == run_id
        found = connection.execute(select(*messages.c[*MESSAGE_COLUMNS]).where(*mine).order_by(messages.c.position))
        return [self._message(MessageRow(*row), thread_id, user_id) for row in found]

    def count_agent_messages(self, connection: Connection, user_id: str, run_id: str) -> int:
        """Return the number of messages that the agent has sent in a run."""
        said = messages.c.run_id == run_id, messages.c.role == "assistant", messages.c.kind == "message"
        rows = connection.execute(select(messages.c.id, messages.c.content).where(*said))
        count = 0
        for row in rows:
            with suppress(Unsealable):
                count += len(content.decode(self._seal.open(row.content, row=row.id, user_id=user_id)))
        return count

    async def beginnings(self, agent: str, part: int, before: int) -> list[Message]:
        """Return the messages before the position `before` of all threads of an agent's part, thread by thread, oldest
        first."""
        query = select(messages.c.thread_id, messages.c.user_id, *messages.c[*MESSAGE_COLUMNS])
        query = query.join_from(threads, messages, messages.c.thread_id == threads.c.id)
        query = query.where(threads.c.agent == agent, threads.c.part == part, threads.c.kind != DELETED)
        query = query.where(messages.c.position < before).order_by(messages.c.thread_id, messages.c.position)
        async with self._database.read() as connection:
            rows = (await connection.execute(query)).all()
        return [self._message(MessageRow(*row), thread_id, user_id) for thread_id, user_id, *row in rows]

    async def asking_runs(self, run_ids: Collection[str]) -> frozenset[str]:
        """Return those of these runs that have asked a person about calls, and have not ended. Raises `Unavailable`."""
        asked = exists().where(approvals.c.run_id == runs.c.id)
        asking = select(runs.c.id).where(runs.c.id.in_(run_ids), runs.c.state.not_in(ENDED), asked)
        async with self._database.read() as connection:
            return frozenset((await connection.execute(asking)).scalars())

    async def count(self, thread: Thread) -> int:
        """Return the number of messages that the thread has now; 0 if it was deleted."""
        query = select(threads.c.length - threads.c.deletions).where(
            threads.c.id == thread.id, threads.c.kind != DELETED
        )
        async with self._database.read() as connection:
            return int((await connection.execute(query)).scalar() or 0)

    async def delete(self, thread: Thread, position: int) -> None:
        """Delete one message, and what outputs of tools quote of it; its position stays empty. A summary that covers it
        is not changed. Raises NotFound."""

        def remove(connection: Connection) -> None:
            of_it = threads.c.id == thread.id, threads.c.kind != DELETED
            counted = update(threads).where(*of_it).values(deletions=threads.c.deletions + 1)
            if not connection.execute(counted).rowcount:
                raise not_found(thread.id)
            one = messages.c.thread_id == thread.id, messages.c.position == position
            if not connection.execute(delete(messages).where(*one)).rowcount:
                raise NotFound(f"the thread {thread.id} has no message at position {position}")
            change_log.note(connection, [thread.id])

        # First, because nobody would know of the copies after an interruption.
        deleted = Deletion(messages=frozenset({(thread.id, position)}))
        await quotes.forget(self._database, thread.user_id, deleted)
        await self._database.transact(remove)
        self.on_change(thread)

    def _write(self, by: Writer, new: Sequence[NewMessage]) -> ThreadWrite:
        rows = tuple(self._row(each, by) for each in new)
        tell: list[tuple[str, Callable[[Connection], None]]] = []
        for row, each in zip(rows, new, strict=True):
            tell += [(row.id, partial(self._events.append, event=event)) for event in each.events]
            if codes := quotes.codes_of(each.parts):
                noting = partial(quotes.note, codes=codes, message_id=row.id, user_id=by.user_id)
                tell.append((row.id, noting))
        return ThreadWrite(by, rows, tell=tuple(tell))

    def _row(self, new: NewMessage, by: Writer) -> MessageRow:
        if new.key is not None and not 0 < len(new.key) <= KEY_LENGTH:
            raise ValueError(f"the key of a message has 1 to {KEY_LENGTH} characters: {new.key[:KEY_LENGTH]!r}")
        message_id = uuid7(self._clock)
        sealed = self._seal.close(content.encode(new.parts), row=message_id, user_id=by.user_id)
        return MessageRow(message_id, new.role, new.kind, new.tokens, new.key, sealed, -1, by.run_id, by.at)

    async def _await_stored(self, stored: asyncio.Future[StoredRows], thread: Thread) -> list[Message]:
        rows = await stored
        assert isinstance(rows, list)
        self.on_change(thread)
        return [self._message(row, thread.id, thread.user_id) for row in rows]

    async def _read(self, thread: Thread, query: Select[Any]) -> list[Message]:
        async with self._database.read() as connection:
            rows = (await connection.execute(query)).all()
        return [self._message(MessageRow(*row), thread.id, thread.user_id) for row in rows]

    def _message(self, row: MessageRow, thread_id: str, user_id: str) -> Message:
        opened = self._seal.open(row.content, row=row.id, user_id=user_id)
        fields = {**row._asdict(), "parts": content.decode(opened)}
        del fields["content"]
        return Message(thread_id=thread_id, user_id=user_id, **fields)


def _of(thread: Thread) -> Select[Any]:
    return select(*messages.c[*MESSAGE_COLUMNS]).where(messages.c.thread_id == thread.id)


def _first_within(connection: Connection, thread: Thread, tokens: int, after: int) -> int | None:
    """Return the position of the oldest of the newest messages that have at most `tokens` tokens; None without any."""
    sizes = select(messages.c.position, messages.c.tokens).where(messages.c.thread_id == thread.id)
    sizes = sizes.where(messages.c.position > after).order_by(messages.c.position.desc()).limit(_READ_BACK)
    first: int | None = None
    while True:
        found = connection.execute(sizes if first is None else sizes.where(messages.c.position < first)).all()
        for position, size in found:
            if first is not None and size > tokens:
                return first
            first, tokens = position, tokens - size
        if len(found) < _READ_BACK:
            return first
