"""Makes items of documents and logs: ids, times and tags."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from runtime.memory.item import OWNER, Item, MemoryType, Provenance, Twins
from runtime.memory.markdown.text.annotation import Annotation
from runtime.memory.markdown.text.daily_log import DailyLog
from runtime.memory.markdown.text.document import MarkdownDocument

_NOTHING_KNOWN = Provenance()


def long_term_items(agent_id: str, document: MarkdownDocument, otherwise: datetime) -> list[Item]:
    """Return the items of a `memory.md`, one for each of `document.items`.

    A bullet without a time of its own has that of the header's `Updated:`, or without a header the time `otherwise`.
    """
    seen: Counter[tuple[str, Twins]] = Counter()
    updated, items = document.updated_at or otherwise, []
    for section, bullet in document.items:
        note = bullet.annotation
        item = _item(agent_id, section.memory_type, bullet.text, note.at or updated, (*section.tags, *note.tags), note)
        key = section.name, item.twins
        items.append(item.with_id(section.name, seen[key]))
        seen[key] += 1
    return items


def log_items(agent_id: str, log: DailyLog) -> list[Item]:
    """Return the items of a day's log, one for each of `log.entries`."""
    seen: Counter[Twins] = Counter()
    items = []
    for entry in log.entries:
        item = _item(agent_id, "episodic", entry.text, entry.at, entry.annotation.tags, entry.annotation)
        items.append(item.with_id(f"logs/{log.day.isoformat()}", seen[item.twins]))
        seen[item.twins] += 1
    return items


def _item(
    agent_id: str, memory_type: MemoryType, text: str, at: datetime, tags: tuple[str, ...], note: Annotation
) -> Item:
    return Item(
        agent_id=agent_id,
        memory_type=memory_type,
        timestamp=at,
        # A byte that is not UTF-8 is read as a lone surrogate; the item shows it as U+FFFD, and the file preserves it.
        text=text,
        tags=tags,
        source_uri=note.source,
        other_sources=note.other_sources,
        project_id=note.project,
        user_id=OWNER if note.user is None else note.user,
        source_memory_ids=note.sources,
        provenance=_NOTHING_KNOWN if note.provenance is None else note.provenance.provenance,
        subject=note.subject,
        replaces=note.replaces,
        retracts=note.retracts,
    )
