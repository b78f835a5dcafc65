"""The record of promoted bullets, at the end of `memory.md` itself.

<!-- symbi flushed 2026-02-14 3f9a2c1b8e7d6c5b 77ab0c1d2e3f4a5b -->

With it, a promoted item that a person deletes or rewrites is not promoted again from its log. It is in the same file as
the items, so that one rename writes both; it lists only logs that still exist. If a person deletes it, deleted items
that are still in logs come back once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import date

from runtime.memory.markdown.text.document import MarkdownDocument
from runtime.memory.markdown.text.lines import body, is_blank, newline

_OPEN = "<!-- symbi flushed"
_CLOSE = "-->"
_LINE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})((?: [0-9a-f]{16})*)[ \t]*$")

Promoted = Mapping[date, AbstractSet[str]]
"""The keys (`long_term.promotion_key`) of promoted bullets, by the day of their log."""


def read(document: MarkdownDocument) -> dict[date, set[str]]:
    """Read the records of a `memory.md`; other lines are ignored."""
    found: dict[date, set[str]] = {}
    for start, stop in _blocks(document):
        for line in document.lines[start:stop]:
            day, keys = _parse_line(line)
            if day is not None:
                found.setdefault(day, set()).update(keys)
    return found


def write(document: MarkdownDocument, flushed: Promoted) -> MarkdownDocument:
    """Return the document with this record, at its previous place or at the end; without one if it is empty."""
    end = newline(document.lines)
    records = [f"{' '.join([day.isoformat(), *sorted(keys)])}{end}" for day, keys in sorted(flushed.items()) if keys]
    lines, blocks = list(document.lines), list(_blocks(document))
    for start, stop in reversed(blocks[1:]):
        del lines[start:stop]
    start, stop = blocks[0] if blocks else (len(lines), len(lines))
    block = [f"{_OPEN}{end}", *records, f"{_CLOSE}{end}"] if records else []
    if records and not blocks and lines:
        if not lines[-1].endswith("\n"):
            lines[-1] += end
        block[:0] = [end] if not is_blank(lines[-1]) else []
    elif blocks and not records and start and is_blank(lines[start - 1]):
        start -= 1
    return MarkdownDocument([*lines[:start], *block, *lines[stop:]])


def _blocks(document: MarkdownDocument) -> Iterator[tuple[int, int]]:
    return (block for block in document.literal_ranges if document.lines[block[0]].startswith(_OPEN))


def _parse_line(line: str) -> tuple[date | None, list[str]]:
    found = _LINE.match(body(line))
    try:
        return (None, []) if found is None else (date.fromisoformat(found[1]), found[2].split())
    except ValueError:
        return None, []
