"""`get-collections`, `new-collection` and `metrics`: the collections and their sizes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from runtime.errors import SymbiontError
from runtime.memory.collection.reader import CollectionCounts
from runtime.memory.errors import FsyncFailed
from runtime.memory.open_memory import OpenMemory
from runtime.models.calls.call import CallOwner
from runtime.search.entry import EntryFilter
from runtime.search.errors import EmbeddingMismatch, EmbeddingUnavailable
from runtime.search.index import DEFAULT as DEFAULT_INDEX
from runtime.search.index.index import IndexStats
from runtime.tools.call_counts import counted_calls
from runtime.tools.collection import types
from runtime.tools.collection.access import (
    NoSuchCollection,
    collection_memories,
    default_memory,
    find_collection,
    store_of,
)
from runtime.tools.context import Context
from runtime.tools.failure import wrong
from runtime.tools.memory.access import need_all_subjects, sees_all, user_filter
from runtime.tools.tool import tool

LOOK_SECONDS: Final = 5.0
"""Seconds for which statistics of an index are awaited."""
READY: Final = "ready"


@tool("read", name="get-collections", example={})
async def get_collections(context: Context) -> types.Collections:
    """List the collections, their number of items, and how each is searched."""
    need_all_subjects(context)
    found: list[types.CollectionState] = []
    for memory in await collection_memories(context):
        state = {**asdict(SearchedBy.of(memory)), "state": state_of(context, memory)}
        found += [types.CollectionState(**fields, **state) for fields in await _collections(context, memory)]
    return types.Collections(collections=found)


@tool("write", stores=True, name="new-collection", idempotent=True, example={"name": "research"})
async def new_collection(
    context: Context, name: types.CollectionName, dimension: types.Dimension = None
) -> types.MadeCollection:
    """Create an empty collection, unless it exists.

    It uses the index and embedding of its memory. With a `dimension` the call fails if the embedding has another one.
    """
    if name in {".", ".."}:
        raise wrong("name", "this is not a valid name: it needs more than dots", example="research")
    notes: list[str] = []
    try:
        memory, there = (await find_collection(context, name)).memory, True
    except NoSuchCollection:
        memory, there = await default_memory(context), False
    known = await _check_dimension(memory, dimension, notes, context.call_owner)
    created = not there and await store_of(memory).create(name, context.caller.user_id)
    return types.MadeCollection(
        name=name, memory=memory.name, created=created, embedding=memory.embedding, dimension=known, notes=notes
    )


@tool("read", example={})
async def metrics(context: Context, collection: types.AnyCollection = None) -> types.MetricsReport:
    """Count the items of each collection or of one, and one's own calls of each tool."""
    need_all_subjects(context)
    only = None if collection is None else await find_collection(context, collection)
    memories = await collection_memories(context) if only is None else [only.memory]
    found: list[types.CollectionMetrics] = []
    for memory in memories:
        wanted = [each for each in await _collections(context, memory) if only is None or each["name"] == only.name]
        found += [await _metrics(context, memory, fields) for fields in wanted]
    called = counted_calls(user_filter(context, None))
    return types.MetricsReport(
        collections=found,
        tools={name: types.ToolCounts(calls=each.calls, failures=each.failures) for name, each in called.items()},
    )


async def _collections(context: Context, memory: OpenMemory) -> list[dict[str, Any]]:
    """Return the collections of a memory that the caller may see, its own first, each with its size."""
    default = (await default_memory(context)).name
    there = {each.name: each for each in await store_of(memory).counts(user_id=user_filter(context, None))}
    there.setdefault(memory.name, CollectionCounts(memory.name, 0, 0, 0, 0))
    return [
        {
            "name": each.name,
            "memory": memory.name,
            "default": each.name == memory.name == default,
            "items": each.items,
            "by_type": {
                "episodic": each.episodic,
                "semantic": each.semantic,
                "procedural": each.procedural,
            },
        }
        for each in sorted(there.values(), key=lambda each: (each.name != memory.name, each.name))
    ]


