"""A context for the prompts of other programs: what an agent knows, within a budget, without a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dslc.blocks.agent import Agent
from runtime.agents.attempt import declared_blocks, memory_subject
from runtime.agents.context.build import build
from runtime.agents.context.fields import Budget, Count, Entry
from runtime.agents.context.render import fenced, join_paragraphs
from runtime.agents.fixed_context import memory_fields
from runtime.agents.loop.thread_state import open_runs
from runtime.agents.loop.transcript import calls_without_output, entries_of, without_calls
from runtime.agents.services import AgentServices
from runtime.crypto import Unsealable
from runtime.memory.core.block import BlockScope
from runtime.threads.thread import Thread
from runtime.token_counter import TokenCounter
from runtime.tools.agent.access import named_agent
from runtime.tools.context import BuiltPrompt, Context, PromptPart, PromptRequest
from runtime.tools.knowledge.knowledge import KnownHits, search_knowledge

HITS: Final = 10
"""Maximum number of items, and of parts of conversations, that memory is asked for."""
_KNOWN_SHARE: Final = 4
"""Memories about the query have at most this part of the context."""


class _ThreadExcerpt(NamedTuple):
    """The newest messages of a thread, and the summary of those before."""

    entries: tuple[Entry, ...] = ()
    summary: str = ""


async def build_prompt(services: AgentServices, context: Context, request: PromptRequest) -> BuiltPrompt:
    """Return the knowledge of an agent as a context for a prompt. Nothing is stored, and no model is asked.

    Raises `Unsealable`, and StoreError for a memory that cannot be read.
    """
    agent, counter = named_agent(context, request.agent), TokenCounter()
    subject = request.subject if request.thread is None else memory_subject(request.thread, agent)
    blocks = await services.blocks.blocks(BlockScope(request.user_id, agent.name, subject), declared_blocks(agent))
    preferences, notes = await _preferences(services, context, agent, request.user_id)
    excerpt = await _thread_excerpt(services, request.thread, request.tokens)
    hits = await _search_memory(context, agent, subject, request.query)
    known = _memory_text(hits, excerpt, request, counter.count)
    fields = memory_fields(blocks, preferences)._replace(entries=excerpt.entries, summary=excerpt.summary, known=known)
    built = build(fields, Budget(request.tokens, 0), counter.count)
    return BuiltPrompt(
        messages=[(message.role, message.text) for message in built.messages if message.text],
        tokens=built.tokens,
        parts=[PromptPart(*each) for each in built.parts if each.tokens or each.note],
        notes=[*built.notes, *notes, *hits.notes],
    )


async def _preferences(
    services: AgentServices, context: Context, agent: Agent, user_id: str
) -> tuple[Mapping[str, Any], Sequence[str]]:
    """Return the settings of the user, and a note if they cannot be read."""
    try:
        return (await services.own_agent(context.program, agent, user_id)).settings, ()
    except Unsealable:
        return {}, ["the preferences are left out: the settings of the user cannot be read"]


async def _thread_excerpt(services: AgentServices, thread: Thread | None, tokens: int) -> _ThreadExcerpt:
    if thread is None:
        return _ThreadExcerpt()
    summary = await services.summaries.latest(thread)
    after = -1 if summary is None else summary.last_position
    newest = await services.messages.newest_within(thread, tokens, after=after)
    waiting = await open_runs(services.messages, calls_without_output(newest))
    entries = tuple(without_calls(entry) for entry in entries_of(newest, native=True, open_runs=waiting))
    return _ThreadExcerpt(entries, "" if summary is None else summary.text)


async def _search_memory(context: Context, agent: Agent, subject: str | None, query: str | None) -> KnownHits:
    if query is None:
        return KnownHits(archival=[], conversations=[], notes=[])
    return await search_knowledge(context, query, [], HITS, agent.name, subject)


def _memory_text(hits: KnownHits, excerpt: _ThreadExcerpt, request: PromptRequest, count: Count) -> str:
    """Return memories about the query as text, without the messages that the context has anyway."""
    room = request.tokens // _KNOWN_SHARE // 2
    here = None if request.thread is None or not excerpt.entries else request.thread.id
    messages = (
        f"- {hit.time:%Y-%m-%d} {hit.role or 'summary'}: {hit.text}"
        for hit in hits.conversations
        if hit.conversation_id != here or hit.position is None or hit.position < excerpt.entries[0].position
    )
    archival = _lines_within((f"- {hit.content}{_origin(hit.origin)}" for hit in hits.archival), room, count)
    conversations = _lines_within(messages, room, count)
    return join_paragraphs((_section("archival", archival), _section("conversations", conversations)))


def _origin(origin: str | None) -> str:
    return f" [{origin}]" if origin else ""


def _lines_within(lines: Iterable[str], room: int, count: Count) -> list[str]:
    """Return the lines that fit into `room` tokens, the best of them first."""
    kept = []
    for line in lines:
        tokens = count(line) + 1
        if tokens <= room:
            kept.append(line)
            room -= tokens
    return kept


def _section(tag: str, lines: Sequence[str]) -> str:
    return fenced(tag, "\n".join(lines)) if lines else ""
