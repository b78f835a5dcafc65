"""What a day's log holds for the long term: in its entries, bullets beginning `[fact]`, `[procedure]` or `[pattern]`.

Case does not matter, nor does how far a bullet is indented or which of `-*+` marks it; a colon may follow the brackets.
What is indented below belongs to it, except another such bullet. In fences and comments nothing counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from runtime.memory.bullets import begins_something
from runtime.memory.document import SECTIONS, Section, opaque
from runtime.memory.item import PATTERN, Item, chunk_hash
from runtime.memory.lines import BLANK, is_blank
from runtime.memory.log import Log
from runtime.memory.reading import log_items

_BEGINNING = re.compile(r"([ \t]*)([-*+][ \t]+)\[(fact|procedure|pattern)\](?![(\[])[ \t]*:?[ \t]*", re.IGNORECASE)
_SECTIONS = dict(zip(("fact", "procedure", "pattern"), SECTIONS, strict=True))


class Lasting(NamedTuple):
    """One such bullet: the section it belongs to, the item it is there, and what it is known by in `flushed`."""

    section: Section
    item: Item
    key: str


def lasting(agent_id: str, log: Log) -> Iterator[Lasting]:
    """Every such bullet of a log, in order, as the item it is to become.

    It has the entry's time, source, tags and provenance; the log itself is the source where the entry names none.
    """
    for entry in log_items(agent_id, log):
        for name, text in _bullets(entry.text):
            section = _SECTIONS[name]
            item = entry.changed(
                memory_id="",
                memory_type=section.memory_type,
                text=text,
                chunk_hash="",
                tags=(*(tag for tag in entry.tags if tag != PATTERN), *section.tags),
                source_uri=entry.source_uri or f"logs/{log.day.isoformat()}.md",
            )
            yield Lasting(section, item, key(section, text, item.user_id))


def key(section: Section, text: str, user_id: str) -> str:
    """What a user's text is known by that was put into a section: 16 hex digits of a sha256."""
    return sha256(f"{section.name}\n{chunk_hash(text)}\n{user_id}".encode()).hexdigest()[:16]


def _bullets(text: str) -> Iterator[tuple[str, str]]:
    """The name in brackets, in lower case, and the text behind it. A title is a line by itself."""
    title, *below = text.replace("\r\n", "\n").split("\n")
    for lines in ([title], below):
        hidden = _hidden(lines)
        for at, line in enumerate(lines):
            found = None if hidden[at] else _BEGINNING.match(line)
            if found is not None:
                indent, width = _columns(found[1]), _columns(found[1] + found[2])
                rest = (_dedent(one.rstrip(BLANK), width) for one in lines[at + 1 : _end(lines, hidden, at, indent)])
                said = "\n".join([line[found.end() :], *rest]).strip(BLANK)
                if said:
                    yield found[3].lower(), said


def _hidden(lines: Sequence[str]) -> list[bool]:
    hidden = [False] * len(lines)
    for start, stop in opaque([line.lstrip(" \t") for line in lines]):
        hidden[start:stop] = [True] * (stop - start)
    return hidden


def _end(lines: Sequence[str], hidden: Sequence[bool], start: int, indent: int) -> int:
    """The line after a bullet that is indented by so much: as CommonMark has it, but for another that lasts."""
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
        if column < indent + 2 and begins_something(lines[after].lstrip(" \t")):
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
