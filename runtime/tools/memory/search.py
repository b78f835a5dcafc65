"""The tool that searches agents' memories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from runtime.clock import utc
from runtime.memory.open_memory import FoundHit, OpenMemory
from runtime.memory.redaction.redact import redact
from runtime.search.engine import BY_KEYWORD
from runtime.search.entry import EntryFilter
from runtime.search.question import Question
from runtime.tools.context import Context
from runtime.tools.memory import parameters as param
from runtime.tools.memory.access import (
    asked_user,
    kept_item,
    memories_of,
    moment,
    sees_all,
    subject_filter,
    user_filter,
    visible_location,
)
from runtime.tools.memory.results import MemoryHit, MemoryHits, scores_of
from runtime.tools.tool import tool


@tool("read", example={"agent": "reviewer", "query": "rate limit", "limit": 5})
async def memory_search(
    context: Context,
    agent: param.Agent,
    query: param.Query,
    *,
    limit: param.Hits = 10,
    type: param.WantedSummary = None,  # noqa: A002 - the word of the design
    tag: param.AnyTag = [],  # noqa: B006 - never changed
    all_tags: param.AllTags = [],  # noqa: B006
    since: param.Since = None,
    until: param.Until = None,
    project: param.Project = None,
    source: param.Source = None,
    user: param.User = None,
    subject: param.WantedSubject = None,
    score_threshold: param.Threshold = None,
    memory: param.MemoryName = None,
) -> MemoryHits:
    """Search what an agent remembers, by meaning and by words.

    The score of a hit orders the hits of one memory. `parts` are the contributions of meaning (`vector`), words
    (`keyword`), neighbouring items (`neighbours`), `author` and `date` to it. `relevance`, from 0 to 1, is how well the
    hit itself fits: with a `score_threshold` of 0.55 a question about an unknown topic finds nothing. `notes` report
    limitations, for instance that vectors were not available. Items that a newer one replaced are not found.
    """
    kind, tags = (None, frozenset[str]()) if type is None else param.TYPES[type]
    wanted = EntryFilter(
        agent=agent,
        type=kind,
        user=user_filter(context, await asked_user(context, user)),
        project=project,
        source=None if source is None else redact(source),
        tags_any=frozenset(tag),
        tags_all=tags.union(all_tags),
        since=moment(context, since, "since"),
        until=moment(context, until, "until"),
        subject=subject_filter(context, subject),
        current=True,
    )
    now = utc(context.clock.now())
    asked = Question(text=query, now=now, limit=limit, wanted=wanted, threshold=score_threshold or 0.0)
    hits: list[tuple[float, OpenMemory, FoundHit]] = []
    notes: dict[str, None] = {}
    for each in await memories_of(context, agent, memory):
        found = await each.search(asked, context.progress, owner=context.call_owner)
        # Scores of different memories are not comparable. Each memory's hits keep their order; its first hit is sorted
        # by the highest of its relevances, its second by the next one.
        by_relevance = sorted((hit.relevance for hit in found.hits), reverse=True)
        hits += [(rank, each, hit) for rank, hit in zip(by_relevance, found.hits, strict=True)]
        notes.update(dict.fromkeys(shown_notes(context, each, found.notes)))
    best = sorted(hits, key=lambda each: -each[0])[:limit]
    return MemoryHits(hits=[_hit(context, where, hit) for _, where, hit in best], notes=list(notes))


_INDEX_BEHIND: Final = "the index cannot be read or written, so not everything is searched"


def shown_notes(context: Context, memory: OpenMemory, notes: Iterable[str]) -> Iterator[str]:
    """Return the notes as the caller may see them: files and services are named to administrators only."""
    for note in notes:
        if sees_all(context):
            yield note
        elif note.startswith(BY_KEYWORD):
            yield BY_KEYWORD
        elif note == memory.indexer.failure:
            yield _INDEX_BEHIND
        else:
            yield note if memory.folder is None else note.replace(f"{memory.folder}/", "")


def _hit(context: Context, where: OpenMemory, hit: FoundHit) -> MemoryHit:
    file, line = visible_location(context, hit.item.agent_id, hit.place)
    return MemoryHit(item=kept_item(hit.item, where), **scores_of(hit), file=file, line=line)
