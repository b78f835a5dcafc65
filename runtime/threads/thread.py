"""Threads: the conversations of a user with an agent, which several runs continue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import nlargest
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct
from sqlalchemy import Connection, func, select, text, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.clock import Clock, milliseconds, uuid7
from runtime.crypto import SealedBytes
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.errors import Collision
from runtime.database.schema import messages, runs, threads
from runtime.database.sealed import Seal
from runtime.database.text import hash_key, is_distinct, storable
from runtime.errors import NotFound, UsageError
from runtime.suggestions import did_you_mean, near_ids
from runtime.threads.removal import deletion

ThreadKind = Literal["main", "delivery", "keyed", "conversation"]

MAIN: Final = "main"
"""The only one of its kind for a user and an agent."""
DELIVERY: Final = "delivery"
"""Of one delivery, whose id it has."""
KEYED: Final = "keyed"
"""Of one subject, a value in the payloads of deliveries."""
CONVERSATION: Final = "conversation"
"""Begun by a person."""

KINDS: Final[tuple[ThreadKind, ...]] = ("main", "delivery", "keyed", "conversation")

PAGE: Final = 50
"""Default number of threads of a page."""

TOGETHER: Final = 32
"""Threads of an agent that have the same `part`: the beginnings of their messages are indexed together."""

_COMPARED: Final = 200
"""Threads of a user whose ids are compared with one that does not exist."""

_ATTEMPTS: Final = 3
_COLUMNS: Final = (
    *("id", "user_id", "agent", "kind", "subject", "title", "title_version", "length", "deletions", "summary_count"),
    *("created_at", "updated_at"),
)
_NEW: Final = ("id", "user_id", "agent", "kind", "subject", "subject_key", "title", "part", "created_at", "updated_at")


class Thread(Struct, frozen=True, kw_only=True):
    """One conversation, as it was when it was read. Times are Unix milliseconds."""

    id: str
    user_id: str
    agent: str
    kind: ThreadKind
    subject: str | None
    """Of a keyed thread."""
    title: str | None
    length: int
    """The position of its next message."""
    deletions: int
    """Number of messages that were deleted from it, one by one."""
    summary_count: int
    created_at: int
    updated_at: int
    """Time of its last message."""

    @property
    def message_count(self) -> int:
        """Return the number of its messages."""
        return self.length - self.deletions


class WantedThread(NamedTuple):
    """A thread to find or to make. `id`: of a new one."""

    id: str
    user_id: str
    agent: str
    kind: ThreadKind
    at: int
    """Unix milliseconds."""
    subject: str | None = None
    title: SealedBytes | None = None


class ThreadPosition(NamedTuple):
    """A thread's place in a list of the newest ones."""

    updated_at: int
    id: str


def position_of(thread: Thread) -> ThreadPosition:
    """Return the place of a thread in a list; the next page begins after it."""
    return ThreadPosition(thread.updated_at, thread.id)


