"""Finds the bullets of a day's log that are marked for long-term memory: `[fact]`, `[procedure]` or `[pattern]`.

Case, indentation and the kind of bullet (`-*+`) do not matter; a colon may follow the brackets. Indented text below
belongs to the bullet, except another marked one. Bullets in a fence or a comment may be examples or obsolete, and the
payload of a delivery is a stranger's text: these are not promoted, and their log is not deleted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, time
from hashlib import sha256
from typing import NamedTuple

from runtime.memory.item import PATTERN, Item, chunk_hash, is_delivery
from runtime.memory.markdown.items import log_items
from runtime.memory.markdown.text.annotation import NOTHING, Annotation, take_annotation
from runtime.memory.markdown.text.bullets import begins_block
from runtime.memory.markdown.text.daily_log import DailyLog
from runtime.memory.markdown.text.document import SECTIONS, MarkdownSection
from runtime.memory.markdown.text.lines import BLANK, body, is_blank
from runtime.memory.markdown.text.literal_blocks import literal_ranges

_BEGINNING = re.compile(r"([ \t]*)([-*+][ \t]+)\[(fact|procedure|pattern)\](?![(\[])[ \t]*:?[ \t]*", re.IGNORECASE)
_MARK = re.compile(r"\[(fact|procedure|pattern)\]", re.IGNORECASE)
_SECTIONS = dict(zip(("fact", "procedure", "pattern"), SECTIONS, strict=True))


class MarkedBullet(NamedTuple):
    """A bullet marked for promotion: target section, resulting item, key in the promotion record."""

    section: MarkdownSection
    item: Item
    key: str


class UnpromotedBullet(NamedTuple):
    """A marked bullet that is not promoted: its approximate line, counted from 1, and why."""

    line: int
    why: str


_IN_BLOCK = "it is in a code block or a comment"
_IN_PAYLOAD = "it is in the payload of a delivery"


class FoundBullets(NamedTuple):
    """The marked bullets of a log: those to promote, in order, and the others."""

    promotable: tuple[MarkedBullet, ...]
    unpromoted: tuple[UnpromotedBullet, ...]


def marked_bullets(agent_id: str, log: DailyLog) -> FoundBullets:
    """Return every marked bullet of a log.

    A bullet of an entry has the entry's time, source, tags and provenance, any other the day's; its own annotation
    takes precedence, and its tags are added. The log is the source if none is named.
    """
    found: list[MarkedBullet] = []
    left: list[UnpromotedBullet] = []
    if not any(map(_MARK.search, log.lines)):
        return FoundBullets((), ())
    for entry, item in zip(log.entries, log_items(agent_id, log), strict=True):
        text = item.text if entry.bullets is None else entry.bullets
        title, *below = text.replace("\r\n", "\n").split("\n")
        foreign = is_delivery(item.source_uri)
        body_at = next((at for at in range(entry.start + 1, entry.end) if not is_blank(log.lines[at])), entry.start)
        for first, lines in ((entry.start, [title]), (body_at, below)):
            for bullet in _bullets(lines, annotated=entry.bullets is not None):
                if bullet.hidden or foreign:
                    left.append(UnpromotedBullet(first + bullet.line + 1, _IN_PAYLOAD if foreign else _IN_BLOCK))
                else:
                    found.append(_marked_bullet(item, bullet, _file(log)))
    midnight = datetime.combine(log.day, time(), UTC)
    day = Item(agent_id=agent_id, memory_type="episodic", timestamp=midnight, text="")
    for start, end in log.sections:
        for bullet in _bullets([body(line) for line in log.lines[start:end]], annotated=True):
            if bullet.hidden:
                left.append(UnpromotedBullet(start + bullet.line + 1, _IN_BLOCK))
            else:
                found.append(_marked_bullet(day, bullet, _file(log)))
    return FoundBullets(tuple(found), tuple(left))


def promotable_items(entry: Item) -> tuple[tuple[Item, ...], bool]:
    """Return the items to promote from an entry that is in no file, and True if more are in a fence or a comment. The
    payload of a delivery has none."""
    if is_delivery(entry.source_uri):
        return (), False
    title, *below = entry.text.replace("\r\n", "\n").split("\n")
    bullets = [each for lines in ([title], below) for each in _bullets(lines, annotated=False)]
    promotable = tuple(_marked_bullet(entry, each, None).item for each in bullets if not each.hidden)
    return promotable, any(each.hidden for each in bullets)


def _file(log: DailyLog) -> str:
    return f"logs/{log.day.isoformat()}.md"


def _marked_bullet(entry: Item, bullet: _Bullet, file: str | None) -> MarkedBullet:
    """`file`: the source of items that name none."""
    section, note = _SECTIONS[bullet.name], bullet.note
    origin = entry.provenance if note.provenance is None else note.provenance.provenance
    item = entry.with_fields(
        memory_id="",
        memory_type=section.memory_type,
        timestamp=note.at or entry.timestamp,
        text=bullet.text,
        chunk_hash="",
        tags=(*(tag for tag in (*entry.tags, *note.tags) if tag != PATTERN), *section.tags),
        source_uri=note.source or entry.source_uri or file,
        other_sources=note.other_sources if note.source else entry.other_sources,
        project_id=note.project or entry.project_id,
        user_id=note.user or entry.user_id,
        source_memory_ids=note.sources or entry.source_memory_ids,
        provenance=origin,
        subject=note.subject or entry.subject,
        replaces=None,
        retracts=None,
    )
    return MarkedBullet(section, item, promotion_key(section, item.text, item.user_id, item.subject))


def promotion_key(section: MarkdownSection, text: str, user_id: str, subject: str | None = None) -> str:
    """Return the key of a user's text in a section, of a subject if any: 16 hex digits of a sha256."""
    whose = user_id if subject is None else f"{user_id}\n{subject}"
    return sha256(f"{section.name}\n{chunk_hash(text)}\n{whose}".encode()).hexdigest()[:16]


