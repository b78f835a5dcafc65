"""TABLE of resources: information for clients before they call a tool. Served as MCP resources, below `/v1` and on the
admin socket (the fifth design, M4, M5 and M8)."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, get_args, get_type_hints
from urllib.parse import quote, unquote

from pydantic import BaseModel, Field, RootModel

from dslc.blocks.values.quantity import format_duration
from runtime.errors import NotFound
from runtime.extension_table import table_of
from runtime.memory.collection.options import PROJECT
from runtime.memory.item import MemoryType
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store import LARGEST_TEXT
from runtime.suggestions import unknown_name
from runtime.tool_groups import Group
from runtime.tools.collection.access import away, collection_memories, default_memory, store_of
from runtime.tools.collection.overview import (
    LOOK_SECONDS,
    READY,
    SearchedBy,
    index_stats,
    project_counts,
    state_of,
)
from runtime.tools.collection.types import LONGEST_QUERY, MOST_ITEMS
from runtime.tools.context import Context
from runtime.tools.memory.access import user_filter
from runtime.tools.result import Result


class MemoryTypes(RootModel[list[str]]):
    """The types that an item may have."""


class Names(RootModel[list[str]]):
    """Names in order."""


class EmbeddingHealth(Result):
    """The embedding of a memory."""

    provider: str | None = Field(description="null: searched by keyword only.")
    model: str | None
    dimension: int | None = Field(description="Dimension of vectors; null until the first answer of the model.")


class IndexHealth(Result):
    """The index of words and vectors."""

    kind: str
    reachable: bool
    dimension: int | None = Field(description="Dimension of the stored vectors.")
    items: int | None
    embedded: int | None


class MemoryHealth(Result):
    """A memory that is a collection, and its state."""

    memory: str
    default: bool
    embedding: EmbeddingHealth
    index: IndexHealth
    state: str = Field(description="`ready`, or the parts that do not work as declared at the moment.")


class Health(Result):
    """The state of all collections."""

    status: str = Field(description="`ok` or `degraded`.")
    memories: list[MemoryHealth]


class MemorySettings(Result):
    """Settings of a memory that is a collection."""

    memory: str
    default: bool
    chunk_size: int = Field(description="Maximum number of characters of a chunk.")
    chunk_overlap: int = Field(description="Maximum number of characters that two chunks have in common.")
    vector_weight: float
    keyword_weight: float
    embedding: str | None
    model: str | None
    index: str
    summarizer: str | None = Field(
        description="The model that writes summaries; null: they consist of sentences from the items."
    )


class Settings(Result):
    """The settings in effect."""

    default_project: str
    largest_text: int = Field(description="Maximum number of characters of a text.")
    most_items: int = Field(description="Maximum number of items of a push.")
    longest_query: int = Field(description="Maximum number of characters of a query.")
    memories: list[MemorySettings]


async def memory_types(_context: Context) -> MemoryTypes:
    """List the types of items: events, statements and instructions."""
    return MemoryTypes(list(get_args(MemoryType)))


async def projects(context: Context) -> Names:
    """List the projects of the items in collections."""
    found: Counter[str] = Counter()
    for memory in await collection_memories(context):
        found += project_counts(await store_of(memory).projects(None, user_filter(context, None)))
    return Names(sorted(found))


async def tags(context: Context, *, project_id: str) -> Names:
    """List the tags that are used in a project; empty for an unknown project."""
    found: set[str] = set()
    for memory in await collection_memories(context):
        found.update(await store_of(memory).tags(None, user_filter(context, None), project_id))
    return Names(sorted(found))


async def health(context: Context) -> Health:
    """Report the embedding and the index of each collection, and their state."""
    default = (await default_memory(context)).name
    memories = []
    for memory in await collection_memories(context):
        whose = user_filter(context, None)
        seen = await index_stats(memory, user=whose)
        silent, by = await _index_problem(memory), SearchedBy.of(memory)
        memories.append(
            MemoryHealth(
                memory=memory.name,
                default=memory.name == default,
                embedding=EmbeddingHealth(provider=by.embedding, model=by.model, dimension=by.dimension),
                index=IndexHealth(
                    kind=by.index,
                    reachable=seen is not None and silent is None and memory.index_problem is None,
                    dimension=None if seen is None else seen.dimension,
                    items=None if seen is None else seen.entries,
                    embedded=None if seen is None else seen.embedded,
                ),
                state=state_of(context, memory, silent),
            )
        )
    well = all(each.state == READY and each.index.reachable for each in memories)
    return Health(status="ok" if well else "degraded", memories=memories)


async def _index_problem(memory: OpenMemory) -> str | None:
    try:
        return await away(memory, LOOK_SECONDS)
    except TimeoutError:
        return f"the index did not answer within {format_duration(LOOK_SECONDS)}"


async def settings(context: Context) -> Settings:
    """Show the settings of each collection for chunks, search and summaries, without secrets."""
    default = (await default_memory(context)).name
    found = []
    for memory in await collection_memories(context):
        options, search = store_of(memory).chunking, memory.block.search
        summarizer, by = memory.summarizer, SearchedBy.of(memory)
        found.append(
            MemorySettings(
                memory=memory.name,
                default=memory.name == default,
                chunk_size=options.chunk_size,
                chunk_overlap=min(options.chunk_overlap, options.chunk_size // 2),
                vector_weight=search.vector_weight,
                keyword_weight=search.keyword_weight,
                embedding=by.embedding,
                model=by.model,
                index=by.index,
                summarizer=None if summarizer is None else f"{summarizer.name}/{summarizer.model}",
            )
        )
    return Settings(
        default_project=PROJECT,
        largest_text=LARGEST_TEXT,
        most_items=MOST_ITEMS,
        longest_query=LONGEST_QUERY,
        memories=found,
    )


GROUP: Final[Group] = "collections"
"""The group of tools with which a client has the resources."""

SCHEME: Final = "symbiont://"
"""Prefix of the address of a resource, as it is listed."""
SCHEMES: Final = ("mcp://rusty-mem/", SCHEME)
"""The prefixes that are read; both mean the same."""

Function = Callable[..., Awaitable[BaseModel]]
"""`async def name(context, *, project_id: str) -> Result`: a parameter for each name in the path, text."""

_NAMED: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Resource:
    """One row. `path`: with `{parameter}` for each part that is not fixed; reading needs the scope `read`, and the
    group `GROUP`."""

    path: str
    function: Function
    title: str

    @property
    def name(self) -> str:
        """The path, which is unique."""
        return self.path

    @property
    def doc(self) -> str:
        """The function's docstring."""
        return inspect.getdoc(self.function) or ""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters in the path; without any there is one address."""
        return tuple(_NAMED.findall(self.path))

    @property
    def uri(self) -> str:
        """Its address, or its template (RFC 6570), under the scheme that is listed."""
        return f"{SCHEME}{self.path}"

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Pattern of the whole path."""
        return re.compile(_NAMED.sub(r"(?P<\1>[^/]+)", re.escape(self.path).replace(r"\{", "{").replace(r"\}", "}")))

    @cached_property
    def result(self) -> type[BaseModel]:
        """The model of the result."""
        kind = get_type_hints(self.function)["return"]
        assert isinstance(kind, type)
        assert issubclass(kind, BaseModel)
        return kind

    def path_of(self, **values: str) -> str:
        """Return the path with these values in place of its parameters."""
        return self.path.format_map({name: quote(value, safe="") for name, value in values.items()})


