"""The tool by which an agent searches earlier conversations (the fourth design, section 6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from runtime.clock import utc
from runtime.database import bulk
from runtime.database.schema import messages, threads
from runtime.errors import NotFound
from runtime.memory.open_memory import FoundHit
from runtime.memory.recall.items import MessagePlace, place_of
from runtime.search.entry import ALL_SUBJECTS, EntryFilter
from runtime.search.question import Question
from runtime.suggestions import did_you_mean
from runtime.threads.content import Role
from runtime.threads.deletion import DELETED
from runtime.threads.thread import Threads
from runtime.tools.context import Context
from runtime.tools.memory.read import shown_notes

_NOTHING: Final = "no agent of the program has a model, so there are no conversations to search"
_SPARE: Final = 10
"""Hits that are searched beyond the limit, because some may have been deleted since."""

Query = Annotated[
    str,
    Field(max_length=2000, description="What to look for, as text.", examples=["which restaurant did they like"]),
]
Conversation = Annotated[
    Annotated[str, Field(min_length=1, max_length=64)] | None,
    Field(description="The id of a conversation, to search only that one; the default is all of the user's."),
]
Limit = Annotated[int, Field(ge=1, le=50, description="Maximum number of results.")]


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True)


class ConversationHit(_Result):
    """A part of a message, or of a summary of earlier messages."""

    conversation_id: str
    agent: str = Field(description="The agent of the conversation.")
    role: Role | None = Field(description="Who said it; null: it is a summary.")
    position: int | None = Field(description="The number of the message in its conversation, from 0.")
    time: datetime
    text: str
    relevance: float = Field(description="How well it fits, from 0 to 1.")


class ConversationHits(_Result):
    """The hits, best first."""

    hits: list[ConversationHit]
    notes: list[str] = Field(description="Notes about the search.")


async def conversation_search(
    context: Context, query: Query, conversation_id: Conversation = None, limit: Limit = 10
) -> ConversationHits:
    """Search what was said in the user's conversations, by meaning and by words.

    It covers messages, outputs of tools, and summaries of earlier messages, of the conversations with all agents.
    """
    only = await _only(context, conversation_id)
    return await search_conversations(context, query, limit, only=only, hidden=_hides_subjects(context))


async def search_conversations(
    context: Context, query: str, limit: int, *, only: str | None, hidden: bool
) -> ConversationHits:
    """Search the caller's conversations, or `only` the one with this id. `hidden`: not those of subjects."""
    if context.recall is None:
        return ConversationHits(hits=[], notes=[_NOTHING])
    wanted = EntryFilter(user=context.caller.user_id, project=only, subject=None if hidden else ALL_SUBJECTS)
    question = Question(text=query, now=utc(context.clock.now()), limit=limit + _SPARE, wanted=wanted)
    found = await context.recall.search(question, context.progress, owner=context.call_owner)
    hits = await _present(context, found.hits, hidden=hidden)
    return ConversationHits(hits=hits[:limit], notes=list(shown_notes(context, context.recall, found.notes)))


async def _only(context: Context, conversation_id: str | None) -> str | None:
    """Return the conversation to search; None for all. An agent that is bound to a subject sees that subject's alone.
    Raises NotFound."""
    acting, user_id = context.acting, context.caller.user_id
    if acting is not None and acting.subject is not None:
        # A keyed thread has all that was said about its subject.
        if acting.thread_id is None or conversation_id not in (None, acting.thread_id):
            raise _not_found(conversation_id or "")
        return acting.thread_id
    if conversation_id is not None:
        stored, hidden = Threads(context.database, context.clock), _hides_subjects(context)
        with suppress(NotFound):
            thread = await stored.get(conversation_id, user_id=user_id)
            if thread.subject is None or not hidden:
                return thread.id
        raise _not_found(conversation_id, await stored.nearest(conversation_id, user_id, subjects=not hidden))
    return None


def _not_found(conversation_id: str, near: Sequence[str] = ()) -> NotFound:
    hint = did_you_mean(near) if near else "leave conversation_id out, or take it from a hit"
    return NotFound(f"there is no conversation {conversation_id}", hint=hint)


def _hides_subjects(context: Context) -> bool:
    return context.acting is not None and context.acting.hides_subjects


class _Found(NamedTuple):
    """A hit and the message that it is of."""

    hit: FoundHit
    place: MessagePlace


async def _present(context: Context, hits: Sequence[FoundHit], *, hidden: bool) -> list[ConversationHit]:
    """Return the hits that still exist, as the index may be behind a deletion by another process, and that may be seen
    if the threads of subjects are `hidden`."""
    found = [_Found(hit, place_of(hit.item)) for hit in hits]
    ids = sorted({(each.place.thread_id,) for each in found})
    said = sorted({(thread_id, at) for _, (thread_id, at) in found if at is not None})
    async with context.database.read() as connection:
        kinds = await connection.run_sync(bulk.find, threads, ("id",), ("user_id", "kind", "subject"), ids)
        roles = await connection.run_sync(bulk.find, messages, ("thread_id", "position"), ("role",), said)
    theirs = {
        thread_id
        for thread_id, owner, kind, subject in kinds
        if owner == context.caller.user_id and kind != DELETED and not (hidden and subject is not None)
    }
    role_of = {(thread_id, position): role for thread_id, position, role in roles}
    return [
        ConversationHit(
            conversation_id=place.thread_id,
            agent=hit.item.agent_id,
            role=role_of.get((place.thread_id, place.position)),
            position=place.position,
            time=hit.item.timestamp,
            text=hit.item.text,
            relevance=hit.relevance,
        )
        for hit, place in found
        if place.thread_id in theirs and (place.position is None or place in role_of)
    ]
