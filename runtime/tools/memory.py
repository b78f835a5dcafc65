"""What agents remember: looked for, listed, shown, and read as it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from heapq import nlargest
from typing import Any

from runtime.clock import utc
from runtime.errors import NotFound, UsageError
from runtime.memory import Item, Scan
from runtime.memory.opened import FoundHit, OpenMemory
from runtime.search.engine import BY_KEYWORD
from runtime.search.entry import Filter
from runtime.tools.context import Context
from runtime.tools.cursor import read_cursor, write_cursor
from runtime.tools.memory_access import kept, named, places, sees_all, shown, tags_of, user_filter
from runtime.tools.memory_types import (
    TYPES,
    Agent,
    AllTags,
    AnyAgent,
    AnyTag,
    Cursor,
    Day,
    Hits,
    Inspected,
    MemoryFile,
    MemoryHit,
    MemoryHits,
    MemoryId,
    MemoryItems,
    MemoryName,
    Newest,
    Project,
    Query,
    ShownItem,
    Since,
    Source,
    Until,
    User,
    Wanted,
)
from runtime.tools.moments import read_moment

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\Z", re.ASCII)
_WINDOWS = (timedelta(days=1), timedelta(days=8), timedelta(days=64), timedelta(days=512))
"""How far back the newest items are looked for before everything is read."""
_EPOCH = datetime.min.replace(tzinfo=UTC)
_TICK = timedelta(microseconds=1)


async def memory_search(
    context: Context,
    agent: Agent,
    query: Query,
    *,
    limit: Hits = 10,
    type: Wanted = None,  # noqa: A002 - the word of the design
    tag: AnyTag = [],  # noqa: B006 - nobody changes it
    all_tags: AllTags = [],  # noqa: B006
    since: Since = None,
    until: Until = None,
    project: Project = None,
    source: Source = None,
    user: User = None,
    memory: MemoryName = None,
) -> MemoryHits:
    """Search what an agent remembers, by meaning and by words.

    `parts` of a hit say what meaning (`vector`), words (`keyword`), what stands around it (`neighbours`), its `author`
    and its `date` added to its score. `notes` say what there is to know, for instance that nothing made vectors.
    """
    kind, tags = (None, frozenset[str]()) if type is None else TYPES[type]
    wanted = Filter(
        agent=agent,
        type=kind,
        user=user_filter(context, user),
        project=project,
        source=source,
        tags_any=frozenset(tag),
        tags_all=tags_of(all_tags, tags),
        since=_moment(context, since, "since"),
        until=_moment(context, until, "until"),
    )
    now = utc(context.house.clock.now())
    hits: list[tuple[OpenMemory, FoundHit]] = []
    notes: dict[str, None] = {}
    for each in await places(context, agent, memory):
        found = await each.search(each.question(query, now=now, limit=limit, wanted=wanted))
        hits += [(each, hit) for hit in found.hits]
        notes.update(dict.fromkeys(shown_notes(context, each, found.notes)))
    best = sorted(hits, key=lambda pair: -pair[1].score)[:limit]
    return MemoryHits(hits=[_hit(context, where, hit) for where, hit in best], notes=list(notes))


async def memory_list(
    context: Context,
    *,
    limit: Newest = 50,
    agent: AnyAgent = None,
    type: Wanted = None,  # noqa: A002
    all_tags: AllTags = [],  # noqa: B006
    since: Since = None,
    until: Until = None,
    user: User = None,
    memory: MemoryName = None,
    cursor: Cursor = None,
) -> MemoryItems:
    """List what is remembered, newest first, of one agent or of all."""
    kind, tags = (None, frozenset[str]()) if type is None else TYPES[type]
    wanted = Scan(
        agent_id=agent,
        user_id=user_filter(context, user),
        memory_type=kind,
        tags=tags_of(all_tags, tags),
        since=_moment(context, since, "since"),
        until=_moment(context, until, "until"),
    )
    memories = named(context, memory) if agent is None else await places(context, agent, memory)
    before: Any = None if cursor is None else read_cursor(cursor, int, str)
    # One more than asked for tells whether there is another page.
    found = await _newest(context, memories, wanted, limit + 1, before)
    page = found[:limit]
    more = write_cursor(*page[-1][0]) if len(found) > limit else None
    return MemoryItems(items=[kept(item, where) for _, item, where in page], next_cursor=more)


async def memory_show(
    context: Context, memory_id: MemoryId, agent: AnyAgent = None, memory: MemoryName = None
) -> ShownItem:
    """Show one item, wherever it is kept, and where it stands."""
    ids = frozenset({memory_id})
    wanted = Scan(agent_id=agent, user_id=user_filter(context, None), memory_ids=ids, limit=1)
    for each in named(context, memory):
        async for item in each.store.scan(wanted):
            place = (await each.store.locate([item])).get(memory_id)
            file, line = shown(context, item.agent_id, place)
            return ShownItem(item=kept(item, each), file=file, line=line)
    raise NotFound(f"nothing with the id {memory_id} is remembered", hint="an edit of its text gives an item a new id")


async def memory_inspect(context: Context, agent: Agent, day: Day = None, memory: MemoryName = None) -> Inspected:
    """Show an agent's memory and the log of a day as they stand in the files."""
    wanted = _day(context, day)
    where = (await places(context, agent, memory))[0]
    seen = await where.store.inspect(agent, wanted)
    return Inspected(
        agent=agent,
        name=where.name,
        memory=MemoryFile(path=seen.memory_file, text=seen.memory),
        log=MemoryFile(path=seen.log_file, text=seen.log),
    )


