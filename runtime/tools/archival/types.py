"""Types of the parameters and results of the archival tools, from which their schemas are built."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from runtime.memory.item import MemoryType, tag_form
from runtime.tools.patterns import ONE_OR_MORE, UUID
from runtime.tools.result import Result


def _tag(value: str) -> str:
    """Return a tag as the fourth design has it: trimmed, in lower case."""
    if not value.strip():
        raise ValueError("a tag is blank")
    return tag_form(value.strip().lower())


def _unique(tags: list[str]) -> list[str]:
    return list(dict.fromkeys(tags))


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("it is blank")
    return value


_Tag = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_tag)]
_TagList = Annotated[list[_Tag], Field(max_length=100), AfterValidator(_unique), ONE_OR_MORE]

Subject = Annotated[
    Annotated[str, Field(min_length=1, max_length=2000)] | None,
    Field(
        description="The subject of keyed threads with a memory of their own, such as a customer's number; without it, "
        "the items without a subject."
    ),
]
Content = Annotated[
    str, Field(description="A statement that is understood without context."), AfterValidator(_not_blank)
]
Tags = Annotated[_TagList, Field(description="In lower case.", examples=[["travel"]])]
NewTags = Annotated[_TagList | None, Field(description="Default: those of the older item.")]
AnyTag = Annotated[_TagList, Field(description="Only items with one of these tags.")]
Query = Annotated[
    str,
    Field(max_length=2000, description="What to look for.", examples=["where does the user live"]),
    AfterValidator(_not_blank),
]
Limit = Annotated[int, Field(ge=1, le=100, description="Maximum number of results.")]
OldId = Annotated[str, Field(pattern=UUID, description="Its `memory_id`.")]
ForgottenId = Annotated[str, Field(pattern=UUID, description="The `memory_id` of the item to delete.")]


class ArchivedItem(Result):
    """The item that was written, without its text."""

    outcome: Literal["stored", "there"] = Field(description="`there`: the same text was stored before.")
    memory_id: str
    tags: list[str]
    timestamp: datetime
    replaces: str | None = Field(None, description="The id of the older item.")


class ArchivalHit(Result):
    """A hit."""

    memory_id: str
    content: str
    tags: list[str]
    memory_type: MemoryType
    timestamp: datetime
    relevance: float = Field(description="How well it fits, from 0 to 1.")
    origin: str | None = Field(description="That it is from a delivery, if it is: its text may be a stranger's.")


class ArchivalHits(Result):
    """The hits, best first."""

    hits: list[ArchivalHit]
    notes: list[str] = Field(description="Notes about the search.")
