"""`get`, `update` and `forget`: single items of collections, by their ids."""

from __future__ import annotations

from runtime.errors import NotFound, UsageError
from runtime.memory.errors import NoSuchItem
from runtime.memory.item import Item
from runtime.memory.items.copies import forget_copies_of
from runtime.memory.keyed_lock import KeyedLock
from runtime.memory.store import LARGEST_TEXT
from runtime.tools.collection import types
from runtime.tools.collection.access import Collection, collection_memories
from runtime.tools.context import Context
from runtime.tools.failure import wrong
from runtime.tools.memory.access import subject_filter, user_filter
from runtime.tools.patterns import EXAMPLE_ID
from runtime.tools.tool import LARGEST_ITEMS, tool

_turns = KeyedLock()


@tool("read", example={"memory_id": EXAMPLE_ID})
async def get(context: Context, memory_id: types.ItemId) -> types.KeptMemory:
    """Show one item of a collection, and its origin."""
    item, _ = await _find_item(context, memory_id)
    return _kept_memory(item)


@tool(
    "write",
    stores=True,
    largest=LARGEST_ITEMS,
    idempotent=True,
    destructive=True,
    example={"memory_id": EXAMPLE_ID, "tags": ["architecture", "decided"]},
)
async def update(
    context: Context,
    memory_id: types.ItemId,
    *,
    text: types.NewText = None,
    tags: types.Tags = None,
    project_id: types.Project = None,
    memory_type: types.Type = None,
    source_uri: types.SourceUri = None,
) -> types.KeptMemory:
    """Change the text or the fields of one item of a collection.

    Omitted fields stay, and so do its id, its time and its origin. An empty list of tags removes all tags. Secrets in
    the new text are redacted. A text that another item has already is refused, and that item is named.
    """
    given = {
        "text": text,
        "tags": None if tags is None else tuple(tags),
        "project_id": project_id,
        "memory_type": memory_type,
        "source_uri": source_uri,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise UsageError("there is nothing to change", hint=f"give one or more of {', '.join(given)}")
    if text is not None:
        if not text.strip():
            raise wrong("text", "it is blank", hint="`forget` deletes the whole item", example="The API has no limit")
        if len(text) > LARGEST_TEXT:
            raise wrong("text", f"it has {len(text):,} characters; the maximum is {LARGEST_TEXT:,}")
        changes["chunk_hash"] = ""
    # Two concurrent updates would overwrite each other's changes.
    async with _turns.of(memory_id):
        item, where = await _find_item(context, memory_id)
        try:
            return _kept_memory(await where.memory.replace(item.with_fields(**changes)))
        except NoSuchItem:
            raise _not_found(memory_id) from None


@tool("write", idempotent=True, destructive=True, example={"memory_id": EXAMPLE_ID})
async def forget(context: Context, memory_id: types.ItemId) -> types.Forgotten:
    """Delete one item of a collection permanently."""
    item, where = await _find_item(context, memory_id)
    await forget_copies_of(context.database, [item])
    try:
        await where.memory.forget(item.memory_id, item.agent_id)
    except NoSuchItem:
        raise _not_found(memory_id) from None
    return types.Forgotten(memory_id=item.memory_id, collection=item.agent_id)


async def _find_item(context: Context, memory_id: str) -> tuple[Item, Collection]:
    """Return the item and its collection. An item of another user or subject is treated as missing. Raises NotFound."""
    whose, subject = user_filter(context, None), subject_filter(context)
    for memory in await collection_memories(context):
        item = await memory.find(memory_id, whose, subject)
        if item is not None:
            return item, Collection(memory, item.agent_id)
    raise _not_found(memory_id)


def _not_found(memory_id: str) -> NotFound:
    return NotFound(f"no collection has an item with the id {memory_id}", hint="search returns the ids of its hits")


def _kept_memory(item: Item) -> types.KeptMemory:
    return types.KeptMemory.of(item, collection=item.agent_id)
