"""`search`: search of a collection (the fifth design, M6 to M8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runtime.clock import utc
from runtime.errors import UsageError
from runtime.memory.item import delivery_origin
from runtime.memory.redaction.redact import redact
from runtime.search.entry import EntryFilter
from runtime.search.question import Question
from runtime.tools.collection import types
from runtime.tools.collection.access import find_collection
from runtime.tools.context import Context
from runtime.tools.failure import wrong
from runtime.tools.memory.access import subject_filter, user_filter
from runtime.tools.memory.parameters import Threshold, WantedSubject
from runtime.tools.memory.results import scores_of
from runtime.tools.memory.search import shown_notes
from runtime.tools.time_input import Within
from runtime.tools.tool import tool

LONGEST_LINE: Final = 1200
"""Maximum characters of one hit in the context."""
LONGEST_CONTEXT: Final = 12_000
"""Maximum characters of the whole context."""


@tool(
    "read",
    example={
        "query_text": "current architecture plan",
        "project_id": "default",
        "memory_type": "episodic",
        "tags": ["architecture"],
        "time_range": {"start": "2026-01-01T00:00:00Z", "end": "2026-12-31T23:59:59Z"},
        "limit": 5,
    },
)
async def search(
    context: Context,
    query_text: types.Query,
    *,
    project_id: types.Project = None,
    memory_type: types.Type = None,
    tags: types.WantedTags = [],  # noqa: B006 - never changed
    tags_all: types.AllTags = [],  # noqa: B006
    time_range: Within = None,
    source_uri: types.WantedSource = None,
    subject: WantedSubject = None,
    limit: types.Limit = 10,
    score_threshold: Threshold = None,
    collection: types.Collection = None,
) -> types.SearchResult:
    """Search a collection by meaning and by words at once.

    Filter by project, type, tags, source or time; with a `score_threshold` of 0.55 a question about an unknown topic
    finds nothing. `context` contains the hits as numbered lines for a prompt; `used_filters` shows the filters as they
    were understood, and `notes` report limitations of the search.
    """
    target = await find_collection(context, collection)
    wanted = EntryFilter(
        agent=target.name,
        type=memory_type,
        user=user_filter(context, None),
        project=project_id,
        source=None if source_uri is None else redact(source_uri),
        tags_any=frozenset(tags),
        tags_all=frozenset(tags_all),
        since=None if time_range is None else time_range.start,
        until=None if time_range is None else time_range.until,
        subject=subject_filter(context, subject),
        current=True,
    )
    memory, now = target.memory, utc(context.clock.now())
    try:
        question = Question(text=query_text, now=now, limit=limit, wanted=wanted, threshold=score_threshold or 0.0)
    except UsageError as error:
        raise wrong("query_text", str(error), hint=error.hint) from None
    found = await memory.search(question, context.progress, owner=context.call_owner)
    hits = [
        types.CollectionHit.of(hit.item, collection=target.name, **scores_of(hit), origin=delivery_origin(hit.item))
        for hit in found.hits
    ]
    return types.SearchResult(
        hits=hits,
        context=_context_lines(hits),
        used_filters=types.UsedFilters(
            project_id=project_id,
            memory_type=memory_type,
            tags=tags,
            tags_all=tags_all,
            source_uri=source_uri,
            time_range=None if time_range is None else time_range.bounds(),
            limit=limit,
            score_threshold=score_threshold,
            scoreThreshold=score_threshold,
            collection=target.name,
        ),
        notes=list(shown_notes(context, memory, found.notes)),
    )


def _context_lines(hits: Sequence[types.CollectionHit]) -> str:
    """Return the hits as lines for a prompt: `[1] 2026-11-20 semantic, SOURCE: TEXT`, each in one line, limited in
    length."""
    lines: list[str] = []
    room = LONGEST_CONTEXT
    for number, hit in enumerate(hits, 1):
        source = f", {_one_line(hit.source_uri, 200)}" if hit.source_uri else ""
        source += f", {hit.origin}" if hit.origin else ""
        line = f"[{number}] {hit.timestamp[:10]} {hit.memory_type}{source}: {_one_line(hit.text, LONGEST_LINE)}"
        room -= len(line) + 1
        if room < 0:
            lines.append(f"({len(hits) - number + 1} more)")
            break
        lines.append(line)
    return "\n".join(lines)


def _one_line(text: str, longest: int) -> str:
    """Return the text in one line, so that it cannot imitate another hit."""
    even = " ".join(text.split())
    return even if len(even) <= longest else f"{even[: longest - 1]}…"
