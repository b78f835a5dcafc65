"""The tool by which an agent searches earlier conversations (the fourth design, section 6.3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from runtime.clock import utc
from runtime.database import bulk
from runtime.database.schema import messages, threads
from runtime.errors import NotFound
from runtime.memory.open_memory import FoundHit
from runtime.memory.recall.message_items import MessagePlace, place_of
from runtime.search.entry import ALL_SUBJECTS, EntryFilter
from runtime.search.question import Question
from runtime.search.stop_words import STOP_WORDS
from runtime.suggestions import did_you_mean
from runtime.threads.content import Role
from runtime.threads.removal.deletion import DELETED
from runtime.threads.thread import Threads
from runtime.tools.context import ActingAgent, Context
from runtime.tools.memory.search import shown_notes
from runtime.tools.result import Result
from runtime.tools.tool import tool

_NOTHING: Final = "no agent of the program has a model, so there are no conversations to search"
_SPARE: Final = 10
"""Hits that are searched beyond the limit, because some are not shown."""
_MOST: Final = 500
"""Maximum number of hits of which those to show are chosen."""
_VISIBLE: Final = "what fits and is in your context is left out"
_WORD: Final = re.compile(r"[^\W_]+")

Query = Annotated[
    str,
    Field(max_length=2000, description="What to look for.", examples=["which restaurant did they like"]),
]
Conversation = Annotated[
    Annotated[str, Field(min_length=1, max_length=64)] | None,
    Field(description="Only the one with this id."),
]
Limit = Annotated[int, Field(ge=1, le=50, description="Maximum number of results.")]


class ConversationHit(Result):
    """A part of a message, or of a summary of earlier messages."""

    conversation_id: str
    agent: str = Field(description="The agent of the conversation.")
    role: Role | None = Field(description="Who said it; null: it is a summary.")
    position: int | None = Field(description="The number of the message in its conversation, from 0.")
    time: datetime
    text: str
    relevance: float = Field(description="How well it fits, from 0 to 1.")


class ConversationHits(Result):
    """The hits, best first."""

    hits: list[ConversationHit]
    notes: list[str] = Field(description="Notes about the search.")


@tool("read", indexes=True, example={"query": "which restaurant did they like", "limit": 5})
async def conversation_search(
    context: Context, query: Query, conversation_id: Conversation = None, limit: Limit = 10
) -> ConversationHits:
    """Search earlier conversations of the user.

    Messages, outputs of tools of MCP servers, and summaries of earlier messages are searched, by meaning and by words,
    in the conversations with all agents. What the calling agent has in its context is left out.
    """
    only = await _own_conversation(context, conversation_id)
    return await search_conversations(context, query, limit, only=only, hidden=_hides_subjects(context))


async def search_conversations(
    context: Context, query: str, limit: int, *, only: str | None, hidden: bool
) -> ConversationHits:
    """Search the caller's conversations, or `only` the one with this id. `hidden`: not those of subjects.

    A text that was said several times is one hit. Questions that say no more than the query come last.
    """
    if context.recall is None:
        return ConversationHits(hits=[], notes=[_NOTHING])
    wanted = EntryFilter(user=context.caller.user_id, project=only, subject=None if hidden else ALL_SUBJECTS)
    question = Question(text=query, now=utc(context.clock.now()), limit=limit + _SPARE, wanted=wanted)
    while True:
        found = await context.recall.search(question, context.progress, owner=context.call_owner)
        present = await _stored_hits(context, found.hits, hidden=hidden)
        hits = _rank(query, present)
        if len(hits) >= limit or len(found.hits) < question.limit or question.limit >= _MOST:
            break
        question = replace(question, limit=min(5 * question.limit, _MOST))
    notes = list(shown_notes(context, context.recall, found.notes))
    if any(each.seen for each in present):
        notes.append(_VISIBLE)
    return ConversationHits(hits=hits[:limit], notes=notes)


def _rank(query: str, present: Sequence[_StoredHit]) -> list[ConversationHit]:
    """Return the hits that are not seen, in their order, each text once. Messages that ask what the query asks come
    last: they say nothing new. What was answered to them was found because of them, in part, so it comes after hits
    that fit better by themselves."""
    asked = _words(query)
    again = {each.hit.text for each in present if each.hit.text.rstrip().endswith("?")}
    again = {text for text in again if _words(text) <= asked}
    answers = {each.run_id for each in present if each.hit.text in again}
    texts: dict[str, _StoredHit] = {}
    for each in present:
        if not each.seen:
            texts.setdefault(" ".join(each.hit.text.casefold().split()), each)
    places: dict[int, float] = {}
    for place, each in enumerate(texts.values()):
        better = [at for at, other in enumerate(texts.values()) if other.hit.relevance > each.hit.relevance]
        last = max(better, default=-1) + 0.5 if each.run_id in answers else 0
        places[id(each)] = len(texts) + place if each.hit.text in again else max(place, last)
    return [each.hit for each in sorted(texts.values(), key=lambda each: places[id(each)])]


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold())) - STOP_WORDS


async def _own_conversation(context: Context, conversation_id: str | None) -> str | None:
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


class _StoredHit(NamedTuple):
    """A hit that is still there. `run_id`: the run that stored the message. `seen`: the acting agent has it in its
    context."""

    hit: ConversationHit
    run_id: str | None
    seen: bool


class _MessageHit(NamedTuple):
    """A hit and the message that it is of."""

    hit: FoundHit
    place: MessagePlace


async def _stored_hits(context: Context, hits: Sequence[FoundHit], *, hidden: bool) -> list[_StoredHit]:
    """Return the hits that still exist, as the index may be behind a deletion by another process, and that may be seen
    if the threads of subjects are `hidden`."""
    found = [_MessageHit(hit, place_of(hit.item)) for hit in hits]
    ids = sorted({(each.place.thread_id,) for each in found})
    said = sorted({(thread_id, at) for _, (thread_id, at, _) in found if at is not None})
    async with context.database.read() as connection:
        kinds = await connection.run_sync(bulk.find, threads, ("id",), ("user_id", "kind", "subject"), ids)
        roles = await connection.run_sync(
            bulk.find, messages, ("thread_id", "position"), ("role", "run_id", "tokens"), said
        )
    theirs = {
        thread_id
        for thread_id, owner, kind, subject in kinds
        if owner == context.caller.user_id and kind != DELETED and not (hidden and subject is not None)
    }
    about = {(thread_id, position): rest for thread_id, position, *rest in roles}
    present = []
    for hit, place in found:
        if place.thread_id not in theirs or (place.position is not None and place[:2] not in about):
            continue
        role, run_id, tokens = about.get(place[:2], (None, None, 0))
        seen = _is_seen(context.acting, place, run_id, tokens)
        present.append(_StoredHit(_hit(hit, place, role), run_id, seen))
    return present


def _is_seen(acting: ActingAgent | None, place: MessagePlace, run_id: str | None, tokens: int) -> bool:
    """Return True for a message or a summary that the acting agent has in its context."""
    if acting is None or place.thread_id != acting.thread_id:
        return False
    seen = acting.seen
    if place.position is None:
        return seen is not None and place.summary == seen.summary
    return run_id == acting.run_id or (seen is not None and place.position >= seen.first and tokens <= seen.tokens)


def _hit(hit: FoundHit, place: MessagePlace, role: Role | None) -> ConversationHit:
    return ConversationHit(
        conversation_id=place.thread_id,
        agent=hit.item.agent_id,
        role=role,
        position=place.position,
        time=hit.item.timestamp,
        text=hit.item.text,
        relevance=hit.relevance,
    )