async def _metrics(context: Context, memory: OpenMemory, fields: Mapping[str, Any]) -> types.CollectionMetrics:
    whose, name = user_filter(context, None), fields["name"]
    projects = await store_of(memory).projects(name, whose)
    tags = await store_of(memory).tags(name, whose)
    seen = await index_stats(memory, name, whose)
    shown = sees_all(context)
    return types.CollectionMetrics(
        **fields,
        embedded=None if seen is None else seen.embedded,
        waiting=None if seen is None else _waiting(memory, fields["items"] - seen.embedded),
        projects=dict(sorted(project_counts(projects).items())),
        tags=dict(tags.most_common(types.MOST_TAGS)),
        index_problem=_visible_problem(memory.index_problem, "the index has a problem", shown=shown),
        embedding_problem=_visible_problem(memory.embedding_problem, "nothing is embedded at the moment", shown=shown),
    )


def _waiting(memory: OpenMemory, without: int) -> int:
    """Return how many of the items `without` a vector wait for one, items that are not indexed yet included; 0 if
    nothing makes any."""
    return 0 if memory.embedding is None and memory.embedding_problem is None else max(0, without)


def project_counts(projects: Counter[str | None]) -> Counter[str]:
    """Return the number of items of each project, without items that have none."""
    return Counter({project: count for project, count in projects.items() if project is not None})


async def index_stats(memory: OpenMemory, name: str | None = None, user: str | None = None) -> IndexStats | None:
    """Return the statistics of the index; None if they are unavailable."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            return await memory.indexer.index.stats(EntryFilter(agent=name, user=user))
    except FsyncFailed:
        raise
    except (SymbiontError, TimeoutError):
        return None


@dataclass(frozen=True, slots=True)
class SearchedBy:
    """Search settings of a memory: the embedding and the model that make its vectors, their dimension if it is known
    without a call of the model, and the kind of its index."""

    embedding: str | None
    model: str | None
    dimension: int | None
    index: str

    @classmethod
    def of(cls, memory: OpenMemory) -> SearchedBy:
        """Return how this memory is searched."""
        embedder, block = memory.embedder, memory.block
        model, dimension = (None, None) if embedder is None else (embedder.model, embedder.dimension)
        return cls(memory.embedding, model, dimension, DEFAULT_INDEX if block.index is None else block.index.name)


def state_of(context: Context, memory: OpenMemory, silent: str | None = None) -> str:
    """Return `ready`, or the memory's problem as the caller may see it. `silent`: the reason why its index did not
    answer, if it was asked."""
    problems = tuple(dict.fromkeys(filter(None, (*memory.problems, silent))))
    if not problems:
        return READY
    if sees_all(context):
        return "; ".join(problems)
    return "something does not work as declared at the moment: stored items are preserved"


def _visible_problem(problem: str | None, instead: str, *, shown: bool) -> str | None:
    return problem if shown or problem is None else instead


async def _check_dimension(memory: OpenMemory, wanted: int | None, notes: list[str], owner: CallOwner) -> int | None:
    """Return the dimension of the memory's vectors. Raises WrongParameters if another one is wanted,
    EmbeddingMismatch if the model does not make the declared one, EmbeddingUnavailable if it is needed and unknown."""
    embedder = memory.embedder
    if embedder is None:
        if wanted is not None:
            notes.append(f"there are no vectors of dimension {wanted}: searches use keywords only")
        return None
    try:
        vector = await embedder.embed_question("dimension", owner=owner)
    except EmbeddingMismatch as error:
        hint = "; ".join(filter(None, (error.hint, "or set EMBEDDING_DIMENSION if the program does not set it")))
        raise EmbeddingMismatch(str(error), hint=hint) from None
    except EmbeddingUnavailable as error:
        if wanted is not None and embedder.dimension is None:
            raise
        notes.append(f"the embedding does not answer: {error.line()}")
    else:
        assert embedder.dimension in {None, len(vector)}
    known = embedder.dimension
    if wanted is not None and known is not None and wanted != known:
        raise wrong(
            "dimension",
            f"the embedding {embedder.name} ({embedder.model}) has vectors of dimension {known}, not {wanted}",
            hint=f"omit it or give {known}; for {wanted} set `embedding` and its `dimension` in the memory "
            f"{memory.name}, or EMBEDDING_MODEL and EMBEDDING_DIMENSION",
            example=known,
        )
    return known