class Threads:
    """The threads of one database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.on_change: Callable[[Thread], None] = lambda thread: None
        """Called with a thread that was deleted, in this process alone; returns at once."""
        self._database = database
        self._clock = clock
        self._seal = Seal(database.keys, threads.c.title)

    async def main(self, user_id: str, agent: str) -> Thread:
        """Return the main thread of a user and an agent; it is made when there is none, once."""
        return await self._find_or_make(self._wanted_thread(user_id, agent, MAIN))

    async def for_delivery(self, user_id: str, agent: str, delivery_id: str) -> Thread:
        """Return the thread of a delivery, the same in every attempt."""
        return await self._find_or_make(self._wanted_thread(user_id, agent, DELIVERY, delivery_id=delivery_id))

    async def for_subject(self, user_id: str, agent: str, subject: str) -> Thread:
        """Return the thread of a subject; it is made when there is none, once. Raises UsageError for one that is stored
        as others are."""
        if not is_distinct(subject):
            raise UsageError(
                "the subject contains a NUL, half a character or U+FFFD", hint="others would have the same memory"
            )
        return await self._find_or_make(self._wanted_thread(user_id, agent, KEYED, subject=subject))

    async def conversation(self, user_id: str, agent: str, title: str | None = None) -> Thread:
        """Begin a conversation."""
        wanted = self._wanted_thread(user_id, agent, CONVERSATION)
        return await self._find_or_make(wanted._replace(title=self._sealed_title(title, wanted.id, user_id)))

    async def find(self, user_id: str, agent: str, subject: str | None = None) -> Thread | None:
        """Return the main thread of a user and an agent, or the thread of a subject; None if there is none."""
        if subject is None:
            return await self._find_existing(self._wanted_thread(user_id, agent, MAIN))
        return await self._find_existing(self._wanted_thread(user_id, agent, KEYED, subject=storable(subject)))

    async def get(self, thread_id: str, *, user_id: str | None = None) -> Thread:
        """Return a thread. Raises NotFound; with `user_id` also for a thread of another user."""
        query = select(*threads.c[*_COLUMNS]).where(threads.c.id == thread_id, threads.c.kind != deletion.DELETED)
        async with self._database.read() as connection:
            row = (await connection.execute(query)).first()
        if row is None or user_id not in (None, row.user_id):
            raise not_found(thread_id)
        return self._thread(row)

    async def nearest(self, thread_id: str, user_id: str, *, subjects: bool = True) -> Sequence[str]:
        """Return the ids of the user's newest threads that may be meant by `thread_id`, which is none.

        `subjects`: also of keyed threads.
        """
        known = await self.list(user_id, kinds=[kind for kind in KINDS if subjects or kind != KEYED], limit=_COMPARED)
        return near_ids(thread_id, [each.id for each in known])

    async def list(
        self,
        user_id: str,
        *,
        agent: str | None = None,
        kinds: Sequence[ThreadKind] = KINDS,
        before: ThreadPosition | None = None,
        limit: int = PAGE,
    ) -> list[Thread]:
        """Return up to `limit` threads of a user, the last used first.

        `before`: only those after this place in the list, so that the next page begins at the last thread of this one.
        """
        place = threads.c.updated_at, threads.c.id
        newest = select(*threads.c[*_COLUMNS]).where(threads.c.user_id == user_id)
        if agent is not None:
            newest = newest.where(threads.c.agent == agent)
        if before is not None:
            newest = newest.where(tuple_(*place) < before)
        newest = newest.order_by(*(column.desc() for column in place)).limit(limit)
        found: list[Any] = []
        async with self._database.read() as connection:
            for kind in dict.fromkeys(kinds):
                # A query for each kind: its index is in the wanted order.
                found += await connection.execute(newest.where(threads.c.kind == kind))
        return [self._thread(row) for row in nlargest(limit, found, key=attrgetter("updated_at", "id"))]

    async def is_first_run(self, thread: Thread, run_id: str, *, alone: bool) -> bool:
        """Return True if agent and user of a thread had no conversation before this run, the same in every attempt.

        `alone`: only this thread counts, because its subject has a memory of its own. Otherwise earlier runs count, and
        older threads, because runs are deleted sooner. Runs without a thread are a recorder's, and no conversations.
        Reads a few rows by indexes.
        """
        async with self._database.read() as connection:
            if not await _wrote_first(connection, thread.id, run_id):
                return False
            if alone:
                return True
            started_at = await connection.scalar(select(runs.c.started_at).where(runs.c.id == run_id))
            earlier = select(runs.c.id).where(
                runs.c.user_id == thread.user_id, runs.c.agent == thread.agent, runs.c.thread_id.is_not(None)
            )
            older = select(threads.c.id).where(
                threads.c.user_id == thread.user_id,
                threads.c.agent == thread.agent,
                threads.c.kind.in_(KINDS),
                threads.c.id != thread.id,
                threads.c.length > 0,
            )
            if started_at is not None:
                earlier = earlier.where(tuple_(runs.c.started_at, runs.c.id) < (started_at, run_id))
                older = older.where(threads.c.created_at < started_at)
            newest = earlier.order_by(runs.c.started_at.desc()).limit(1)
            if await connection.scalar(newest) is not None:
                return False
            return await connection.scalar(older.limit(1)) is None

    async def rename(self, thread: Thread, title: str | None) -> Thread:
        """Give a thread another title, or none. Raises NotFound."""
        version = milliseconds(self._clock)
        sealed = self._sealed_title(title, thread.id, thread.user_id, version)
        of_it = threads.c.id == thread.id, threads.c.kind != deletion.DELETED
        change = update(threads).where(*of_it).values(title=sealed, title_version=version)
        if not await self._database.transact(lambda connection: connection.execute(change).rowcount):
            raise not_found(thread.id)
        return await self.get(thread.id)

    async def delete(self, thread: Thread, *, force: bool = False) -> None:
        """Delete a thread with its messages, summaries and inputs. Blocks of its subject stay.

        It is gone at once; an interrupted deletion is completed by the next one. Raises NotFound, and Conflict while a
        turn holds it or waits for it; `force`: the run goes on and cannot write to the thread any more, and waiting
        inputs are deleted.
        """
        if not await deletion.delete(self._database, thread.id, force=force):
            raise not_found(thread.id)
        self.on_change(thread)

    async def _find_or_make(self, wanted: WantedThread) -> Thread:
        if wanted.kind != CONVERSATION and (found := await self._find_existing(wanted)) is not None:
            return found

        def make(connection: Connection) -> Any:
            return _row(connection, *find_or_make(connection, [wanted]))

        try:
            made = await self._database.transact(make)
        except _DeletionUnfinishedError:
            await deletion.erase(self._database, wanted.id)
            made = await self._database.transact(make)
        self._database.keys.texts.add(wanted.user_id, 0)
        return self._thread(made)

    async def _find_existing(self, wanted: WantedThread) -> Thread | None:
        async with self._database.read() as connection:
            row = await connection.run_sync(lambda connection: _row(connection, _find(connection, wanted)))
        return None if row is None else self._thread(row)

    def _wanted_thread(
        self, user_id: str, agent: str, kind: ThreadKind, *, delivery_id: str | None = None, subject: str | None = None
    ) -> WantedThread:
        thread_id = uuid7(self._clock) if delivery_id is None else delivery_id
        return WantedThread(thread_id, user_id, agent, kind, milliseconds(self._clock), subject)

    def _sealed_title(self, title: str | None, thread_id: str, user_id: str, version: int = 0) -> SealedBytes | None:
        """Return a title, sealed; the version of a new thread's is 0, of later ones the time."""
        if title is None:
            return None
        return self._seal.close((storable(title) or "").encode(), row=thread_id, user_id=user_id, version=version)

    def _thread(self, row: Any) -> Thread:
        fields = {name: getattr(row, name) for name in _COLUMNS}
        version = fields.pop("title_version")
        if row.title is not None:
            fields["title"] = self._seal.open(row.title, row=row.id, user_id=row.user_id, version=version).decode()
        return Thread(**fields)


