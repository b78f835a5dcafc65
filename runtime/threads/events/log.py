"""The event log: what happens in the runs of a user's agents, numbered in the order of the commits.

An event is written in the transaction that stores what it tells, so neither exists without the other, and the numbers
of a user have the order in which the transactions end, on all daemons together: who has read up to a number misses
nothing before it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import Connection, Select, delete, func, select, tuple_

from runtime.clock import Clock, milliseconds
from runtime.crypto import KeyForgotten, Unsealable
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import run_event_counts, run_events, runs
from runtime.database.sealed import Seal
from runtime.database.transaction_end import at_end, note_change
from runtime.threads.events.run_event import Data, RunEvent

KEPT_SECONDS: Final = 86_400
"""Seconds for which events are kept."""

PAGE: Final = 200
"""Maximum number of events that are read together."""

CHUNK: Final = 500
"""Maximum number of events that one transaction deletes."""


class StoredEvent(NamedTuple):
    """An event of the log. `number`: of its user, from 1, with gaps. `created_at`: Unix milliseconds."""

    number: int
    run_id: str
    agent: str
    thread_id: str | None
    name: str
    created_at: int
    data: Data


class EventPage(NamedTuple):
    """Events in order. `read_to`: the number up to which all were read. `complete`: there were no more then."""

    events: list[StoredEvent]
    read_to: int
    complete: bool


class NewEvents(NamedTuple):
    """The events of a user that one transaction of this process appended, as those are told who watch `changes_of`:
    without a read, which takes longer than everything else on their way to a client."""

    events: Sequence[tuple[int, str, str, str | None, str, int, bytes]]
    """The fields of `StoredEvent`, with the data as JSON."""

    @property
    def first(self) -> int:
        """Return the number of the first one. Their numbers follow each other."""
        return self.events[0][0]

    @property
    def last(self) -> int:
        """Return the number of the last one."""
        return self.events[-1][0]

    def of(self, run_id: str | None, agent: str | None) -> list[StoredEvent]:
        """Return those of a run, or of an agent, if it is given."""
        return [
            StoredEvent(*event[:6], msgspec.json.decode(event[6]))
            for event in self.events
            if run_id in (None, event[1]) and agent in (None, event[2])
        ]


class Bounds(NamedTuple):
    """The numbers of a user's events: the oldest that is kept, None if none is, and the newest that there ever was."""

    oldest: int | None
    newest: int


class _PendingEvent(NamedTuple):
    event: RunEvent
    seal: Seal
    at: int


_OF_ROW: Final = ("number", "run_id", "agent", "thread_id", "name", "created_at")
_NEW: Final = ("user_id", *_OF_ROW, "key", "content")
PREFIX: Final = "run_events/"


def changes_of(user_id: str) -> str:
    """Return the name under which new events of a user are published, see `Database.changes`."""
    return f"{PREFIX}{user_id}"


class EventLog:
    """The event log of one database. Cheap to create."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._seal = Seal(database.keys, run_events.c.content)

    def append(self, connection: Connection, event: RunEvent) -> None:
        """Append an event in the transaction that stores what it tells: called in `Database.transact`, or in a stage of
        the group commit. Nothing happens if its run is gone, or has an event with this key."""
        at_end(connection, _store, _PendingEvent(event, self._seal, milliseconds(self._clock)))

    def read(
        self,
        connection: Connection,
        user_id: str,
        after: int,
        *,
        run_id: str | None = None,
        agent: str | None = None,
        limit: int = PAGE,
    ) -> EventPage:
        """Return the first events of a user after a number, of one run or of one agent if it is given."""
        newest = _newest(connection, user_id)
        query = select(*run_events.c[*_OF_ROW, "content"]).where(run_events.c.number > after)
        if run_id is not None:
            query = query.where(run_events.c.run_id == run_id)
        query = query.where(run_events.c.user_id == user_id)
        if agent is not None:
            query = query.where(run_events.c.agent == agent)
        rows = connection.execute(query.order_by(run_events.c.number).limit(limit)).all()
        events = [event for row in rows if (event := self._event_of(user_id, row)) is not None]
        if len(rows) == limit:
            return EventPage(events, rows[-1].number, complete=False)
        return EventPage(events, max(newest, after), complete=True)

    async def page(self, user_id: str, after: int, **wanted: Any) -> EventPage:
        """Return a page, see `read`. Raises `Unavailable`."""
        async with self._database.read() as connection:
            return await connection.run_sync(lambda connection: self.read(connection, user_id, after, **wanted))

    async def newest(self, user_id: str, run_id: str) -> tuple[int, str] | None:
        """Return the number and the name of the newest event of a run; None if it has none. Raises `Unavailable`."""
        query = select(run_events.c.number, run_events.c.name)
        query = query.where(run_events.c.run_id == run_id, run_events.c.user_id == user_id)
        async with self._database.read() as connection:
            found = (await connection.execute(query.order_by(run_events.c.number.desc()).limit(1))).first()
        return None if found is None else (found[0], found[1])

    async def bounds(self, user_id: str) -> Bounds:
        """Return the numbers of a user's events. Raises `Unavailable`."""
        oldest = select(func.min(run_events.c.number)).where(run_events.c.user_id == user_id)
        async with self._database.read() as connection:
            newest = await connection.run_sync(_newest, user_id)
            return Bounds(await connection.scalar(oldest), newest)

    def _event_of(self, user_id: str, row: Any) -> StoredEvent | None:
        try:
            content = self._seal.open(row.content, row=str(row.number), user_id=user_id)
        except Unsealable:
            return None
        return StoredEvent(
            row.number, row.run_id, row.agent, row.thread_id, row.name, row.created_at, msgspec.json.decode(content)
        )


