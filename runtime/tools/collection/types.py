"""Types of the parameters and results of the tools on collections, from which their schemas are built.

Names in the answer to `push` are those of the fifth design, M3; those of the payload are from its section 3.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from dslc.blocks.values.names import NAME_RULE
from runtime.memory.collection.options import PROJECT
from runtime.memory.item import RESERVED, MemoryType, Provenance, rfc3339, tag_form
from runtime.memory.store import LARGEST_TEXT
from runtime.tools.failure import Code
from runtime.tools.memory.parameters import OwnSubject
from runtime.tools.memory.results import Scores
from runtime.tools.patterns import AGENT, EXAMPLE_ID, UUID, as_list
from runtime.tools.result import Result
from runtime.tools.tool import ParameterAlias, schema_of

MOST_ITEMS: Final = 1000
"""Maximum number of items of one push."""
MOST_TAGS: Final = 100
"""Maximum number of tags that are counted in an answer."""
LONGEST_QUERY: Final = 8000
"""Maximum characters of a query; the search reads fewer."""


def _tag(value: str) -> str:
    if not value.strip():
        raise ValueError("a tag is blank")
    return tag_form(value.strip())


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("it is blank")
    return value.strip()


def _not_reserved(value: str) -> str:
    stored = _not_blank(value)
    if stored.startswith(RESERVED):
        raise ValueError(f"values that begin with {RESERVED} are reserved for the daemon")
    return stored


_Tag = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_tag)]
_Tags = Annotated[list[_Tag], Field(max_length=100)]
_TagList = Annotated[_Tags, BeforeValidator(as_list, json_schema_input_type=_Tags | _Tag)]
_Project = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_not_blank)]
_Uri = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_not_reserved)]

Collection = Annotated[
    Annotated[str, Field(pattern=AGENT)] | None,
    Field(description=f"The collection, by its name ({NAME_RULE}); without it, the default one.", examples=["notes"]),
]
AnyCollection = Annotated[
    Annotated[str, Field(pattern=AGENT)] | None,
    Field(description=f"The collection, by its name ({NAME_RULE}); without it, all.", examples=["notes"]),
]
CollectionName = Annotated[str, Field(pattern=AGENT, description=f"Its name: {NAME_RULE}.", examples=["research"])]
Text = Annotated[
    str | None,
    Field(description=f"The text to store, up to {LARGEST_TEXT:,} characters; it is split into chunks."),
]
Type = Annotated[
    MemoryType | None,
    Field(description="`episodic`: an event; `semantic`: a statement; `procedural`: instructions."),
    ParameterAlias(("type",)),
]
Project = Annotated[_Project | None, Field(description="The project's id."), ParameterAlias(("project",))]
Tags = Annotated[
    _TagList | None,
    Field(description="Its tags: a list, or a single one.", examples=[["note", "daily"]]),
]
NewType = Annotated[
    MemoryType | None,
    Field(
        description="`episodic`: an event; `semantic`: a statement; `procedural`: instructions. The default for "
        "a new item is `semantic`."
    ),
    ParameterAlias(("type",)),
]
NewProject = Annotated[
    _Project | None, Field(description=f"The project's id; the default is `{PROJECT}`."), ParameterAlias(("project",))
]
SourceUri = Annotated[
    _Uri | None,
    Field(description="The source, a URI or a path.", examples=["file:///home/ada/notes.md"]),
]
Replace = Annotated[
    bool,
    Field(
        description="Delete chunks of the same `source_uri` that are no longer in the text; all of them if the "
        "text is blank."
    ),
]
WantedTags = Annotated[
    _TagList, Field(description="Only items with one or more of these tags: a list, or a single one.")
]
AllTags = Annotated[_TagList, Field(description="Only items with all of these tags: a list, or a single one.")]
WantedSource = Annotated[
    Annotated[str, Field(min_length=1, max_length=2000)] | None, Field(description="Only items from this source.")
]
Query = Annotated[
    str,
    Field(max_length=LONGEST_QUERY, description="The query, as text.", examples=["current architecture plan"]),
    ParameterAlias(("query",)),
]
Limit = Annotated[int, Field(ge=1, le=100, description="Maximum number of hits.", examples=[5]), ParameterAlias(("k",))]
Dimension = Annotated[
    Annotated[int, Field(ge=1, le=65536)] | None,
    Field(description="The required dimension of its vectors; the call fails if the embedding has another one."),
]
ItemId = Annotated[str, Field(pattern=UUID, description="The item's id, a UUID.", examples=[EXAMPLE_ID])]
NewText = Annotated[str | None, Field(description=f"The new text, up to {LARGEST_TEXT:,} characters.", examples=["…"])]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class PushedItem(_Strict):
    """One of several texts with its fields; fields that it omits are those of the call."""

    text: Annotated[str, Field(description=f"The text to store, up to {LARGEST_TEXT:,} characters.")]
    project_id: NewProject = None
    memory_type: NewType = None
    tags: Tags = None
    source_uri: SourceUri = None
    subject: OwnSubject = None


Items = Annotated[
    # Each is validated by itself: an invalid one fails alone.
    list[Annotated[Any, WithJsonSchema(schema_of(PushedItem))]] | None,
    Field(
        max_length=MOST_ITEMS,
        description="Several texts instead of `text`, each with its own fields.",
        examples=[
            [{"text": "The API takes 100 requests a minute", "tags": ["api"]}, {"text": "Deploys are on Tuesdays"}]
        ],
    ),
]


class FailedItem(Result):
    """An item that was not stored, and the reason."""

    index: int = Field(description="Its position in `items`, counted from 0.")
    source_uri: str | None
    field: str | None = Field(description="The wrong field.")
    code: Code
    message: str


class PushResult(Result):
    """The result of a push."""

    inserted: int = Field(description="New chunks.")
    updated: int = Field(description="Existing chunks whose type, tags or source changed.")
    skippedDuplicates: int = Field(description="Chunks that existed already, or were given twice.")  # noqa: N815
    chunksIndexed: int = Field(description="Chunks that were written: inserted and updated.")  # noqa: N815
    chunkSize: int = Field(description="Maximum number of characters of a chunk.")  # noqa: N815
    removed: int = Field(
        description="With `replace`: chunks that are no longer in the source. They are deleted unless another "
        "source contains them."
    )
    memory_ids: list[str] = Field(description="The inserted chunks, then the updated ones.")
    failed: list[FailedItem] = Field(description="Items that were not stored.")
    notes: list[str] = Field(description="Notes, for instance that it cannot be found yet.")
    collection: str


class Payload(Result):
    """The universal payload of an item."""

    memory_id: str
    project_id: str | None = Field(description="null: no project, as for items from a delivery.")
    memory_type: MemoryType
    timestamp: Annotated[str, BeforeValidator(rfc3339)] = Field(description="When it was stored, RFC 3339.")
    source_uri: str | None = Field(description="Its source; of several sources the latest.")
    other_sources: list[str] = Field(description="Its other sources; the item is deleted with the last one.")
    chunk_hash: str = Field(description="sha256 of the text, with normalized spaces.")
    tags: list[str]
    text: str
    source_memory_ids: list[str] = Field(description="For a summary: the items from which it was made.")
    collection: str
    user_id: str = Field(description="The user's id.")


class KeptMemory(Payload):
    """An item, its origin, and the items that it changed."""

    provenance: Provenance
    subject: str | None = Field(None, description="The subject of keyed threads to which it belongs.")
    replaces: str | None = Field(None, description="The id of the older item that it replaces.")
    retracts: str | None = Field(None, description="The id of the item that it withdraws.")


class CollectionHit(Payload, Scores):
    """The hits."""

    origin: str | None = Field(description="That it is from a delivery, if it is: its text may be a stranger's.")


class UsedFilters(Result):
    """The filters as they were understood."""

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


class SearchResult(Result):
    """The hits, best first."""

    hits: list[CollectionHit]
    context: str = Field(description="The hits as numbered lines for a prompt.")
    used_filters: UsedFilters
    notes: list[str] = Field(description="Notes about the search.")


class CollectionCount(Result):
    """Number of items in a collection: the caller's, or with the scope `admin` those of all users."""

    name: str
    memory: str = Field(description="Its memory.")
    default: bool = Field(description="true for the default collection.")
    items: int
    by_type: dict[str, int]


