"""The parameters and results of the tools on collections, as types: what their schemas are made of.

Names of the answer to `push` are those of the fifth design, M3; those of the payload are of its section 3.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from dslc.blocks.values.names import NAME_RULE
from runtime.memory.collection.options import PROJECT
from runtime.memory.item import Item, MemoryType, Provenance, rfc3339, tag_form, well_formed
from runtime.memory.store import LARGEST_TEXT
from runtime.tools.failure import Code
from runtime.tools.memory.types import AGENT, UUID, Scores
from runtime.tools.tool import Also, schema_of

MOST_ITEMS: Final = 1000
"""Items of one push at most."""
MOST_TAGS: Final = 100
"""Tags that are counted in an answer."""
LONGEST_QUERY: Final = 8000
"""Characters of a query that are taken; how many are read is the search's matter."""
_OURS: Final = "symbiont:"


def _listed(value: Any) -> Any:
    """A tag alone as a list, and a list in JSON, as some clients send one where a text would do too, as what it is."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        with suppress(ValueError, RecursionError):
            read = json.loads(value)
            if isinstance(read, list) and all(isinstance(each, str) for each in read):
                return [well_formed(each) for each in read]
    return [value]


def _tag(value: str) -> str:
    if not value.strip():
        raise ValueError("a tag is blank")
    return tag_form(value.strip())


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("it is blank")
    return value.strip()


def _theirs(value: str) -> str:
    if value.startswith(_OURS):
        raise ValueError(f"what begins with {_OURS} is given by the daemon")
    return _not_blank(value)


_Tag = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_tag)]
_TagList = Annotated[list[_Tag], BeforeValidator(_listed, json_schema_input_type=list[_Tag] | _Tag)]
_Project = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_not_blank)]
_Uri = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_theirs)]

Collection = Annotated[
    Annotated[str, Field(pattern=AGENT)] | None,
    Field(description=f"The collection, by its name ({NAME_RULE}); the default one without it.", examples=["notes"]),
]
CollectionName = Annotated[
    str, Field(pattern=AGENT, description=f"What it is called: {NAME_RULE}.", examples=["research"])
]
Text = Annotated[
    str | None,
    Field(description=f"What is to be kept, up to {LARGEST_TEXT:,} characters; it is cut into chunks."),
]
Type = Annotated[
    MemoryType | None,
    Field(description="`episodic`: what happened; `semantic`: what is so; `procedural`: how something is done."),
    Also(("type",)),
]
Project = Annotated[_Project | None, Field(description="The project's id."), Also(("project",))]
Tags = Annotated[
    _TagList | None,
    Field(max_length=100, description="Its tags: a list, or one alone.", examples=[["note", "daily"]]),
]
NewType = Annotated[
    MemoryType | None,
    Field(
        description="`episodic`: what happened; `semantic`: what is so; `procedural`: how something is done. "
        "What is new is `semantic` without it."
    ),
    Also(("type",)),
]
NewProject = Annotated[
    _Project | None, Field(description=f"The project's id; `{PROJECT}` without it."), Also(("project",))
]
SourceUri = Annotated[
    _Uri | None,
    Field(description="Where it is from, an address or a path.", examples=["file:///home/ada/notes.md"]),
]
Replace = Annotated[
    bool,
    Field(
        description="Forget what is there from the same `source_uri` and is not in the text any more; all of it when "
        "the text is blank."
    ),
]
WantedTags = Annotated[
    _TagList, Field(max_length=100, description="Only what has one or more of these tags: a list, or one alone.")
]
AllTags = Annotated[
    _TagList, Field(max_length=100, description="Only what has every one of these tags: a list, or one alone.")
]
WantedSource = Annotated[
    Annotated[str, Field(min_length=1, max_length=2000)] | None, Field(description="Only what is from there.")
]
Query = Annotated[
    str,
    Field(max_length=LONGEST_QUERY, description="What to look for, in words.", examples=["current architecture plan"]),
]
Limit = Annotated[
    int, Field(ge=1, le=100, description="How many hits are answered at most.", examples=[5]), Also(("k",))
]
Dimension = Annotated[
    Annotated[int, Field(ge=1, le=65536)] | None,
    Field(description="How many numbers its vectors must have; it is refused when the embedding makes others."),
]
ItemId = Annotated[
    str, Field(pattern=UUID, description="The item's id, a UUID.", examples=["0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"])
]
NewText = Annotated[
    str | None, Field(description=f"What it says from now on, up to {LARGEST_TEXT:,} characters.", examples=["…"])
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class PushedItem(_Strict):
    """One of several texts, and what is to be known about it; what it does not say is said for all."""

    text: Annotated[str, Field(description=f"What is to be kept, up to {LARGEST_TEXT:,} characters.")]
    project_id: NewProject = None
    memory_type: NewType = None
    tags: Tags = None
    source_uri: SourceUri = None


Items = Annotated[
    # Each is looked at by itself: a broken one fails alone.
    list[Annotated[Any, WithJsonSchema(schema_of(PushedItem))]] | None,
    Field(
        max_length=MOST_ITEMS,
        description="Several texts in place of `text`, each with its own particulars.",
        examples=[
            [{"text": "The API takes 100 requests a minute", "tags": ["api"]}, {"text": "Deploys are on Tuesdays"}]
        ],
    ),
]


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True)


class FailedItem(_Result):
    """An item that was not kept, and why."""

    index: int = Field(description="Which of the `items`, counted from 0.")
    source_uri: str | None
    field: str | None = Field(description="What of it is wrong.")
    code: Code
    message: str


class Pushed(_Result):
    """What became of a push."""

    inserted: int = Field(description="Chunks that were not there.")
    updated: int = Field(description="Chunks that were there, and have another type, tags or source now.")
    skippedDuplicates: int = Field(description="Chunks that were there already, or came twice.")  # noqa: N815
    chunksIndexed: int = Field(description="Chunks that were written: inserted and updated.")  # noqa: N815
    chunkSize: int = Field(description="Characters of a chunk at most.")  # noqa: N815
    removed: int = Field(
        description="Chunks that the source does not say any more, with `replace`: they are forgotten, but for those "
        "that another source says too."
    )
    memory_ids: list[str] = Field(description="What was inserted, then what was updated.")
    failed: list[FailedItem] = Field(description="Items that were not kept.")
    notes: list[str] = Field(description="What there is to know, for instance that it cannot be found yet.")
    collection: str


class Payload(_Result):
    """The universal payload: one thing remembered."""

    memory_id: str
    project_id: str | None = Field(description="null: of none, as what a delivery left behind.")
    memory_type: MemoryType
    timestamp: str = Field(description="When it was kept, RFC 3339.")
    source_uri: str | None = Field(description="Where it is from: of several sources the one that came last.")
    other_sources: list[str] = Field(description="Where else it is from; it is forgotten with the last one.")
    chunk_hash: str = Field(description="sha256 of the text, spaces evened out.")
    tags: list[str]
    text: str
    source_memory_ids: list[str] = Field(description="What it was made of, where it is a summary.")
    collection: str
    user_id: str = Field(description="Whose it is.")


class KeptMemory(Payload):
    """One thing remembered, and how it came to be."""

    provenance: Provenance


class Hit(Payload, Scores):
    """What was found."""


class UsedFilters(_Result):
    """What was searched by, as it was understood."""

    project_id: str | None
    memory_type: MemoryType | None
    tags: list[str]
    tags_all: list[str]
    source_uri: str | None
    time_range: dict[str, str] | None
    limit: int
    score_threshold: float | None
    scoreThreshold: float | None  # noqa: N815 - clients know it by both names
    collection: str


class SearchResult(_Result):
    """What was found, best first."""

    hits: list[Hit]
    context: str = Field(description="The hits as numbered lines, to be put into a prompt.")
    used_filters: UsedFilters
    notes: list[str] = Field(description="What there is to know about how it was found.")


class CollectionCount(_Result):
    """How much of the caller's is in a collection; of everybody's with the scope `admin`."""

    name: str
    memory: str = Field(description="The memory that it is in.")
    default: bool = Field(description="Whether it is meant where none is named.")
    items: int
    by_type: dict[str, int]


class CollectionState(CollectionCount):
    """A collection, and how it is searched."""

    embedding: str | None = Field(description="What makes vectors; null: searched by keyword only.")
    model: str | None
    dimension: int | None = Field(description="Numbers of a vector; null while only the model's first answer can tell.")
    index: str = Field(description="Where words and vectors are kept.")
    state: str = Field(description="`ready`, or what does not work as declared just now.")


class Collections(_Result):
    """Every collection that the caller may see."""

    collections: list[CollectionState]


class MadeCollection(_Result):
    """A collection that is there now."""

    name: str
    memory: str
    created: bool = Field(description="false: it was there already.")
    embedding: str | None
    dimension: int | None
    notes: list[str]


class CollectionMetrics(CollectionCount):
    """How much is in a collection, and how much of it can be found."""

    embedded: int | None = Field(description="Items that can be found by meaning; null when the index cannot be read.")
    waiting: int | None = Field(description="Items that wait for their vectors.")
    projects: dict[str, int]
    tags: dict[str, int] = Field(description=f"The {MOST_TAGS} most used.")
    index_problem: str | None
    embedding_problem: str | None


class ToolCounts(_Result):
    """How often the caller called a tool since the process began; everybody with the scope `admin`."""

    calls: int
    failures: int


class Metrics(_Result):
    """How much is remembered, and what was asked."""

    collections: list[CollectionMetrics]
    tools: dict[str, ToolCounts] = Field(description="Those that the caller called; everybody with the scope `admin`.")


class Forgotten(_Result):
    """What is remembered no more."""

    memory_id: str
    collection: str


def fields_of(item: Item, collection: str) -> dict[str, Any]:
    """The payload of an item."""
    return {
        "memory_id": item.memory_id,
        "project_id": item.project_id,
        "memory_type": item.memory_type,
        "timestamp": rfc3339(item.timestamp),
        "source_uri": item.source_uri,
        "other_sources": list(item.other_sources),
        "chunk_hash": item.chunk_hash,
        "tags": list(item.tags),
        "text": item.text,
        "source_memory_ids": list(item.source_memory_ids),
        "collection": collection,
        "user_id": item.user_id,
    }
