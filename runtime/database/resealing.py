"""Sealing again: values that are sealed with a retired key are sealed with the current key of their user, in the
background and in small transactions beside all other writes.

One pass reads the beginnings of all sealed values, table by table in the order of the primary key, and seals again what
is not sealed with the current key. Its place is stored with its writes, so that a killed process goes on there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import uuid4

from sqlalchemy import Column, ColumnElement, Connection, Table, func, select, tuple_

from runtime.clock import Clock, milliseconds
from runtime.crypto import PREFIX_BYTES, KeyForgotten, SealedBytes, Unsealable
from runtime.database import bulk, meta
from runtime.database.connection import Database
from runtime.database.keys import tables as key_tables
from runtime.database.keys.key import Key
from runtime.database.keys.ring import INDEXES
from runtime.database.schema import SEALED_TABLES
from runtime.database.sealed import Seal, Sealed
from runtime.database.text import unescaped

Progress: TypeAlias = Callable[[str, int, int], None]

PAGE: Final = 1000
"""Rows whose beginnings are read at once."""
BATCH: Final = 256
BATCH_BYTES: Final = 1024 * 1024
"""Maximum rows, and bytes except for a single row, of one transaction."""
SETTLED_MS: Final = 600_000
"""Milliseconds after which nothing that was sealed with a key before it was retired is still about to be stored."""
OTHERS_MS: Final = 30_000
"""Milliseconds after which a pass of another daemon that does not go on is taken over."""
_YIELD_SECONDS: Final = 0.005
_LONGEST_YIELD: Final = 200
_PLACE: Final = "resealing"
"""The row of `meta` with the place of the pass."""


class PassState(NamedTuple):
    """A pass: who makes it, when it began and when it last went on (Unix milliseconds), the next row to look at, and
    the numbers of rows seen, values sealed again, rows that could not be locked and values that cannot be opened."""

    daemon: str
    began: int
    at: int
    table: int = 0
    after: tuple[Any, ...] = ()
    seen: int = 0
    moved: int = 0
    left: int = 0
    unreadable: int = 0
    total: int = 0


class SealedTable:
    """The sealed columns of one table, and how their rows are named."""

    def __init__(self, database: Database, table: Table) -> None:
        self.table = table
        self.key: list[Column[Any]] = list(table.primary_key.columns)
        self.columns = [column for column in table.c if isinstance(column.type, Sealed)]
        self._seals = [Seal(database.keys, column) for column in self.columns]
        self._versions = [_version_column(column) for column in self.columns]
        self._names = tuple(column.name for column in self.key)

    def page(self, after: tuple[Any, ...]) -> Any:
        """Return the query for the next rows: their key, user, and of each value its beginning and its length."""
        parts: list[Any] = []
        for column in self.columns:
            parts += [func.substr(column, 1, PREFIX_BYTES), func.length(column)]
        query = select(*self.key, self.table.c.user_id, *parts).order_by(*self.key).limit(PAGE)
        return query.where(self._after(after)) if after else query

    def split(self, row: Sequence[Any]) -> tuple[tuple[Any, ...], str, list[bytes | None], int]:
        """Return the key, the user, the beginnings and the bytes of a row of `page`."""
        width = len(self.key)
        values = row[width + 1 :]
        size = sum(length or 0 for length in values[1::2])
        beginnings = [None if each is None else bytes(each) for each in values[::2]]
        return tuple(row[:width]), unescaped(row[width]), beginnings, size

    def reseal(
        self, connection: Connection, keys: Sequence[tuple[Any, ...]], is_current: Callable[[str, bytes], bool]
    ) -> tuple[int, int, int]:
        """Seal the values of these rows again. Returns how many values were sealed, how many rows could not be locked,
        and how many values could not be opened."""
        versions = [self.table.c[name] for name in dict.fromkeys(filter(None, self._versions))]
        query = select(*self.key, self.table.c.user_id, *versions, *self.columns).where(self._among(keys))
        # A row that another transaction holds is left for the next pass, so this one never waits for a lock.
        rows = connection.execute(query.order_by(*self.key).with_for_update(skip_locked=True)).all()
        moved, unreadable = 0, 0
        for place, column in enumerate(self.columns):
            changed = []
            for row in rows:
                fields = row._mapping
                value = fields[column]
                if value is None or is_current(unescaped(fields[self.table.c.user_id]), bytes(value[:PREFIX_BYTES])):
                    continue
                try:
                    changed.append((*(fields[each] for each in self.key), self._reseal_value(place, value, fields)))
                except (Unsealable, KeyForgotten):
                    unreadable += 1
            bulk.update(connection, self.table, self._names, (column.name,), changed)
            moved += len(changed)
        return moved, len(keys) - len(rows), unreadable

    def _reseal_value(self, place: int, value: bytes, fields: Any) -> SealedBytes:
        seal, version = self._seals[place], self._versions[place]
        given: dict[str, Any] = {
            "row": "/".join(str(fields[each]) for each in self.key if each.name != "user_id"),
            "user_id": unescaped(fields[self.table.c.user_id]),
            "version": None if version is None else fields[self.table.c[version]],
        }
        return seal.close(seal.open(bytes(value), **given), **given)

    def _after(self, after: tuple[Any, ...]) -> ColumnElement[bool]:
        if len(self.key) == 1:
            beyond: ColumnElement[bool] = self.key[0] > after[0]
            return beyond
        return tuple_(*self.key) > tuple_(*after)

    def _among(self, keys: Sequence[tuple[Any, ...]]) -> ColumnElement[bool]:
        if len(self.key) == 1:
            return self.key[0].in_([key[0] for key in keys])
        return tuple_(*self.key).in_(keys)


class Resealing:
    """Seals again what is not sealed with the current keys, and forgets retired keys when nothing needs them.

    `state`: the pass that runs, or the last one.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self.state: PassState | None = None
        self._database = database
        self._clock = clock
        self._daemon = uuid4().hex
        self._tables = [SealedTable(database, table) for table in SEALED_TABLES]
        self._running = asyncio.Lock()

    @property
    def last_pass(self) -> int:
        """Return the start of the last complete pass (Unix milliseconds); 0 before the first."""
        return int(self._database.keys.facts.get(key_tables.PASSED, 0))

    @property
    def waiting(self) -> bool:
        """True if values may be sealed with retired keys."""
        return bool(self._retired_keys())

    def is_due(self) -> bool:
        """True if a pass would move something now, or tell that retired keys are not needed any more."""
        now, passed = milliseconds(self._clock), self.last_pass
        return any(
            passed <= (key.retired_at or 0) or (passed < self._settled_at(key) <= now) for key in self._retired_keys()
        )

    async def run_if_due(self, progress: Progress | None = None) -> None:
        """Make a pass if one is due, and forget the keys that nothing needs any more. Raises `Unavailable`."""
        if self.is_due():
            await self.run_pass(progress)
        await self.forget_unused()

    async def run_pass(self, progress: Progress | None = None) -> PassState | None:
        """Make one pass from here on, or go on with one that was interrupted. None if another daemon makes it."""
        async with self._running:
            state = await self._begin()
            if state is None:
                return None
            while state.table < len(self._tables):
                state = await self._page(state)
                self.state = state
                if progress is not None:
                    progress("sealing again", state.seen, max(state.total, state.seen))
            await self._database.transact(lambda connection: meta.forget(connection, _PLACE))
            if not state.left:
                await asyncio.to_thread(self._record_pass, state)
            return state

    def _record_pass(self, state: PassState) -> None:
        self._database.keys.set_fact(key_tables.PASSED, str(state.began))

    async def forget_unused(self) -> int:
        """Forget the retired keys with which nothing is sealed; return how many."""
        unused = [key for key in self._retired_keys() if self.last_pass >= self._settled_at(key)]
        if unused:
            await asyncio.to_thread(self._database.keys.drop, unused)
        return len(unused)

    def _retired_keys(self) -> list[Key]:
        # Indexes are sealed again by `runtime.memory.indexing.sealing`.
        return [key for key in self._database.keys.retired if key.holder != INDEXES]

    def _settled_at(self, key: Key) -> int:
        return (key.retired_at or 0) + SETTLED_MS

    async def _begin(self) -> PassState | None:
        now = milliseconds(self._clock)

        def begin(connection: Connection) -> PassState | None:
            found = _read_state(meta.lock_value(connection, _PLACE))
            if found is not None and found.daemon != self._daemon and now - found.at < OTHERS_MS and self._is_shared:
                return None
            # A pass that began before the newest retired key would not tell that this one is not needed.
            newest = max((key.retired_at or 0 for key in self._retired_keys()), default=0)
            if found is None or found.began <= newest or found.table >= len(self._tables):
                found = PassState(self._daemon, now, now)
            state = found._replace(daemon=self._daemon, at=now)
            meta.put(connection, _PLACE, _state_json(state))
            return state

        state = await self._database.transact(begin)
        if state is None or state.total:
            return state
        async with self._database.read() as connection:
            counts = [await connection.scalar(select(func.count()).select_from(each.table)) for each in self._tables]
        return state._replace(total=sum(each or 0 for each in counts))

    @property
    def _is_shared(self) -> bool:
        return self._database.kind == "postgresql"

    async def _page(self, state: PassState) -> PassState:
        """Look at one page of rows, and seal again what has to be."""
        sealed = self._tables[state.table]
        async with self._database.read() as connection:
            rows = (await connection.execute(sealed.page(state.after))).all()
        if not rows:
            return state._replace(table=state.table + 1, after=())
        is_current = self._database.keys.is_current
        found = [sealed.split(row) for row in rows]
        old = [
            (key, size)
            for key, user, beginnings, size in found
            if any(each is not None and not is_current(user, each) for each in beginnings)
        ]
        for batch in _batches(old):
            await self._yield()
            began = self._clock.monotonic()
            change = partial(self._reseal, sealed=sealed, batch=batch, state=state)
            state = await self._database.transact(change)
            # Half of the time is left to others.
            await asyncio.sleep(max(_YIELD_SECONDS, self._clock.monotonic() - began))
        return state._replace(seen=state.seen + len(rows), after=found[-1][0])

    def _reseal(
        self, connection: Connection, sealed: SealedTable, batch: Sequence[tuple[Any, ...]], state: PassState
    ) -> PassState:
        done = sealed.reseal(connection, batch, self._database.keys.is_current)
        moved, left, unreadable = done
        state = state._replace(
            at=milliseconds(self._clock),
            moved=state.moved + moved,
            left=state.left + left,
            unreadable=state.unreadable + unreadable,
        )
        meta.put(connection, _PLACE, _state_json(state))
        return state

    async def _yield(self) -> None:
        """Wait while other writes wait for their commit, at most a second."""
        for _ in range(_LONGEST_YIELD):
            if not self._database.commits.depth:
                break
            await asyncio.sleep(_YIELD_SECONDS)


def _batches(rows: Sequence[tuple[tuple[Any, ...], int]]) -> Iterator[list[tuple[Any, ...]]]:
    some: list[tuple[Any, ...]] = []
    size = 0
    for key, length in rows:
        if some and (len(some) == BATCH or size + length > BATCH_BYTES):
            yield some
            some, size = [], 0
        some.append(key)
        size += length
    if some:
        yield some


def _version_column(column: Column[Any]) -> str | None:
    assert isinstance(column.type, Sealed)
    return column.type.version


def _state_json(state: PassState) -> str:
    return json.dumps(state._asdict())


def _read_state(text: str | None) -> PassState | None:
    if text is None:
        return None
    try:
        fields = json.loads(text)
        return PassState(**{**fields, "after": tuple(fields["after"])})
    except (ValueError, TypeError, KeyError):
        return None
