"""Finds text in a Markdown memory that is not an item but may have been meant as one.

Messages never quote the text: their reader may not see every user's items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import NamedTuple

from runtime.memory.markdown.long_term import marked_bullets
from runtime.memory.markdown.text.bullets import is_break
from runtime.memory.markdown.text.daily_log import DailyLog
from runtime.memory.markdown.text.document import SECTIONS, MarkdownDocument
from runtime.memory.markdown.text.lines import BLANK, body, is_blank

_NAMES = {section.name.casefold(): section.name for section in SECTIONS}
_STEP = re.compile(r"[0-9]{1,9}[.)][ \t]")
_INDENTED = re.compile(r"[ \t]+[-*+][ \t]")
_UNDERLINE = re.compile(r"(=+|-+)$")


class UnreadText(NamedTuple):
    """The first line of a kind, counted from 1, and the message about it."""

    line: int
    message: str


def unread_texts(agent_id: str, day: date | None, data: bytes) -> list[UnreadText]:
    """Return the text of `memory.md`, or of a day's log, that is not an item; one finding for each kind."""
    found = _in_document(MarkdownDocument.parse(data)) if day is None else _in_log(agent_id, DailyLog.parse(day, data))
    first: dict[str, list[int]] = {}
    for line, message in found:
        first.setdefault(message, []).append(line)
    return [
        UnreadText(lines[0], f"line {lines[0]}{f' and {len(lines) - 1} more' if lines[1:] else ''}: {message}")
        for message, lines in first.items()
    ]


def _in_document(document: MarkdownDocument) -> Iterator[tuple[int, str]]:
    within = False
    for heading in document.headings:
        within = heading.section is not None if heading.level <= 2 else within
        name = _section_name(body(document.lines[heading.line]).strip("#"))
        if name is not None and not within:
            yield heading.line + 1, f"this heading begins no section: write `## {name}`"
    taken = {at for start, stop in document.literal_ranges for at in range(start, stop)}
    taken |= {at for _, bullet in document.items for at in range(bullet.start, bullet.end)}
    headings = {heading.line: heading for heading in document.headings}
    within = False
    for at, line in enumerate(document.lines):
        heading_here = headings.get(at)
        if heading_here is not None:
            within = heading_here.section is not None if heading_here.level <= 2 else within
        elif at not in taken:
            name = _section_name(body(line))
            below = body(document.lines[at + 1]) if at + 1 < len(document.lines) else ""
            if name is not None and _UNDERLINE.match(below):
                yield at + 1, f"this heading begins no section: write `## {name}`"
            elif within and _STEP.match(line):
                yield at + 1, "a numbered line is not an item: begin it with `- `"
            elif within and _INDENTED.match(line) and not is_break(line.strip(BLANK)):
                yield at + 1, "an indented line without a bullet above it is not an item: begin it at the left edge"


def _section_name(heading: str) -> str | None:
    """Return the section that a heading nearly names."""
    return _NAMES.get(" ".join(heading.strip(" \t:*_.").casefold().split()))


def _in_log(agent_id: str, log: DailyLog) -> Iterator[tuple[int, str]]:
    for start, end in log.sections:
        if start in log.headings:
            yield start + 1, "this section is not an entry: an entry begins with `## HH:MM — title`"
        elif (at := _first_text(log.lines[start:end])) is not None:
            yield start + at + 1, "text before the first entry is not an entry"
    for left in marked_bullets(agent_id, log).unpromoted:
        yield left.line, f"this is marked as long-term and cannot be copied: {left.why}"


def _first_text(lines: Sequence[str]) -> int | None:
    """Return the first line that is neither blank nor a heading nor a comment."""
    return next(
        (at for at, line in enumerate(lines) if not is_blank(line) and not body(line).startswith(("#", "<!--"))), None
    )
