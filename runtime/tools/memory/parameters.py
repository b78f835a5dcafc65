"""Types of the parameters of the memory tools, from which their schemas are built."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from runtime.memory.item import PATTERN, MemoryType, RiskTier, tag_form
from runtime.search.question import RECOMMENDED_THRESHOLD
from runtime.tools.patterns import AGENT, ONE_OR_MORE, UUID
from runtime.tools.tool import ParameterAlias

LONGEST_CURSOR = 600

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
        description="The item's id, a UUID, or a unique prefix of four or more characters.",
    ),
]
_Name = Annotated[str, Field(min_length=1, max_length=64)]
MemoryName = Annotated[
    _Name | None, Field(description="The memory, by its name in the program; without it, all memories.")
]
MemoryToWrite = Annotated[
    _Name | None,
    Field(description="The memory, by its name in the program; without it, the one that the agent writes to."),
]
MemoryToInspect = Annotated[
    _Name | None,
    Field(
        description="The memory, by its name in the program; without it, the agent's own, or another one if only "
        "that has items of the agent."
    ),
]
MemoryToImport = Annotated[
    _Name | None,
    Field(
        description="The memory, by its name in the program; without it, the one that an item names, or else the one "
        "that its agent writes to."
    ),
]
MemoryOfId = Annotated[
    _Name | None,
    Field(description="The memory, by its name in the program; needed only if several memories have this id."),
]

Kind = Literal["fact", "pattern", "procedure", "episode", "semantic", "procedural", "episodic"]
WantedSummary = Annotated[
    Kind | None,
    Field(description="Only items of this type. `fact` is `semantic`, and so is `pattern`, with that tag."),
]
Written = Annotated[
    Kind,
    Field(
        description="The type: a `fact`, `pattern` or `procedure` is long-term, an `episode` is written to the "
        "log of its day."
    ),
]

Tag = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(tag_form)]
Tags = Annotated[list[Tag], Field(max_length=100, description="Its tags."), ONE_OR_MORE]
AnyTag = Annotated[
    list[Tag], Field(max_length=100, description="Only items with one or more of these tags."), ONE_OR_MORE
]
AllTags = Annotated[list[Tag], Field(max_length=100, description="Only items with all of these tags."), ONE_OR_MORE]
_Short = Annotated[str, Field(min_length=1, max_length=200)]
_Long = Annotated[str, Field(min_length=1, max_length=2000)]
Project = Annotated[_Short | None, Field(description="The project's id.")]
Source = Annotated[_Long | None, Field(description="The source, a URI or a path.")]
Threshold = Annotated[
    Annotated[float, Field(ge=0, le=1)] | None,
    Field(
        description=f"Only hits whose `relevance` is this or more; {RECOMMENDED_THRESHOLD} leaves out what only looks "
        "like an answer.",
        examples=[RECOMMENDED_THRESHOLD],
    ),
    ParameterAlias(("scoreThreshold",)),
]
User = Annotated[
    _Short | None,
    Field(
        description="The user, by name or by `id:` and the id. Other users require the scope `admin`; with that "
        "scope the default is all users."
    ),
]
Owner = Annotated[
    _Short | None,
    Field(
        description="The user who owns the item, by name or by `id:` and the id; the default is the caller. Other "
        "users require the scope `admin`."
    ),
]
WantedSubject = Annotated[
    _Long | None,
    Field(
        description="Only what belongs to this subject of keyed threads, such as a customer's number; without it, also "
        "what belongs to others and to none."
    ),
]
OwnSubject = Annotated[
    _Long | None,
    Field(
        description="The subject of keyed threads to which it belongs, such as a customer's number; without it, none."
    ),
]
Since = Annotated[
    Annotated[str, Field(min_length=1, max_length=40)] | None,
    Field(
        description="The earliest time: a date or time (ISO 8601, UTC unless it has an offset), or a duration "
        "before now, such as `7d`."
    ),
]
Until = Annotated[
    Annotated[str, Field(min_length=1, max_length=40)] | None,
    Field(description="The end of the period (exclusive), in the form of `since`."),
]

Query = Annotated[str, Field(max_length=2000, description="The query, as text.", examples=["rate limit"])]
Hits = Annotated[int, Field(ge=1, le=100, description="Maximum number of results.")]
Newest = Annotated[int, Field(ge=1, le=500, description="Maximum number of results.")]
Page = Annotated[int, Field(ge=1, le=1000, description="Maximum number of results; fewer if they are long.")]
Cursor = Annotated[
    Annotated[str, Field(max_length=LONGEST_CURSOR)] | None,
    Field(description="`next_cursor` of the previous page; without it, the first page."),
]
Day = Annotated[
    Annotated[str, Field(max_length=40)] | None,
    Field(description="The day of the log, `YYYY-MM-DD` in UTC; the default is today."),
]
DryRun = Annotated[bool, Field(description="Return what would be done, without doing it.")]

Text = Annotated[str, Field(description="The text of the item, up to 1,048,576 characters.")]
NewText = Annotated[str, Field(description="The new text, up to 1,048,576 characters.")]
Author = Annotated[_Short | None, Field(description="The author of the statement.")]
SessionId = Annotated[_Short | None, Field(description="The conversation or run that produced it.")]
Task = Annotated[_Long | None, Field(description="The task during which it was learned.")]
Confidence = Annotated[Annotated[float, Field(ge=0, le=1)] | None, Field(description="Confidence in it, from 0 to 1.")]
Risk = Annotated[RiskTier | None, Field(description="The risk of acting on it.")]
Commit = Annotated[_Short | None, Field(description="The commit that it concerns, as abbreviated by git.")]
Evidence = Annotated[list[_Long], Field(max_length=100, description="Files and URLs that support it.")]
Gates = Annotated[
    dict[_Short, _Long],
    Field(
        max_length=20,
        description="The value that closes each gate of the store, by its name: `done:…`, or `na:` and the "
        "reason; `tdd_proof` with `red:… green:…`.",
        examples=[{"governance": "na:read-only", "tdd_proof": "na:docs-only"}],
    ),
]
Lines = Annotated[
    list[dict[str, Any]],
    Field(
        max_length=1000,
        description="Items from an export; `user_id` defaults to one's own, and must be one's own without the "
        "scope `admin`.",
    ),
]
Into = Annotated[
    Annotated[str, Field(pattern=AGENT)] | None,
    Field(description="The agent of all items; without it, each item keeps its agent."),
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
"""The item type of each kind, and its extra tags."""
