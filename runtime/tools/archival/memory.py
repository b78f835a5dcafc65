"""The tools on archival memory (the fourth design, section 6.1)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from runtime.clock import utc
from runtime.memory.item import Item, MemoryType, delivery_origin, tag_form
from runtime.search.question import Question
from runtime.tools.agent.types import AgentOrMain
from runtime.tools.archival.archive import Archive, archive_of
from runtime.tools.context import Context
from runtime.tools.memory.results import ForgottenItem
from runtime.tools.memory.search import shown_notes
from runtime.tools.patterns import EXAMPLE_ID, NOT_BLANK, ONE_OR_MORE, UNIQUE, UUID
from runtime.tools.result import Result
from runtime.tools.tool import LARGEST_ITEMS, tool


def _tag(value: str) -> str:
    """Return a tag as the fourth design has it: trimmed, in lower case."""
    if not value.strip():
        raise ValueError("a tag is blank")
    return tag_form(value.strip().lower())


_Tag = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_tag)]
_TagList = Annotated[list[_Tag], Field(max_length=100), UNIQUE, ONE_OR_MORE]

Subject = Annotated[
    Annotated[str, Field(min_length=1, max_length=2000)] | None,
    Field(
        description="The subject of keyed threads with a memory of their own, such as a customer's number; without it, "
        "the items without a subject."
    ),
]
Content = Annotated[str, Field(description="A statement that is understood without context."), NOT_BLANK]
Tags = Annotated[_TagList, Field(description="In lower case.", examples=[["travel"]])]
NewTags = Annotated[_TagList | None, Field(description="Default: those of the older item.")]
AnyTag = Annotated[_TagList, Field(description="Only items with one of these tags.")]
Query = Annotated[
    str,
    Field(max_length=2000, description="What to look for.", examples=["where does the user live"]),
    NOT_BLANK,
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


@tool(
    "write",
    stores=True,
    largest=LARGEST_ITEMS,
    keyed=True,
    example={"agent": "assistant", "content": "Ada lives in Lyon.", "tags": ["home"]},
)
async def archival_insert(
    context: Context,
    content: Content,
    tags: Tags = [],  # noqa: B006 - never changed
    agent: AgentOrMain = None,
    subject: Subject = None,
) -> ArchivedItem:
    """Store a statement in long-term memory.

    Use it for what may matter later but need not always be in the context. A statement that is stored already is not
    stored twice. If it contradicts an older one, use archival_replace.
    """
    archive = await archive_of(context, agent, subject)
    return _archived_item(*await archive.insert(content, tags))


@tool("read", example={"agent": "assistant", "query": "where does Ada live", "tags": ["home"], "limit": 5})
async def archival_search(
    context: Context,
    query: Query,
    tags: AnyTag = [],  # noqa: B006
    limit: Limit = 10,
    agent: AgentOrMain = None,
    subject: Subject = None,
) -> ArchivalHits:
    """Search long-term memory.

    It is searched by meaning and by words. Statements that were replaced by newer ones are not found.
    """
    return await found_in(await archive_of(context, agent, subject), query, tags, limit)


async def found_in(archive: Archive, query: str, tags: list[str], limit: int) -> ArchivalHits:
    """Search an archival memory."""
    context = archive.context
    question = Question(text=query, now=utc(context.clock.now()), limit=limit, wanted=archive.tag_filter(tags))
    found = await archive.memory.search(question, context.progress, owner=context.call_owner)
    hits = [
        ArchivalHit.of(hit.item, content=hit.item.text, relevance=hit.relevance, origin=delivery_origin(hit.item))
        for hit in found.hits
    ]
    return ArchivalHits(hits=hits, notes=list(shown_notes(context, archive.memory, found.notes)))


@tool(
    "write",
    stores=True,
    largest=LARGEST_ITEMS,
    keyed=True,
    example={
        "agent": "assistant",
        "memory_id": EXAMPLE_ID,
        "content": "Ada lives in Oslo.",
    },
)
async def archival_replace(
    context: Context,
    memory_id: OldId,
    content: Content,
    tags: NewTags = None,
    agent: AgentOrMain = None,
    subject: Subject = None,
) -> ArchivedItem:
    """Replace a statement in long-term memory that is no longer valid.

    The older one stays readable with the time until which it was valid, but is not found any more. One that was
    replaced already cannot be replaced again: the error names the newest.
    """
    archive = await archive_of(context, agent, subject)
    return _archived_item(*await archive.replace(memory_id, content, tags))


@tool("write", destructive=True, example={"agent": "assistant", "memory_id": EXAMPLE_ID})
async def archival_forget(
    context: Context, memory_id: ForgottenId, agent: AgentOrMain = None, subject: Subject = None
) -> ForgottenItem:
    """Delete a statement from long-term memory permanently.

    Statements in records cannot be deleted. If one is no longer valid, use archival_replace.
    """
    archive = await archive_of(context, agent, subject)
    await archive.forget(memory_id)
    return ForgottenItem(memory_id=memory_id, agent=archive.agent, memory=archive.memory.name)


def _archived_item(item: Item, own: bool) -> ArchivedItem:
    return ArchivedItem.of(item, outcome="stored" if own else "there")
