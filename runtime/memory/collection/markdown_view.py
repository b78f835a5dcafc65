"""Shows a collection as Markdown: long-term items in sections, and a day's entries as a log, as in a Markdown
memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime

from runtime.memory.item import Item
from runtime.memory.markdown.text.annotation import Annotation
from runtime.memory.markdown.text.daily_log import entry_of, header
from runtime.memory.markdown.text.document import MarkdownDocument, bullet_of, section_of
from runtime.memory.store_types import Inspection

MOST = 1000
"""Maximum number of items of each kind that are shown, the newest ones."""


def inspection(
    memory: str, agent_id: str, day: date, long_term: Sequence[Item], entries: Sequence[Item], now: datetime
) -> Inspection:
    """Return the text, from items that are oldest first; one more than MOST means that not all are shown."""
    place = f"collection {memory}: {agent_id}"
    text = _document(agent_id, long_term[-MOST:], now) if long_term else None
    log = (header(day) + b"".join(map(entry_of, entries[-MOST:]))).decode() if entries else None
    if text is not None and len(long_term) > MOST:
        text = f"{text}\nOnly the newest {MOST} are shown.\n"
    if log is not None and len(entries) > MOST:
        log = f"{log}\nOnly the newest {MOST} are shown.\n"
    return Inspection(agent_id, day, text, log, place, f"{place}, {day.isoformat()}")


def _document(agent_id: str, long_term: Sequence[Item], now: datetime) -> str:
    sections: dict[str, list[tuple[str, Annotation]]] = defaultdict(list)
    for item in long_term:
        section = section_of(item)
        sections[section.name].append(bullet_of(item, section))
    return MarkdownDocument.parse(b"").with_updated_time(agent_id, now, now).adding(sections).data.decode()