RESOURCES = table_of(
    "resource",
    [
        Resource("memory-types", memory_types, "Memory types"),
        Resource("projects", projects, "Projects"),
        Resource("projects/{project_id}/tags", tags, "Tags of a project"),
        Resource("health", health, "Health"),
        Resource("settings", settings, "Settings"),
    ],
)
"""Every resource by its path."""


async def read(context: Context, path: str) -> BaseModel:
    """Return the resource at `path` (`projects/default/tags`; percent-encoded) as the context's caller may see it.

    Raises NotFound with the nearest paths, Forbidden, and what the function raises.
    """
    context.caller.need("read")
    context.caller.need_tool(GROUP, "a resource", read_only=True)
    for row in RESOURCES.values():
        match = row.pattern.fullmatch(path)
        if match is not None:
            return await row.function(context, **{name: _text(part) for name, part in match.groupdict().items()})
    raise unknown_name("resource", path[:200], RESOURCES, NotFound)


def path_in(uri: str) -> str:
    """Return the path in the address of a resource, under either scheme. Raises NotFound."""
    for scheme in SCHEMES:
        if uri.startswith(scheme):
            return uri.removeprefix(scheme)
    raise NotFound(f"{uri[:200]!r} is not the address of a resource", hint=f"they begin with {' or '.join(SCHEMES)}")


def as_json(result: BaseModel) -> Any:
    """Return the result as JSON: a list or an object."""
    return result.model_dump(mode="json")


def _text(part: str) -> str:
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise NotFound(f"{part[:200]!r} is not valid UTF-8") from None