_Key = tuple[int, str]
"""What the order of a list goes by: the item's time and its id."""
_Row = tuple[_Key, Item, OpenMemory]


async def _newest(
    context: Context, memories: list[OpenMemory], wanted: Scan, limit: int, before: _Key | None
) -> list[_Row]:
    """The newest items older than `before`. Logs are read no further back than it takes to find as many."""
    last = None if before is None else _time(before[0] + 1)
    if last is not None and (wanted.until is None or last < wanted.until):
        wanted = wanted.model_copy(update={"until": last})
    begin = wanted.until or utc(context.house.clock.now())
    for window in _WINDOWS:
        since = begin - window if begin - _EPOCH > window else _EPOCH
        if wanted.since is not None and since <= wanted.since:
            break
        found = await _rows(memories, wanted.model_copy(update={"since": since}), before)
        if len(found) >= limit:
            return nlargest(limit, found, key=_first)
    return nlargest(limit, await _rows(memories, wanted, before), key=_first)


async def _rows(memories: list[OpenMemory], wanted: Scan, before: _Key | None) -> list[_Row]:
    found = []
    for each in memories:
        async for item in each.store.scan(wanted):
            key = (item.timestamp - _EPOCH) // _TICK, item.memory_id
            if before is None or key < before:
                found.append((key, item, each))
    return found


def _first(row: _Row) -> _Key:
    return row[0]


def _time(ticks: int) -> datetime:
    try:
        return _EPOCH + ticks * _TICK
    except OverflowError:
        raise UsageError("the cursor is not one that a list answered", hint="begin without one") from None


def shown_notes(context: Context, memory: OpenMemory, notes: Iterable[str]) -> Iterator[str]:
    """The notes as the caller may see them: where files and services are is the administrator's matter."""
    for note in notes:
        if sees_all(context):
            yield note
        elif note.startswith(BY_KEYWORD):
            yield BY_KEYWORD
        else:
            yield note if memory.folder is None else note.replace(f"{memory.folder}/", "")


def _hit(context: Context, where: OpenMemory, hit: FoundHit) -> MemoryHit:
    file, line = shown(context, hit.item.agent_id, hit.place)
    return MemoryHit(item=kept(hit.item, where), score=hit.score, parts=dict(hit.parts), file=file, line=line)


def _moment(context: Context, text: str | None, name: str) -> datetime | None:
    return None if text is None else read_moment(text, name, context.house.clock)


def _day(context: Context, given: str | None) -> date:
    if given is None:
        return utc(context.house.clock.now()).date()
    try:
        if not _DAY.match(given):
            raise ValueError
        return date.fromisoformat(given)
    except ValueError:
        raise UsageError(f"{given!r} is not a day", hint="write YYYY-MM-DD") from None
