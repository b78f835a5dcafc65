"""Queries of a collection memory in SQL."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Select,
    String,
    and_,
    any_,
    distinct,
    func,
    literal,
    or_,
    select,
    tuple_,
    union,
)
from sqlalchemy.dialects.postgresql import ARRAY

from runtime.crypto import Unsealable
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import item_parts, item_sources, items
from runtime.database.text import escaped, hash_key, unescaped
from runtime.memory.agent_name import legal
from runtime.memory.collection.interface import CollectionCounts
from runtime.memory.collection.parts import TYPES, part_name
from runtime.memory.collection.row_codec import COLUMNS, Codec, tags_of, tags_text, ticks
from runtime.memory.collection.transactions import KEPT
from runtime.memory.item import Item
from runtime.memory.item import chunk_hash as hash_of
from runtime.memory.store_types import Part, Scan, StoreProblem, StoreStats
from runtime.search.entry import ALL_SUBJECTS

PAGE: Final = 256
"""Number of items that are read at once; other tasks wait for that time at most."""


class CollectionQueries:
    """Reads the rows of one collection memory. Every method raises `Unavailable` and `Unsealable`."""

    def __init__(self, database: Database, codec: Codec) -> None:
        self._database = database
        self._codec = codec
        self._memory = codec.memory

    async def scan(self, wanted: Scan) -> AsyncIterator[Item]:
        """Yield the wanted items, agent by agent, oldest first unless `newest_first`."""
        left = wanted.limit
        agents = await self._named(wanted.memory_ids) if wanted.agent_id is None else (legal(wanted.agent_id),)
        for agent in agents:
            async for item in self._of_agent(agent, wanted):
                if left is not None and left <= 0:
                    return
                if wanted.wants(item):
                    left = None if left is None else left - 1
                    yield item
            if left is not None and left <= 0:
                return

    async def _of_agent(self, agent: str, wanted: Scan) -> AsyncIterator[Item]:
        """Yield the rows that SQL finds, page by page. They are a superset: SQL does not distinguish `A` from `a` in a
        tag."""
        query = select(*items.c[*COLUMNS]).where(*_conditions(self._memory, agent, wanted))
        if wanted.memory_ids:
            query = query.where(self._among(wanted.memory_ids))
        # A source has few items: SQLite must not scan all of them only because they are ordered.
        order = (items.c.timestamp + 0 if wanted.source_uri is not None else items.c.timestamp, items.c.id)
        query = query.order_by(*(column.desc() if wanted.newest_first else column for column in order))
        size = PAGE if wanted.limit is None else min(PAGE, max(1, wanted.limit))
        last: tuple[int, str] | None = None
        while True:
            page = query.limit(size)
            if last is not None:
                place = tuple_(*order)
                page = page.where(place < last if wanted.newest_first else place > last)
            rows, others = await self._with_sources(page)
            for row in rows:
                yield self._codec.item(row, others[row.id])
            if len(rows) < size:
                return
            last, size = (rows[-1].timestamp, rows[-1].id), PAGE

    async def parts(self, agent: str | None) -> tuple[Part, ...]:
        """Return every part that is not empty."""
        there = item_parts.c
        query = select(there.agent_id, there.part, there.revision).where(
            there.memory == self._memory, or_(*(there[name] > 0 for name in TYPES))
        )
        if agent is not None:
            query = query.where(there.agent_id == legal(agent))
        rows = await self._rows(query.order_by(there.agent_id, there.part))
        return tuple(Part(part_name(row.agent_id, row.part), row.agent_id, row.revision) for row in rows)

    async def items_of(self, part: Part) -> list[Item]:
        """Return the items of a part in the order of their insertion."""
        number = part.name.removeprefix(f"{part.agent_id}/")
        if not number.isdecimal():
            return []
        query = select(*items.c[*COLUMNS]).where(
            items.c.memory == self._memory, items.c.part == int(number), items.c.agent_id == part.agent_id
        )
        rows, others = await self._with_sources(query.order_by(items.c.position))
        return [self._codec.item(row, others[row.id]) for row in rows]

    async def stats(self, agent: str | None) -> StoreStats:
        """Return agents, bytes, and the days of the oldest and the newest item."""
        there = item_parts.c
        owned = _owned(item_parts, self._memory, agent)
        query = select(func.count(distinct(there.agent_id)), func.coalesce(func.sum(there.bytes), 0)).where(*owned)
        ((agents, size),) = await self._rows(query)
        times = select(func.min(items.c.timestamp), func.max(items.c.timestamp))
        ((oldest, newest),) = await self._rows(times.where(*_owned(items, self._memory, agent)))
        return StoreStats(agents=agents, files=0, bytes=int(size), oldest=_day(oldest), newest=_day(newest))

    async def kept(self, agent: str, until: int) -> int:
        """Count this agent's entries from before `until` (Unix microseconds) that compaction could not promote
        completely."""
        expired = items.c.memory_type == "episodic", items.c.compacted == KEPT, items.c.timestamp < until
        ((count,),) = await self._rows(
            select(func.count()).select_from(items).where(*_owned(items, self._memory, agent), *expired)
        )
        return int(count)

    async def agents(self) -> tuple[str, ...]:
        """Return the names of all collections, empty ones included."""
        query = select(item_parts.c.agent_id).where(item_parts.c.memory == self._memory).distinct()
        return tuple(row.agent_id for row in await self._rows(query.order_by(item_parts.c.agent_id)))

    async def _named(self, memory_ids: Set[str]) -> tuple[str, ...]:
        """Return the names of all collections, or only of those that have these items."""
        if not memory_ids:
            return await self.agents()
        query = select(items.c.agent_id).where(items.c.memory == self._memory, self._among(memory_ids)).distinct()
        return tuple(sorted(row.agent_id for row in await self._rows(query)))

    def _among(self, memory_ids: Set[str]) -> ColumnElement[bool]:
        """Return a condition for these ids, which may be more than a statement takes parameters."""
        wanted = sorted(memory_ids)
        if self._database.kind == "postgresql":
            return items.c.id == any_(literal(wanted, ARRAY(String)))
        if len(wanted) <= bulk.PARAMETERS:
            return items.c.id.in_(wanted)
        # Not for a few: SQLite would use this list in place of the index of ids.
        return items.c.id.in_(select(func.json_each(json.dumps(wanted)).table_valued("value").c.value))

    async def counts(self, agent: str | None, user: str | None) -> tuple[CollectionCounts, ...]:
        """Count the items of every collection, empty ones included; of a user only collections that the user created or
        has items in."""
        there = item_parts.c
        sums = [func.sum(there[name]).label(name) for name in (*TYPES, "bytes")]
        query = select(there.agent_id, *sums).where(*_owned(item_parts, self._memory, agent, user))
        rows = await self._rows(query.group_by(there.agent_id).order_by(there.agent_id))
        return tuple(CollectionCounts(name, *(int(value) for value in values)) for name, *values in rows)

    async def projects(self, agent: str | None, user: str | None) -> Counter[str | None]:
        """Count the items of every project_id."""
        query = select(items.c.project_id, func.count()).where(*_owned(items, self._memory, agent, user))
        rows = await self._rows(query.group_by(items.c.project_id))
        return Counter({None if name is None else unescaped(name): count for name, count in rows})

    async def tags(self, agent: str | None, user: str | None, project: str | None) -> Counter[str]:
        """Count the items with each tag, of a project or of all."""
        query = select(items.c.tags, func.count()).where(*_owned(items, self._memory, agent, user))
        if project is not None:
            query = query.where(items.c.project_id == escaped(project))
        found: Counter[str] = Counter()
        for tags, count in await self._rows(query.group_by(items.c.tags)):
            found.update(dict.fromkeys(tags_of(tags), count))
        return found

    async def verify(self, agent: str | None) -> tuple[int, tuple[StoreProblem, ...]]:
        """Read everything. Returns the number of parts, and what is damaged."""
        problems: list[StoreProblem] = []
        parts = await self.parts(agent)
        for part in parts:
            problems += await self._verified(part)
        return len(parts), tuple(problems)

    async def _verified(self, part: Part) -> list[StoreProblem]:
        name = f"{self._memory}/{part.name}"
        number = int(part.name.removeprefix(f"{part.agent_id}/"))
        here = and_(items.c.memory == self._memory, items.c.part == number)
        rows = await self._rows(select(*items.c[*COLUMNS]).where(here).order_by(items.c.position))
        problems = [problem for row in rows if (problem := self._checked(name, row)) is not None]
        there = and_(item_parts.c.memory == self._memory, item_parts.c.part == number)
        noted = await self._rows(select(*item_parts.c[*TYPES, "revision"]).where(there))
        if not noted or noted[0].revision != part.revision:
            return problems  # It was written in the meantime.
        counted = Counter(row.memory_type for row in rows)
        if any(counted[kind] != getattr(noted[0], kind) for kind in TYPES):
            expected = sum(getattr(noted[0], kind) for kind in TYPES)
            problems.append(StoreProblem(name, f"it should hold {expected} items and holds {len(rows)}"))
        return problems

    def _checked(self, name: str, row: Any) -> StoreProblem | None:
        try:
            item = self._codec.item(row)
        except Unsealable as error:
            return StoreProblem(name, f"the item {row.id} cannot be decrypted: {error}")
        if hash_of(item.text) != row.chunk_hash:
            return StoreProblem(name, f"the text of the item {row.id} does not match its chunk_hash")
        return None

    async def _with_sources(self, query: Select[Any]) -> tuple[Sequence[Any], Mapping[str, Sequence[str]]]:
        """Return the rows of items, no more than a statement takes parameters, and their other sources by id."""
        rows = await self._rows(query)
        others: dict[str, list[str]] = defaultdict(list)
        there = item_sources.c
        of_these = there.memory == self._memory, there.item_id.in_([row.id for row in rows])
        if rows:
            async with self._database.read() as connection:
                for each in await connection.execute(select(there.item_id, there.source_uri).where(*of_these)):
                    others[each.item_id].append(each.source_uri)
        return rows, others

    async def _rows(self, query: Select[Any]) -> Sequence[Any]:
        async with self._database.read() as connection:
            found: Sequence[Any] = (await connection.execute(query)).all()
            return found


def _owned(table: Any, memory: str, agent: str | None, user: str | None = None) -> list[ColumnElement[bool]]:
    conditions = [table.c.memory == memory]
    if agent is not None:
        conditions.append(table.c.agent_id == legal(agent))
    if user is not None:
        conditions.append(table.c.user_id == escaped(user))
    return conditions


def _conditions(memory: str, agent: str, wanted: Scan) -> list[ColumnElement[bool]]:
    column = items.c
    found = _owned(items, memory, agent, wanted.user_id)
    if wanted.project_id is not None:
        found.append(column.project_id == escaped(wanted.project_id))
    if wanted.memory_type is not None:
        found.append(column.memory_type == wanted.memory_type)
    if wanted.source_uri is not None:
        found.append(column.id.in_(_from(memory, agent, wanted)))
    if wanted.since is not None:
        found.append(column.timestamp >= ticks(wanted.since.astimezone(UTC)))
    if wanted.until is not None:
        found.append(column.timestamp < ticks(wanted.until.astimezone(UTC)))
    found += [_tagged(tag) for tag in sorted(wanted.tags)]
    if wanted.tags_any:
        found.append(or_(*map(_tagged, sorted(wanted.tags_any))))
    return [*found, *_origin_conditions(wanted)]


def _origin_conditions(wanted: Scan) -> list[ColumnElement[bool]]:
    column = items.c
    found: list[ColumnElement[bool]] = []
    if wanted.subject is not ALL_SUBJECTS:
        found.append(column.subject_key.is_not_distinct_from(hash_key(wanted.subject)))
    if wanted.run_id is not None:
        found.append(column.run_id == escaped(wanted.run_id))
    if wanted.chunk_hash is not None:
        found.append(column.chunk_hash == wanted.chunk_hash)
    if wanted.changes_of:
        named = sorted(map(escaped, wanted.changes_of))
        found.append(or_(column.replaces.in_(named), column.retracts.in_(named)))
    if wanted.changes:
        found.append(or_(column.replaces.is_not(None), column.retracts.is_not(None)))
    return found


def _from(memory: str, agent: str, wanted: Scan) -> CompoundSelect[Any]:
    """Select the ids of items from a source."""
    key, there = hash_key(wanted.source_uri), item_sources.c
    first = select(items.c.id).where(*_owned(items, memory, agent, wanted.user_id), items.c.source_key == key)
    return union(first, select(there.item_id).where(there.memory == memory, there.source_key == key))


def _tagged(tag: str) -> ColumnElement[bool]:
    """Return a condition for a list of tags that may contain this one, by its JSON text."""
    return items.c.tags.contains(tags_text((tag,))[1:-1], autoescape=True)


def _day(time: int | None) -> date | None:
    return None if time is None else (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)).date()
