"""The parameters and results of the memory tools, as types: what their schemas are made of."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from runtime.memory.item import PATTERN, Item, MemoryType, RiskTier, tag_form
from runtime.memory.open_memory import FoundHit
from runtime.search.question import RECOMMENDED_THRESHOLD
from runtime.tools.tool import Also

LONGEST_CURSOR = 600

AGENT = r"^[A-Za-z0-9_.-]{1,64}$"
UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"

Agent = Annotated[
    str,
    Field(
        pattern=AGENT, description="The agent's name: 1 to 64 letters, digits, `_`, `-` or `.`.", examples=["reviewer"]
    ),
]
AnyAgent = Annotated[
    Annotated[str, Field(pattern=AGENT)] | None,
    Field(description="The agent's name: 1 to 64 letters, digits, `_`, `-` or `.`; without one, every agent."),
]
MemoryId = Annotated[str, Field(pattern=UUID, description="The item's id, a UUID.")]
MemoryIdOrBeginning = Annotated[
    str,
    Field(
        pattern=r"^[0-9a-f][0-9a-f-]{3,35}$",
        description="The item's id, a UUID, or its first characters, four or more, where no other id begins so.",
    ),
]
MemoryName = Annotated[
    Annotated[str, Field(min_length=1, max_length=64)] | None,
    Field(description="The memory, by the name that the program gives it; without one, wherever the agent remembers."),
]

Kind = Literal["fact", "pattern", "procedure", "episode", "semantic", "procedural", "episodic"]
Wanted = Annotated[
    Kind | None,
    Field(description="Only of this type. `fact` is `semantic`, and so is `pattern`, with that tag."),
]
Written = Annotated[
    Kind,
    Field(
        description="What it is: a `fact`, `pattern` or `procedure` is for the long term, an `episode` stands in the "
        "log of its day."
    ),
]

Tag = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(tag_form)]
Tags = Annotated[list[Tag], Field(max_length=100, description="Its tags.")]
AnyTag = Annotated[list[Tag], Field(max_length=100, description="Only what has one or more of these tags.")]
AllTags = Annotated[list[Tag], Field(max_length=100, description="Only what has every one of these tags.")]
_Short = Annotated[str, Field(min_length=1, max_length=200)]
_Long = Annotated[str, Field(min_length=1, max_length=2000)]
Project = Annotated[_Short | None, Field(description="The project's id.")]
Source = Annotated[_Long | None, Field(description="Where it is from, an address or a path.")]
Threshold = Annotated[
    Annotated[float, Field(ge=0, le=1)] | None,
    Field(
        description=f"Only hits whose `relevance` is this or more; {RECOMMENDED_THRESHOLD} leaves out what only looks "
        "like an answer.",
        examples=[RECOMMENDED_THRESHOLD],
    ),
    Also(("scoreThreshold",)),
]
User = Annotated[
    _Short | None,
    Field(
        description="Whose it is, by the user's name, or its id behind `id:`; another user's needs the scope `admin`, "
        "with which all are meant unless one is named."
    ),
]
Since = Annotated[
    Annotated[str, Field(max_length=40)] | None,
    Field(
        description="The earliest time: a date or time (ISO 8601, UTC unless it has an offset), or how long ago, such "
        "as `7d`."
    ),
]
Until = Annotated[
    Annotated[str, Field(max_length=40)] | None, Field(description="The first time that is too late, as in `since`.")
]

Query = Annotated[str, Field(max_length=2000, description="What to look for, in words.", examples=["rate limit"])]
Hits = Annotated[int, Field(ge=1, le=100, description="The most to answer.")]
Newest = Annotated[int, Field(ge=1, le=500, description="The most to answer.")]
Page = Annotated[int, Field(ge=1, le=1000, description="The most to answer; fewer where they are long.")]
Cursor = Annotated[
    Annotated[str, Field(max_length=LONGEST_CURSOR)] | None,
    Field(description="`next_cursor` of the page before; the first page without one."),
]
Day = Annotated[
    Annotated[str, Field(max_length=40)] | None, Field(description="The day of the log, `YYYY-MM-DD` in UTC; today's.")
]
DryRun = Annotated[bool, Field(description="Say what would be done, and do nothing.")]

Text = Annotated[str, Field(description="What is to be remembered, up to 1,048,576 characters.")]
NewText = Annotated[str, Field(description="What it says from now on, up to 1,048,576 characters.")]
Author = Annotated[_Short | None, Field(description="Who said it.")]
SessionId = Annotated[_Short | None, Field(description="The conversation or run that it belongs to.")]
Task = Annotated[_Long | None, Field(description="What was being done.")]
Confidence = Annotated[Annotated[float, Field(ge=0, le=1)] | None, Field(description="How sure it is, from 0 to 1.")]
Risk = Annotated[RiskTier | None, Field(description="How much harm it can do.")]
Commit = Annotated[_Short | None, Field(description="The commit that it is about, as git abbreviates it.")]
Evidence = Annotated[list[_Long], Field(max_length=100, description="Files and addresses that show it.")]
Gates = Annotated[
    dict[_Short, _Long],
    Field(
        max_length=20,
        description="How each gate of the store is closed, by its name: `done:…`, or `na:` and the reason; `tdd_proof` "
        "with `red:… green:…`.",
        examples=[{"governance": "na:read-only", "tdd_proof": "na:docs-only"}],
    ),
]
Lines = Annotated[
    list[dict[str, Any]],
    Field(
        max_length=1000,
        description="Items as an export has them; `user_id` is one's own where it is left out, and has to be without "
        "the scope `admin`.",
    ),
]
Into = Annotated[
    Annotated[str, Field(pattern=AGENT)] | None,
    Field(description="The agent whose they become, whoever's they were; without one, they stay their own agent's."),
]

TYPES: dict[str, tuple[MemoryType, frozenset[str]]] = {
    "fact": ("semantic", frozenset()),
    "pattern": ("semantic", frozenset({PATTERN})),
    "procedure": ("procedural", frozenset()),
    "episode": ("episodic", frozenset()),
    "semantic": ("semantic", frozenset()),
    "procedural": ("procedural", frozenset()),
    "episodic": ("episodic", frozenset()),
}
"""What each word for a kind means: the item's type, and the tags that it has besides."""


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True)


