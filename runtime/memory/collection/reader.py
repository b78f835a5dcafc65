"""The reading half of a collection memory: its queries in SQL."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, NamedTuple

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

from runtime.clock import Clock, utc
from runtime.crypto import Unsealable
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import item_parts, item_sources, items
from runtime.database.text import escaped, hash_key
from runtime.memory.collection.errors import store_errors
from runtime.memory.collection.markdown_view import MOST, inspection
from runtime.memory.collection.parts import TYPES, part_name
from runtime.memory.collection.row_codec import COLUMNS, Codec, tags_of, tags_text, ticks, unescaped_or_none
from runtime.memory.item import Item, valid_agent
from runtime.memory.item import chunk_hash as hash_of
from runtime.memory.store import Store
from runtime.memory.store_types import (
    Inspection,
    ItemLocation,
    Part,
    Scan,
    StoreProblem,
    StoreStats,
    position_of,
)
from runtime.search.entry import ALL_SUBJECTS

PAGE: Final = 256
"""Number of items that are read at once; other tasks wait for that time at most."""


class CollectionCounts(NamedTuple):
    """A collection: how many items of each type it has, of all users or of one, and the bytes of their content."""

    name: str
    episodic: int
    semantic: int
    procedural: int
    bytes: int

    @property
    def items(self) -> int:
        """Return the number of its items."""
        return self.episodic + self.semantic + self.procedural


class CollectionReader(Store):
    """A collection memory whose items are read. The agents of the store are collections."""

    def __init__(self, memory: str, database: Database, clock: Clock) -> None:
        """`memory`: the name of the memory, by which its rows are found."""
        super().__init__(clock)
        self.name = memory
        self._database = database
        self._codec = Codec(memory, database.keys)

    @property
    def identity(self) -> str:
        return f"collection:{self._database.id}/{self.name}"

    @property
    def index_keys(self) -> Sequence[bytes]:
        return self._database.keys.index_keys(self.identity)

    async def scan(self, wanted: Scan | None = None) -> AsyncIterator[Item]:
        wanted = wanted or Scan()
        left = wanted.limit
        only = None if wanted.agent_id is None else (valid_agent(wanted.agent_id),)
        for agent in only or await self._agents_with(wanted.memory_ids):
            async for item in self._agent_items(agent, wanted):
                if left is not None and left <= 0:
                    return
                if wanted.wants(item):
                    left = None if left is None else left - 1
                    yield item
            if left is not None and left <= 0:
                return

    async def _agent_items(self, agent: str, wanted: Scan) -> AsyncIterator[Item]:
        """Yield the items that SQL finds, page by page. They are a superset: SQL does not distinguish `A` from `a` in a
        tag."""
        query = select(*items.c[*COLUMNS]).where(*_conditions(self.name, agent, wanted))
        if wanted.memory_ids:
            query = query.where(self._id_condition(wanted.memory_ids))
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
            found = await self._items(page)
            for item in found:
                yield item
            if len(found) < size:
                return
            last, size = (ticks(found[-1].timestamp), found[-1].memory_id), PAGE

    async def parts(self, agent_id: str | None = None) -> tuple[Part, ...]:
        there = item_parts.c
        held = or_(*(there[name] > 0 for name in TYPES))
        query = select(there.agent_id, there.part, there.revision).where(*_scope(item_parts, self.name, agent_id), held)
        rows = await self._rows(query.order_by(there.agent_id, there.part))
        return tuple(Part(part_name(row.agent_id, row.part), row.agent_id, row.revision) for row in rows)

    async def read(self, part: Part) -> Sequence[tuple[Item, ItemLocation | None]]:
        number = part.name.removeprefix(f"{part.agent_id}/")
        if not number.isdecimal():
            return []
        query = select(*items.c[*COLUMNS]).where(
            items.c.memory == self.name, items.c.part == int(number), items.c.agent_id == part.agent_id
        )
        return [(item, None) for item in await self._items(query.order_by(items.c.position))]

    async def stats(self, agent_id: str | None = None) -> StoreStats:
        there = item_parts.c
        scope = _scope(item_parts, self.name, agent_id)
        query = select(func.count(distinct(there.agent_id)), func.coalesce(func.sum(there.bytes), 0)).where(*scope)
        ((agents, size),) = await self._rows(query)
        times = select(func.min(items.c.timestamp), func.max(items.c.timestamp))
        ((oldest, newest),) = await self._rows(times.where(*_scope(items, self.name, agent_id)))
        return StoreStats(agents=agents, files=0, bytes=int(size), oldest=_day(oldest), newest=_day(newest))

    async def agents(self) -> tuple[str, ...]:
        query = select(item_parts.c.agent_id).where(item_parts.c.memory == self.name).distinct()
        return tuple(row.agent_id for row in await self._rows(query.order_by(item_parts.c.agent_id)))

    async def _agents_with(self, memory_ids: Set[str]) -> tuple[str, ...]:
        """Return the names of all collections, or only of those that have these items."""
        if not memory_ids:
            return await self.agents()
        query = select(items.c.agent_id).where(items.c.memory == self.name, self._id_condition(memory_ids)).distinct()
        return tuple(sorted(row.agent_id for row in await self._rows(query)))

    def _id_condition(self, memory_ids: Set[str]) -> ColumnElement[bool]:
        """Return a condition for these ids, which may be more than a statement takes parameters."""
        wanted = sorted(memory_ids)
        if self._database.kind == "postgresql":
            return items.c.id == any_(literal(wanted, ARRAY(String)))
        if len(wanted) <= bulk.PARAMETERS:
            return items.c.id.in_(wanted)
        # Not for a few: SQLite would use this list in place of the index of ids.
        return items.c.id.in_(select(func.json_each(json.dumps(wanted)).table_valued("value").c.value))

    async def counts(self, agent_id: str | None = None, user_id: str | None = None) -> tuple[CollectionCounts, ...]:
        """Count the items of every collection or of one, empty ones included; with `user_id` only that user's items, in
        collections that the user created or has items in. Cheap. Raises StoreError."""
        there = item_parts.c
        sums = [func.sum(there[name]).label(name) for name in (*TYPES, "bytes")]
        query = select(there.agent_id, *sums).where(*_scope(item_parts, self.name, agent_id, user_id))
        rows = await self._rows(query.group_by(there.agent_id).order_by(there.agent_id))
        return tuple(CollectionCounts(name, *(int(value) for value in values)) for name, *values in rows)

    async def projects(self, agent_id: str | None = None, user_id: str | None = None) -> Counter[str | None]:
        """Count the items of every project_id, in a collection or in all, of one user or of all. Raises StoreError."""
        query = select(items.c.project_id, func.count()).where(*_scope(items, self.name, agent_id, user_id))
        rows = await self._rows(query.group_by(items.c.project_id))
        return Counter({unescaped_or_none(name): count for name, count in rows})

    async def tags(
        self, agent_id: str | None = None, user_id: str | None = None, project_id: str | None = None
    ) -> Counter[str]:
        """Count the items with each tag, in a collection or in all, of one user and project or of all. Raises
        StoreError."""
        query = select(items.c.tags, func.count()).where(*_scope(items, self.name, agent_id, user_id))
        if project_id is not None:
            query = query.where(items.c.project_id == escaped(project_id))
        found: Counter[str] = Counter()
        for tags, count in await self._rows(query.group_by(items.c.tags)):
            found.update(dict.fromkeys(tags_of(tags), count))
        return found

    async def locate(self, items: Sequence[Item]) -> dict[str, ItemLocation]:
        return {}

    async def inspect(self, agent_id: str, day: date | None = None) -> Inspection:
        now = utc(self._clock.now())
        day = day or now.date()
        begin = datetime.combine(day, time(), UTC)
        mine = Scan(agent_id=valid_agent(agent_id), newest_first=True, limit=MOST + 1)
        today = {"memory_type": "episodic", "since": begin, "until": begin + timedelta(days=1)}
        long_term = await self._newest(mine, {"memory_type": "semantic"}, {"memory_type": "procedural"})
        return inspection(self.name, agent_id, day, long_term, await self._newest(mine, today), now)

    async def _newest(self, mine: Scan, *kinds: Mapping[str, Any]) -> list[Item]:
        """Return the items of scans with these fields, oldest first."""
        found = [item for kind in kinds async for item in self.scan(mine.model_copy(update=kind))]
        return sorted(found, key=position_of)

    async def ready(self) -> tuple[StoreProblem, ...]:
        try:
            async with self._database.read():
                return ()
        except Unavailable as error:
            return (StoreProblem(self.identity, error.line()),)

    async def verify(self, agent_id: str | None = None) -> tuple[int, tuple[StoreProblem, ...]]:
        parts = await self.parts(agent_id)
        return len(parts), tuple([problem for part in parts for problem in await self._problems_of_part(part)])

    async def _problems_of_part(self, part: Part) -> list[StoreProblem]:
        name = f"{self.name}/{part.name}"
        number = int(part.name.removeprefix(f"{part.agent_id}/"))
        here = and_(items.c.memory == self.name, items.c.part == number)
        rows = await self._rows(select(*items.c[*COLUMNS]).where(here).order_by(items.c.position))
        problems = [problem for row in rows if (problem := self._problem_of_row(name, row)) is not None]
        there = and_(item_parts.c.memory == self.name, item_parts.c.part == number)
        noted = await self._rows(select(*item_parts.c[*TYPES, "revision"]).where(there))
        if not noted or noted[0].revision != part.revision:
            return problems  # It was written in the meantime.
        counted = Counter(row.memory_type for row in rows)
        if any(counted[kind] != getattr(noted[0], kind) for kind in TYPES):
            expected = sum(getattr(noted[0], kind) for kind in TYPES)
            problems.append(StoreProblem(name, f"it should hold {expected} items and holds {len(rows)}"))
        return problems

    def _problem_of_row(self, name: str, row: Any) -> StoreProblem | None:
        try:
            item = self._codec.item(row)
        except Unsealable as error:
            return StoreProblem(name, f"the item {row.id} cannot be decrypted: {error}")
        if hash_of(item.text) != row.chunk_hash:
            return StoreProblem(name, f"the text of the item {row.id} does not match its chunk_hash")
        return None

    async def _items(self, query: Select[Any]) -> list[Item]:
        """Return the items of these rows, which are no more than a statement takes parameters."""
        rows = await self._rows(query)
        if not rows:
            return []
        there = item_sources.c
        of_these = there.memory == self.name, there.item_id.in_([row.id for row in rows])
        others: dict[str, list[str]] = defaultdict(list)
        for each in await self._rows(select(there.item_id, there.source_uri).where(*of_these)):
            others[each.item_id].append(each.source_uri)
        with store_errors(self.name):
            return [self._codec.item(row, others[row.id]) for row in rows]

    async def _rows(self, query: Select[Any]) -> Sequence[Any]:
        with store_errors(self.name):
            async with self._database.read() as connection:
                found: Sequence[Any] = (await connection.execute(query)).all()
                return found


def _scope(table: Any, memory: str, agent: str | None, user: str | None = None) -> list[ColumnElement[bool]]:
    conditions = [table.c.memory == memory]
    if agent is not None:
        conditions.append(table.c.agent_id == valid_agent(agent))
    if user is not None:
        conditions.append(table.c.user_id == escaped(user))
    return conditions


def _conditions(memory: str, agent: str, wanted: Scan) -> list[ColumnElement[bool]]:
    column = items.c
    found = _scope(items, memory, agent, wanted.user_id)
    if wanted.project_id is not None:
        found.append(column.project_id == escaped(wanted.project_id))
    if wanted.memory_type is not None:
        found.append(column.memory_type == wanted.memory_type)
    if wanted.source_uri is not None:
        found.append(column.id.in_(_ids_from_source(memory, agent, wanted)))
    if wanted.since is not None:
        found.append(column.timestamp >= ticks(wanted.since.astimezone(UTC)))
    if wanted.until is not None:
        found.append(column.timestamp < ticks(wanted.until.astimezone(UTC)))
    found += [_tag_condition(tag) for tag in sorted(wanted.tags)]
    if wanted.tags_any:
        found.append(or_(*map(_tag_condition, sorted(wanted.tags_any))))
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


def _ids_from_source(memory: str, agent: str, wanted: Scan) -> CompoundSelect[Any]:
    """Select the ids of items from a source."""
    key, there = hash_key(wanted.source_uri), item_sources.c
    first = select(items.c.id).where(*_scope(items, memory, agent, wanted.user_id), items.c.source_key == key)
    return union(first, select(there.item_id).where(there.memory == memory, there.source_key == key))


def _tag_condition(tag: str) -> ColumnElement[bool]:
    """Return a condition for a list of tags that may contain this one, by its JSON text."""
    return items.c.tags.contains(tags_text((tag,))[1:-1], autoescape=True)


def _day(time: int | None) -> date | None:
    return None if time is None else (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)).date()