class CollectionState(CollectionCount):
    """A collection, and how it is searched."""

    embedding: str | None = Field(description="The embedding; null: searched by keyword only.")
    model: str | None
    dimension: int | None = Field(description="Dimension of vectors; null until the first answer of the model.")
    index: str = Field(description="The index of words and vectors.")
    state: str = Field(description="`ready`, or the parts that do not work as declared at the moment.")


class Collections(Result):
    """Every collection that the caller may see."""

    collections: list[CollectionState]


class MadeCollection(Result):
    """The collection."""

    name: str
    memory: str
    created: bool = Field(description="false: it existed already.")
    embedding: str | None
    dimension: int | None
    notes: list[str]


class CollectionMetrics(CollectionCount):
    """The number of items of a collection, and how many can be found."""

    embedded: int | None = Field(description="Items that can be found by meaning; null if the index cannot be read.")
    waiting: int | None = Field(description="Items without a vector yet.")
    projects: dict[str, int]
    tags: dict[str, int] = Field(description=f"The {MOST_TAGS} most frequent.")
    index_problem: str | None
    embedding_problem: str | None


class ToolCounts(Result):
    """Number of calls of a tool by the caller since the process started; with the scope `admin`, by all users."""

    calls: int
    failures: int


class MetricsReport(Result):
    """The number of items and of tool calls."""

    collections: list[CollectionMetrics]
    tools: dict[str, ToolCounts] = Field(
        description="Tools that the caller called; with the scope `admin`, that any user called."
    )


class Forgotten(Result):
    """The deleted item."""

    memory_id: str
    collection: str