class _Bullet(NamedTuple):
    """The name in brackets in lower case, the text after it, its annotation, its line, and whether it is in a fence or
    comment outside any other marked bullet."""

    name: str
    text: str
    note: Annotation
    line: int
    hidden: bool


def _bullets(lines: Sequence[str], *, annotated: bool) -> Iterator[_Bullet]:
    """`annotated`: annotations are parsed."""
    hidden, taken = _hidden_lines(lines), 0
    for at, line in enumerate(lines):
        found = None if hidden[at] and at < taken else _BEGINNING.match(line)
        if found is not None:
            indent, width = _columns(found[1]), _columns(found[1] + found[2])
            end = at + 1 if hidden[at] else _end(lines, hidden, at, indent)
            rest = (_dedent(one.rstrip(BLANK), width) for one in lines[at + 1 : end])
            text, note = "\n".join([line[found.end() :], *rest]), NOTHING
            if annotated:
                text, note = take_annotation(text)
            text = text.strip(BLANK)
            if text:
                yield _Bullet(found[3].lower(), text, note, at, hidden[at])
                taken = taken if hidden[at] else end


def _hidden_lines(lines: Sequence[str]) -> list[bool]:
    hidden = [False] * len(lines)
    for start, stop in literal_ranges([line.lstrip(" \t") for line in lines]):
        hidden[start:stop] = [True] * (stop - start)
    return hidden


def _end(lines: Sequence[str], hidden: Sequence[bool], start: int, indent: int) -> int:
    """Return the line after a bullet of this indent, as CommonMark has it, but not beyond another marked bullet."""
    at = start + 1
    while at < len(lines):
        after_blank = is_blank(lines[at])
        after = at
        while after < len(lines) and is_blank(lines[after]):
            after += 1
        if after == len(lines) or (not hidden[after] and _BEGINNING.match(lines[after])):
            return at
        column = _columns(_indent(lines[after]))
        if column <= indent and (after_blank or hidden[after]):
            return at
        if column < indent + 2 and begins_block(lines[after].lstrip(" \t")):
            return at
        at = after + 1
    return at


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _columns(space: str) -> int:
    return len(space.expandtabs(4))


def _dedent(line: str, columns: int) -> str:
    left = _columns(_indent(line)) - columns
    return " " * max(0, left) + line.lstrip(" \t")
