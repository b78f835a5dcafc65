"""The tool that searches archival memory and conversations together (the fourth design, section 7.1), and the one that
builds a context for the prompts of other programs from both."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from runtime.errors import SymbiontError
from runtime.threads.thread import Threads
from runtime.tools.agent.access import named_agent
from runtime.tools.agent.types import AgentOrMain
from runtime.tools.archival.archive import archive_of
from runtime.tools.archival.memory import AnyTag, ArchivalHit, Limit, Query, found_in
from runtime.tools.context import Context, PromptRequest
from runtime.tools.conversations.overview import own_thread, threads_of
from runtime.tools.core_memory.recall import ConversationHit, ConversationHits, search_conversations
from runtime.tools.failure import wrong
from runtime.tools.patterns import EXAMPLE_ID, UUID
from runtime.tools.result import Result
from runtime.tools.tool import tool

WhatFor = Annotated[
    Query | None,
    Field(
        description="What memory is searched for, as text; without it, memory is not searched.",
        examples=["where does Ada live"],
    ),
]
ThreadId = Annotated[
    Annotated[str, Field(pattern=UUID)] | None,
    Field(
        description="The conversation, by its id; the default is the main one, or that of the subject.",
        examples=[EXAMPLE_ID],
    ),
]
Tokens = Annotated[int, Field(ge=256, le=1_000_000, description="Maximum tokens of the context, estimated.")]
Subject = Annotated[
    Annotated[str, Field(min_length=1, max_length=2000)] | None,
    Field(
        description="The subject of keyed threads with a memory of their own, such as a customer's number; without it, "
        "what belongs to no subject."
    ),
]


class KnownHits(Result):
    """Memories and messages of an agent, each list best first."""

    archival: list[ArchivalHit] = Field(description="Items of its archival memory.")
    conversations: list[ConversationHit] = Field(description="Parts of messages and of summaries.")
    notes: list[str] = Field(description="Notes about the search.")


class PromptMessage(Result):
    """A message of a context."""

    role: str = Field(description="`system`, `user` or `assistant`.")
    content: str


class PromptPartCost(Result):
    """A part of a context."""

    name: str
    tokens: int
    note: str = Field(description="Why it is missing or shorter; empty if it is whole.")


class AgentPrompt(Result):
    """A context for a prompt."""

    agent: str
    conversation_id: str | None = Field(description="The conversation whose messages it has; null: there is none.")
    subject: str | None
    messages: list[PromptMessage] = Field(description="The context as messages.")
    text: str = Field(description="The same as one text.")
    tokens: int = Field(description="The tokens of the messages, estimated.")
    parts: list[PromptPartCost] = Field(description="What it is made of.")
    notes: list[str] = Field(description="What gave way to the budget, and notes about the search.")


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
    said = await _hits(context, archive.agent, query, min(limit, _MOST_SAID), subject)
    notes = dict.fromkeys((*archival.notes, *said.notes))
    return KnownHits(archival=archival.hits, conversations=said.hits, notes=list(notes))


_MOST_SAID = 50
"""Maximum number of hits in conversations."""


async def _hits(context: Context, agent: str, query: str, limit: int, subject: str | None) -> ConversationHits:
    """Search the conversation of a subject, or all that are not of a subject."""
    if subject is None:
        return await search_conversations(context, query, limit, only=None, hidden=True)
    thread = await Threads(context.database, context.clock).find(context.caller.user_id, agent, subject)
    if thread is None:
        return ConversationHits(hits=[], notes=[])
    return await search_conversations(context, query, limit, only=thread.id, hidden=False)


@tool("read", example={"agent": "assistant", "query": "where does Ada live", "tokens": 4000})
async def agent_context(
    context: Context,
    query: WhatFor = None,
    thread: ThreadId = None,
    tokens: Tokens = 4000,
    agent: AgentOrMain = None,
    subject: Subject = None,
) -> AgentPrompt:
    """Build a context for a prompt from what an agent knows, without a model.

    It has the blocks, the preferences, the summary and the newest messages of a conversation, and what archival memory
    and earlier conversations know about `query`. Nothing is stored.
    """
    if thread is not None and subject is not None:
        raise wrong("subject", "the conversation has its own subject", hint="leave out `thread` or `subject`")
    name = named_agent(context, agent).name
    user_id = context.caller.user_id
    if context.build_prompt is None:
        raise SymbiontError("agents are not available here")
    if thread is None:
        found = await threads_of(context).find(user_id, name, subject)
    else:
        found = await own_thread(context, thread, name, None)
    built = await context.build_prompt(context, PromptRequest(name, user_id, found, subject, query, tokens))
    return AgentPrompt(
        agent=name,
        conversation_id=None if found is None else found.id,
        subject=subject if found is None else found.subject,
        messages=[PromptMessage(role=role, content=text) for role, text in built.messages],
        text="\n\n".join(text if role == "system" else f"{role}: {text}" for role, text in built.messages),
        tokens=built.tokens,
        parts=[PromptPartCost(**part._asdict()) for part in built.parts],
        notes=list(built.notes),
    )