class KeptItem(Item):
    """An item, and the memory that it is kept in."""

    memory: str


class ExportedItem(KeptItem):
    """An item, the memory that it is from, and how many equal ones were before it there."""

    copy_number: int = Field(default=0, ge=0)


class Difficulty(_Result):
    """Something that cannot be read, or is not as it should be."""

    file: str
    message: str
    severity: Literal["error", "warning"] = Field(description="A warning is to be known; nothing is lost or refused.")


class Scores(_Result):
    """How well something that was found fits."""

    score: float = Field(
        description="For the order among the hits of one memory: the best has about the same anywhere."
    )
    parts: dict[str, float] = Field(description="What each part of the search added to the score.")
    relevance: float = Field(
        description="How well the text itself fits, 0 to 1, which can be compared with that of any other hit."
    )
    cosine: float | None = Field(
        description="How near it is in meaning, -1 to 1; null where no vectors were searched or it has none yet."
    )
    keyword_share: float = Field(
        description="How much of the question's words it has, 0 to 1; rare words are more of it than common ones."
    )


def scores_of(hit: FoundHit) -> dict[str, Any]:
    """The fields of `Scores`."""
    return {name: getattr(hit, name) for name in ("score", "relevance", "cosine", "keyword_share")} | {
        "parts": dict(hit.parts)
    }


class MemoryHit(Scores):
    """An item that was found."""

    item: KeptItem
    file: str | None = Field(description="Where it stands; the last parts of the path without the scope `admin`.")
    line: int | None


class MemoryHits(_Result):
    """What was found, best first."""

    hits: list[MemoryHit]
    notes: list[str] = Field(description="What there is to know about how it was found.")


class ShownItem(_Result):
    """An item, and where it stands."""

    item: KeptItem
    file: str | None = Field(description="Where it stands; the last parts of the path without the scope `admin`.")
    line: int | None


class EditedItem(_Result):
    """An item that says something else now."""

    item: KeptItem
    previous_id: str = Field(description="The id that it had; the item's own where that stayed.")


class ForgottenItem(_Result):
    """What is remembered no more."""

    memory_id: str
    agent: str
    memory: str


