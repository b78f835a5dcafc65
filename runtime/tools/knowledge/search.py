"""The tool that searches archival memory and conversations together (the fourth design, section 7.1)."""

from __future__ import annotations

from runtime.threads.thread import Threads
from runtime.tools.agent.types import AgentOrMain
from runtime.tools.archival.archive import archive_of
from runtime.tools.archival.memory import found_in
from runtime.tools.archival.types import AnyTag, Limit, Query
from runtime.tools.context import Context
from runtime.tools.core_memory.recall import ConversationHits, search_conversations
from runtime.tools.knowledge.types import KnownHits, Subject
from runtime.tools.tool import tool


@tool("read", group="agents", example={"agent": "assistant", "query": "where does Ada live", "limit": 5})
async def agent_memory_search(
    context: Context,
    query: Query,
    tags: AnyTag = [],  # noqa: B006 - never changed
    limit: Limit = 10,
    agent: AgentOrMain = None,
    subject: Subject = None,
) -> KnownHits:
    """Search an agent's archival memory and the user's conversations together.

    Both are searched by meaning and by words. `tags` restrict archival memory alone.
    """
    return await search_knowledge(context, query, tags, limit, agent, subject)


async def search_knowledge(
    context: Context, query: str, tags: list[str], limit: int, agent: str | None, subject: str | None
) -> KnownHits:
    """Return at most `limit` hits of an agent's archival memory, and of the conversations of the user."""
    archive = await archive_of(context, agent, subject)
    archival = await found_in(archive, query, tags, limit)
    said = await _said(context, archive.agent, query, min(limit, _MOST_SAID), subject)
    notes = dict.fromkeys((*archival.notes, *said.notes))
    return KnownHits(archival=archival.hits, conversations=said.hits, notes=list(notes))


_MOST_SAID = 50
"""Maximum number of hits in conversations."""


async def _said(context: Context, agent: str, query: str, limit: int, subject: str | None) -> ConversationHits:
    """Search the conversation of a subject, or all that are not of a subject."""
    if subject is None:
        return await search_conversations(context, query, limit, only=None, hidden=True)
    thread = await Threads(context.database, context.clock).find(context.caller.user_id, agent, subject)
    if thread is None:
        return ConversationHits(hits=[], notes=[])
    return await search_conversations(context, query, limit, only=thread.id, hidden=False)
