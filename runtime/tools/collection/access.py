"""Access to collections: selection by name, and the caller's rights.

Items that clients push into the memory NAME have the agent_id NAME; an agent that writes to that memory has its own
collection, by its name, and so has a collection made by `new-collection`.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from runtime.errors import NotFound
from runtime.memory.collection.options import STORE
from runtime.memory.collection.store import CollectionStore
from runtime.memory.open_memory import OpenMemory
from runtime.search.errors import IndexFailed
from runtime.suggestions import unknown_name
from runtime.tools.context import Context
from runtime.tools.memory.access import sees_all, user_filter

DEFAULT: Final = "default"
WRITTEN_SECONDS: Final = 1.0
"""Seconds for which the answer to a write waits for a remote index."""


class NoSuchCollection(NotFound):
    """There is no collection of this name, or none that the caller may see."""

    field = "collection"


class Collection(NamedTuple):
    """A collection, and the memory that contains it. `name`: the agent_id of its items."""

    memory: OpenMemory
    name: str

    @property
    def store(self) -> CollectionStore:
        """The store of its items."""
        return store_of(self.memory)


def store_of(memory: OpenMemory) -> CollectionStore:
    """Return the store of a memory that is a collection."""
    assert memory.collection is not None
    return memory.collection


async def collection_memories(context: Context) -> list[OpenMemory]:
    """Return every memory that is a collection, the default one first."""
    default = await default_memory(context)
    others = [each for each in context.memories.values() if each.collection is not None and each.name != default.name]
    return [default, *sorted(others, key=lambda each: each.name)]


async def default_memory(context: Context) -> OpenMemory:
    """Return the default memory: the collection called `default`, else the only one, else the first by name; without
    any, the built-in one."""
    declared = {name: each for name, each in context.memories.items() if each.collection is not None and name != STORE}
    if not declared:
        return await context.memories.collection()
    return declared.get(DEFAULT) or declared[min(declared)]


async def find_collection(context: Context, name: str | None) -> Collection:
    """Return the collection of this name, or the default one. Raises NoSuchCollection with the nearest names, also for
    a collection that belongs only to another user."""
    default = await default_memory(context)
    if name is None or name == default.name:
        return Collection(default, default.name)
    memories = await collection_memories(context)
    for each in memories:
        if each.name == name:
            return Collection(each, name)
    known = {each.name for each in memories}
    for each in memories:
        there = {counts.name for counts in await store_of(each).counts(user_id=user_filter(context, None))}
        if name in there:
            return Collection(each, name)
        known |= there
    raise unknown_name("collection", name, known, NoSuchCollection)


async def collection_notes(context: Context, memory: OpenMemory) -> list[str]:
    """Return the reasons why new items cannot be found yet. Files and services are named to administrators only."""
    try:
        index = memory.index_problem or await away(memory, WRITTEN_SECONDS)
    except TimeoutError:  # it may be indexing what was just written.
        index = None
    embedding = memory.embedding_problem
    notes = []
    for problem, note in (
        (index, "it is stored, and can be found after the index can be written again"),
        # An index that does not answer stores no vectors either: that is a single problem.
        (
            embedding if embedding != index else None,
            "it is stored, and can be found only by its words until it can be embedded",
        ),
    ):
        if problem:
            notes.append(f"{note}: {problem}" if sees_all(context) else note)
    return notes


async def away(memory: OpenMemory, seconds: float) -> str | None:
    """Return the reason why the index of a memory does not answer, in one line, after a check if it is remote; None
    if it does. Raises TimeoutError after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await memory.indexer.index.reachable()
    except IndexFailed as error:
        return error.line()
    return None