def delete_of_threads(connection: Connection, thread_ids: Sequence[str], limit: int) -> int:
    """Delete some events of these threads; return their number, which is `limit` if there may be more."""
    return _delete(connection, select(*_key()).where(run_events.c.thread_id.in_(thread_ids)).limit(limit))


def prune(connection: Connection, now: int) -> bool:
    """Delete some of the events that are older than `KEPT_SECONDS`; False: none are left. `now`: Unix milliseconds."""
    old = select(*_key()).where(run_events.c.created_at < now - KEPT_SECONDS * 1000).limit(CHUNK)
    return _delete(connection, old) == CHUNK


def _delete(connection: Connection, chosen: Select[Any]) -> int:
    return connection.execute(delete(run_events).where(tuple_(*_key()).in_(chosen))).rowcount


def _key() -> tuple[Any, ...]:
    return run_events.c.user_id, run_events.c.number


def _newest(connection: Connection, user_id: str) -> int:
    query = select(run_event_counts.c.newest).where(run_event_counts.c.user_id == user_id)
    return int(connection.execute(query).scalar() or 0)


def _store(connection: Connection, appended: Sequence[_PendingEvent]) -> None:
    """Number and insert the events of one transaction."""
    keys = sorted({(each.event.run_id,) for each in appended})
    owners = {row[0]: row[1:] for row in bulk.find(connection, runs, ("id",), ("user_id", "agent", "thread_id"), keys)}
    by_user: defaultdict[str, list[_PendingEvent]] = defaultdict(list)
    for each in _new(connection, appended):
        if each.event.run_id in owners:
            by_user[owners[each.event.run_id][0]].append(each)
    rows = []
    numbers = _lock_counts(connection, sorted(by_user))
    for user_id, newest in numbers.items():
        new = []
        try:
            for number, (event, seal, at) in enumerate(by_user[user_id], newest + 1):
                data = _encoded(event.data(connection) if callable(event.data) else event.data)
                content = seal.close(data, row=str(number), user_id=user_id)
                _, agent, thread_id = owners[event.run_id]
                rows.append((user_id, number, event.run_id, agent, thread_id, event.name, at, event.key, content))
                new.append((number, event.run_id, agent, thread_id, event.name, at, data))
        except KeyForgotten:
            # The user was removed: nobody reads their events, and what the transaction tells of them is stored.
            continue
        note_change(connection, changes_of(user_id), NewEvents(new))
    bulk.insert(connection, run_events, _NEW, rows)
    counted = [(user_id, newest + len(by_user[user_id])) for user_id, newest in numbers.items()]
    bulk.update(connection, run_event_counts, ("user_id",), ("newest",), counted)


def _encoded(data: Data) -> bytes:
    """Return data as JSON. Lone surrogates, which UTF-8 cannot encode, become U+FFFD."""
    try:
        return msgspec.json.encode(data)
    except UnicodeEncodeError:
        text = json.dumps(data, ensure_ascii=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _new(connection: Connection, appended: Sequence[_PendingEvent]) -> list[_PendingEvent]:
    """Return the events whose keys their runs do not have yet."""
    keys = sorted({(each.event.run_id, each.event.key) for each in appended if each.event.key is not None})
    known = {(row[0], row[1]) for row in bulk.find(connection, run_events, ("run_id", "key"), (), keys)}
    new = []
    for each in appended:
        key = (each.event.run_id, each.event.key)
        if key not in known:
            new.append(each)
            if each.event.key is not None:
                known.add(key)
    return new


def _lock_counts(connection: Connection, user_ids: Sequence[str]) -> dict[str, int]:
    """Lock the counts of these users, in the order of their ids, until the transaction ends."""
    keys = [(user_id,) for user_id in user_ids]
    found = bulk.find(connection, run_event_counts, ("user_id",), ("newest",), keys, lock="UPDATE")
    if len(found) < len(keys):
        missing = sorted(set(user_ids) - {row[0] for row in found})
        bulk.insert(connection, run_event_counts, ("user_id", "newest"), [(each, 0) for each in missing], ignore=True)
        found = bulk.find(connection, run_event_counts, ("user_id",), ("newest",), keys, lock="UPDATE")
    return {row[0]: row[1] for row in sorted(found)}
