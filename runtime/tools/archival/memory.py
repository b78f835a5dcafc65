"""The tools on archival memory (the fourth design, section 6.1)."""

from __future__ import annotations

from runtime.clock import utc
from runtime.memory.item import Item, delivery_origin
from runtime.search.question import Question
from runtime.tools.agent.types import AgentOrMain
from runtime.tools.archival.archive import Archive, archive_of
from runtime.tools.archival.types import (
    AnyTag,
    ArchivalHit,
    ArchivalHits,
    ArchivedItem,
    Content,
    ForgottenId,
    Limit,
    NewTags,
    OldId,
    Query,
    Subject,
    Tags,
)
from runtime.tools.context import Context
from runtime.tools.memory.results import ForgottenItem
from runtime.tools.memory.search import shown_notes
from runtime.tools.patterns import EXAMPLE_ID
from runtime.tools.tool import LARGEST_ITEMS, tool


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
    return _archived(*await archive.insert(content, tags))


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
    question = Question(text=query, now=utc(context.clock.now()), limit=limit, wanted=archive.wanted(tags))
    found = await archive.memory.search(question, context.progress, owner=context.call_owner)
    hits = [
        ArchivalHit(
            memory_id=hit.item.memory_id,
            content=hit.item.text,
            tags=list(hit.item.tags),
            memory_type=hit.item.memory_type,
            timestamp=hit.item.timestamp,
            relevance=hit.relevance,
            origin=delivery_origin(hit.item),
        )
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
    return _archived(*await archive.replace(memory_id, content, tags))


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


def _archived(item: Item, own: bool) -> ArchivedItem:
    return ArchivedItem(
        outcome="stored" if own else "there",
        memory_id=item.memory_id,
        tags=list(item.tags),
        timestamp=item.timestamp,
        replaces=item.replaces,
    )