async def _wrote_first(connection: AsyncConnection, thread_id: str, run_id: str) -> bool:
    """Return True if no other run wrote to a thread before this one."""
    first = select(messages.c.run_id).where(messages.c.thread_id == thread_id).order_by(messages.c.position).limit(1)
    row = (await connection.execute(first)).first()
    return row is None or row.run_id == run_id


class _DeletionUnfinishedError(Exception):
    """The thread of this delivery is being deleted."""


def find_or_make(connection: Connection, wanted: Sequence[WantedThread]) -> list[str]:
    """Return the ids of these threads in order; those that do not exist are made, each once, also when several daemons
    make it at the same time."""
    ids: dict[tuple[str, ...], str] = {}
    # In one order: on PostgreSQL a new thread is waited for until the other transaction that makes it ends.
    for identity, each in sorted({_identity(each): each for each in wanted}.items()):
        ids[identity] = _find(connection, each) or _make(connection, each)
    return [ids[_identity(each)] for each in wanted]


def not_found(thread_id: str, near: Sequence[str] = ()) -> NotFound:
    """Return the error for a thread that does not exist. `near`: the ids that may be meant."""
    hint = did_you_mean(near) if near else "`symbi thread list` lists them"
    return NotFound(f"there is no thread {thread_id}", hint=hint)


def _identity(wanted: WantedThread) -> tuple[str, ...]:
    key = {MAIN: "", KEYED: hash_key(wanted.subject or "")}.get(wanted.kind, wanted.id)
    return wanted.user_id, wanted.agent, wanted.kind, key


def _find(connection: Connection, wanted: WantedThread) -> str | None:
    query = select(threads.c.id).where(text(f"kind = '{wanted.kind}'"))  # as a literal, for the partial indexes
    if wanted.kind in (MAIN, KEYED):
        query = query.where(threads.c.user_id == wanted.user_id, threads.c.agent == wanted.agent)
        if wanted.kind == KEYED:
            query = query.where(threads.c.subject_key == hash_key(wanted.subject or ""))
    else:
        query = query.where(threads.c.id == wanted.id)
    return connection.execute(query).scalar()


def _make(connection: Connection, wanted: WantedThread) -> str:
    key = hash_key(wanted.subject)
    row = (*wanted[:4], wanted.subject, key, wanted.title, _part(connection, wanted.agent), wanted.at, wanted.at)
    for _ in range(_ATTEMPTS):
        if bulk.insert(connection, threads, _NEW, [row], ignore=True):
            return wanted.id
        if (found := _find(connection, wanted)) is not None:
            return found
        if wanted.kind == DELIVERY:
            raise _DeletionUnfinishedError
        # The other one was deleted just now.
    raise Collision


def _part(connection: Connection, agent: str) -> int:
    """Return the part of a new thread. Two daemons may choose the same one for some threads more."""
    part = connection.execute(select(func.max(threads.c.part)).where(threads.c.agent == agent)).scalar() or 0
    used = select(func.count()).where(threads.c.agent == agent, threads.c.part == part)
    return part + int(connection.execute(used).scalar_one() >= TOGETHER)


def _row(connection: Connection, thread_id: str | None) -> Any:
    if thread_id is None:
        return None
    return connection.execute(select(*threads.c[*_COLUMNS]).where(threads.c.id == thread_id)).first()
