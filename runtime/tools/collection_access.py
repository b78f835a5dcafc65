"""Which collection is meant, and what of it the caller may see.

What clients push into the memory NAME stands under the agent_id NAME; an agent that writes to that memory has its own
collection, by its name, and so has what `new-collection` made.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from runtime.errors import NotFound
from runtime.memory.opened import OpenMemory
from runtime.names import unknown
from runtime.tools.context import Context

STORE: Final = "collection"
"""The store that a memory has which is a collection, and the name of the memory that is there without a block."""
DEFAULT: Final = "default"


class Collection(NamedTuple):
    """A collection, and the memory that it is in. `name` is its items' agent_id."""

    memory: OpenMemory
    name: str


async def collection_memories(context: Context) -> list[OpenMemory]:
    """Every memory that is a collection, the default one first."""
    default = await default_memory(context)
    others = [each for each in context.house.memories.values() if _is_collection(each) and each.name != default.name]
    return [default, *sorted(others, key=lambda each: each.name)]


async def default_memory(context: Context) -> OpenMemory:
    """The memory that is meant where none is named: the default memory, else the only one, else the first by name, of
    those that are collections; else the one that is there without a block."""
    declared = {name: each for name, each in context.house.memories.items() if _is_collection(each) and name != STORE}
    if not declared:
        return context.house.memories.get(STORE) or await context.house.collection_memory()
    return declared.get(DEFAULT) or declared[min(declared)]


async def find_collection(context: Context, name: str | None) -> Collection:
    """The collection of this name, or the default one. Raises NotFound with the nearest names."""
    default = await default_memory(context)
    if name is None or name == default.name:
        return Collection(default, default.name)
    memories = await collection_memories(context)
    for each in memories:
        if each.name == name:
            return Collection(each, name)
    known = {each.name for each in memories}
    for each in memories:
        there = await each.store.agents()
        if name in there:
            return Collection(each, name)
        known.update(there)
    raise unknown("collection", name, known, NotFound)


def _is_collection(memory: OpenMemory) -> bool:
    return memory.block.store.name == STORE
