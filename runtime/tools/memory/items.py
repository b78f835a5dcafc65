"""Tools on single items of agents' memories: list, show, edit, forget."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from runtime.errors import Conflict, NotFound, UsageError
from runtime.memory.errors import NoSuchItem, Unsupported
from runtime.memory.item import Item
from runtime.memory.items.copies import forget_copies_of
from runtime.memory.items.newest import newest
from runtime.memory.items.validity import Validity, validity_of
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store import Capability
from runtime.memory.store_types import Position, position_of
from runtime.search.entry import EntryFilter
from runtime.search.index.index import WHOLE_ID
from runtime.tools.context import Context
from runtime.tools.cursor import read_cursor, write_cursor
from runtime.tools.memory import parameters as param
from runtime.tools.memory.access import (
    asked_user,
    memories_of,
    moment,
    named_memories,
    subject_filter,
    user_filter,
    visible_location,
)
from runtime.tools.memory.results import EditedItem, ForgottenItem, ListedItem, MemoryItems, ShownItem
from runtime.tools.patterns import EXAMPLE_ID
from runtime.tools.tool import LARGEST_ITEMS, tool

_FIRST = datetime.min.replace(tzinfo=UTC)
_TICK = timedelta(microseconds=1)


@tool("read", example={"agent": "reviewer", "since": "7d", "limit": 20})
async def memory_list(
    context: Context,
    *,
    limit: param.Newest = 50,
    agent: param.AnyAgent = None,
    type: param.WantedSummary = None,  # noqa: A002 - the word of the design
    tag: param.AnyTag = [],  # noqa: B006 - never changed
    all_tags: param.AllTags = [],  # noqa: B006
    since: param.Since = None,
    until: param.Until = None,
    user: param.User = None,
    subject: param.WantedSubject = None,
    memory: param.MemoryName = None,
    cursor: param.Cursor = None,
) -> MemoryItems:
    """List the items of one agent or of all, newest first.

    Items that were replaced by a newer one or withdrawn are among them, and say so.
    """
    kind, tags = (None, frozenset[str]()) if type is None else param.TYPES[type]
    wanted = EntryFilter(
        agent=agent,
        user=user_filter(context, await asked_user(context, user)),
        type=kind,
        tags_any=frozenset(tag),
        tags_all=tags.union(all_tags),
        since=moment(context, since, "since"),
        until=moment(context, until, "until"),
        subject=subject_filter(context, subject),
    )
    memories = named_memories(context, memory) if agent is None else await memories_of(context, agent, memory)
    last = None if cursor is None else _last_position(*read_cursor(cursor, int, str, str))
    found: list[tuple[Item, OpenMemory]] = []
    for each in memories:
        # One more than the limit shows if there is another page.
        before = None if last is None else _position_in(each, *last)
        found += [(item, each) for item in await newest(each, wanted, limit + 1, before=before)]
    found.sort(key=lambda row: (position_of(row[0]), row[1].name), reverse=True)
    page = found[:limit]
    more = _cursor(*page[-1]) if len(found) > limit else None
    return MemoryItems(items=await _listed_items(page), next_cursor=more)


@tool("read", example={"memory_id": EXAMPLE_ID})
async def memory_show(
    context: Context,
    memory_id: param.MemoryIdOrBeginning,
    agent: param.AnyAgent = None,
    memory: param.MemoryName = None,
) -> ShownItem:
    """Show one item of any memory, and its location."""
    item, where = (await _matches(context, memory_id, agent, memory))[0]
    place = (await where.store.locate([item])).get(item.memory_id)
    file, line = visible_location(context, item.agent_id, place)
    (listed,) = await _listed_items([(item, where)])
    return ShownItem(item=listed, file=file, line=line)


@tool(
    "write",
    stores=True,
    largest=LARGEST_ITEMS,
    destructive=True,
    example={
        "memory_id": EXAMPLE_ID,
        "text": "The API takes 200 requests a minute",
    },
)
async def memory_edit(
    context: Context,
    memory_id: param.MemoryId,
    text: param.NewText,
    memory: param.MemoryOfId = None,
    agent: param.AnyAgent = None,
) -> EditedItem:
    """Replace the text of one item. Its other fields do not change.

    Secrets in the new text are redacted. In a Markdown memory the id depends on the text, so the result has a new one;
    in a collection it stays. Records cannot be changed.
    """
    item, where = await _changeable_item(context, memory_id, agent, memory, "edit")
    await forget_copies_of(context.database, [item])
    try:
        edited = await where.edit(item.memory_id, text, item.agent_id)
    except NoSuchItem:
        raise _not_found(memory_id) from None
    (listed,) = await _listed_items([(edited, where)])
    return EditedItem(item=listed, previous_id=item.memory_id)


@tool("write", destructive=True, example={"memory_id": EXAMPLE_ID})
async def memory_forget(
    context: Context, memory_id: param.MemoryId, memory: param.MemoryOfId = None, agent: param.AnyAgent = None
) -> ForgottenItem:
    """Delete one item permanently. Records cannot be deleted."""
    item, where = await _changeable_item(context, memory_id, agent, memory, "delete")
    await forget_copies_of(context.database, [item])
    try:
        await where.forget(item.memory_id, item.agent_id)
    except NoSuchItem:
        raise _not_found(memory_id) from None
    return ForgottenItem(memory_id=item.memory_id, agent=item.agent_id, memory=where.name)


async def _changeable_item(
    context: Context, memory_id: str, agent: str | None, memory: str | None, capability: Capability
) -> tuple[Item, OpenMemory]:
    """Return the only item with this id, in a store with the capability. Raises NotFound, Conflict, Unsupported."""
    found = await _matches(context, memory_id, agent, memory)
    if len({id(where.store) for _, where in found}) > 1:
        # The same agent may have the same text in several memories: an id depends on the text.
        several = ", ".join(where.name for _, where in found)
        raise Conflict(f"several memories have an item with the id {memory_id}: {several}", hint="name one of them")
    item, where = found[0]
    if capability not in where.store.capabilities:
        able = " and ".join(each.name for each in context.memories.values() if capability in each.store.capabilities)
        raise Unsupported(
            f"the memory {where.name} is append-only: its items cannot be changed or deleted",
            hint=f"those of {able or 'a memory with `store markdown` or `store collection`'} can",
        )
    return item, where


async def _matches(
    context: Context, begins: str, agent: str | None, memory: str | None
) -> Sequence[tuple[Item, OpenMemory]]:
    """Return the item with this id or unique prefix, in every memory that has it; items of other users do not exist
    for the caller. Raises NotFound, and UsageError for several matches."""
    wanted = EntryFilter(agent=agent, user=user_filter(context, None), subject=subject_filter(context))
    found: list[tuple[Item, OpenMemory]] = []
    for each in named_memories(context, memory):
        found += [(item, each) for item in await newest(each, wanted, 2, prefix=begins)]
    if not found:
        raise _not_found(begins)
    if len({item.memory_id for item, _ in found}) > 1:
        raise UsageError(f"several ids begin with {begins}", hint="give a longer one: `symbi memory list` shows ids")
    return found


async def _listed_items(page: Sequence[tuple[Item, OpenMemory]]) -> list[ListedItem]:
    by_memory: dict[str, tuple[OpenMemory, list[Item]]] = {}
    for item, where in page:
        by_memory.setdefault(where.name, (where, []))[1].append(item)
    known = {name: await validity_of(where, items) for name, (where, items) in by_memory.items()}
    return [_listed_item(item, where, known[where.name][item.memory_id]) for item, where in page]


def _listed_item(item: Item, where: OpenMemory, validity: Validity) -> ListedItem:
    newer = validity.replaced_by
    return ListedItem.model_construct(
        **dict(item),
        memory=where.name,
        valid_until=None if newer is None else newer.timestamp,
        replaced_by=None if newer is None else newer.memory_id,
        retracted=validity.retracted,
    )


def _not_found(memory_id: str) -> NotFound:
    which = "the id" if len(memory_id) == WHOLE_ID else "an id that begins with"
    return NotFound(f"there is no item with {which} {memory_id}", hint="an edit of its text gives an item a new id")


def _cursor(item: Item, where: OpenMemory) -> str:
    return write_cursor((item.timestamp - _FIRST) // _TICK, item.memory_id, where.name)


def _last_position(ticks: Any, memory_id: Any, memory: Any) -> tuple[Position, str]:
    """Return the position and the memory of the last item that was listed."""
    try:
        return Position(_FIRST + ticks * _TICK, memory_id), memory
    except OverflowError:
        raise UsageError("the cursor is not from a previous answer", hint="start without a cursor") from None


def _position_in(memory: OpenMemory, last: Position, of: str) -> Position:
    """Return the position after which the list of a memory continues, if the last item is one of the memory `of`.

    Several memories may have an item at the same position; the greatest name comes first."""
    # No id begins with another one, so only the item with this id is added.
    return last._replace(memory_id=f"{last.memory_id}~") if memory.name < of else last