class MemoryItems(_Result):
    """What is remembered, newest first."""

    items: list[KeptItem]
    next_cursor: str | None = Field(description="For the next page; null when this is the last one.")


class ExportedItems(_Result):
    """Some of everything that is remembered, in the order of the store."""

    items: list[ExportedItem]
    total: int | None = Field(description="About how many items there are in all; null where that is not known.")
    problems: list[Difficulty] = Field(description="What cannot be read and is left out.")
    next_cursor: str | None = Field(description="For the next page; null when this is the last one.")


class WrittenItem(_Result):
    """What was, or would be, remembered."""

    outcome: Literal["stored", "there", "dry_run"] = Field(description="`there`: it was remembered already.")
    memory: str
    item: KeptItem | None = Field(description="What was stored, as it stands there; null when it was not.")
    record: dict[str, Any] | None = Field(description="What would be stored, as the store writes it; of a dry run.")
    refused: str | None = Field(None, description="Of a dry run: why it would be refused, which gates are open.")


class ImportedLine(_Result):
    """What became of one item."""

    outcome: Literal["stored", "there", "refused"]
    memory_id: str | None = Field(description="Under which it is remembered; null where that is not known.")
    reason: str | None = Field(description="Why it was refused.")


class ImportedLines(_Result):
    """What became of each item, in their order."""

    lines: list[ImportedLine]
    stored: int
    there: int = Field(description="How many were remembered already.")
    refused: int


class AgentMemory(_Result):
    """How much an agent remembers in a memory."""

    agent: str
    memory: str
    files: int | None = Field(description="null without the scope `admin`, as are all that count others' items too.")
    bytes: int | None
    oldest: date | None = Field(description="The day of the oldest log.")
    newest: date | None = Field(description="The day of the newest log.")
    items: int | None = Field(description="null when the index cannot be read.")
    embedded: int | None = Field(description="Those of them that can be found by meaning.")
    pending: int | None = Field(description="Those that wait for it.")
    problems: list[Difficulty]


class MemoryState(_Result):
    """A memory of the program."""

    memory: str
    store: str = Field(description="The kind of store.")
    capabilities: list[str] = Field(description="What can be done with what is there: edit, delete, compact, remove.")
    embedding: str | None = Field(description="What makes vectors; null: searched by keyword only.")
    problems: list[str] = Field(description="What does not work as declared just now.")


class MemoryStats(_Result):
    """How much is remembered."""

    agents: list[AgentMemory]
    memories: list[MemoryState]


class MemoryFile(_Result):
    """A file as it stands."""

    path: str
    text: str | None = Field(description="null when there is no such file.")


class Inspected(_Result):
    """An agent's memory as a person reads it."""

    agent: str
    name: str = Field(description="The memory's name.")
    memory: MemoryFile
    log: MemoryFile


class Compacted(_Result):
    """What was done with the logs of one memory."""

    memory: str
    flushed: int = Field(description="Items of logs that were put where they stay.")
    deleted: int = Field(description="Expired logs, or entries of a collection, that were deleted.")
    problems: list[Difficulty] = Field(description="What was left as it is.")


class CompactedMemory(_Result):
    """What was done with an agent's logs."""

    agent: str
    memories: list[Compacted]


class Purged(_Result):
    """What one memory held of an agent."""

    memory: str
    files: int = Field(description="0 where only one user's items were deleted from files that are everybody's.")
    items: int | None = Field(description="null when they cannot be counted.")


class PurgedMemory(_Result):
    """What was, or would be, deleted."""

    agent: str | None
    memories: list[Purged]
    notes: list[str] = Field(description="What there is to know about what was deleted.")
    dry_run: bool


class Reindexed(_Result):
    """What building an index again did."""

    memory: str
    parts: int = Field(description="Files, or whatever the store reads at once.")
    items: int
    embedded: int = Field(description="Those of them that can be found by meaning.")
    problems: list[str]


class ReindexedMemories(_Result):
    """What building indexes again did."""

    memories: list[Reindexed]


class Verified(_Result):
    """What was read of an agent's memory, and what is wrong with it."""

    agent: str
    memory: str
    files: int
    items: int
    problems: list[Difficulty]


class VerifiedMemories(_Result):
    """What was read, and what is wrong with it."""

    agents: list[Verified]
    good: bool
