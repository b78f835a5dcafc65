"""`memory.md`: sections of bullets among whatever else a person wrote.

A document is its lines; joined they are the bytes it was read from. An edit changes the lines of one item, or adds
lines, and leaves every other byte alone.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from runtime.memory import bullets
from runtime.memory.annotation import Annotation
from runtime.memory.bullets import Bullet
from runtime.memory.item import PATTERN, Item, MemoryType, rfc3339
from runtime.memory.lines import BLANK, body, is_blank, join, newline, split

_FENCE = re.compile(r"(`{3,}|~{3,})(.*)$")
_TITLE = "# Agent Memory:"
_UPDATED = "Updated:"


class Section(NamedTuple):
    """A section that holds items: what kind of memory they are and the tags its name stands for."""

    name: str
    memory_type: MemoryType
    tags: tuple[str, ...]


SECTIONS = (
    Section("Facts", "semantic", ()),
    Section("Procedures", "procedural", ()),
    Section("Learned Patterns", "semantic", (PATTERN,)),
)
"""The sections of the first design (section 1, Markdown Format), in the order in which they are written."""
_BY_NAME = {section.name.casefold(): section for section in SECTIONS}


def section_of(item: Item) -> Section:
    """Where a long-term item belongs. Raises ValueError for an episodic one, which belongs to a log."""
    if item.memory_type == "episodic":
        raise ValueError("an episodic item belongs to a log")
    if item.memory_type == "procedural":
        return SECTIONS[1]
    return SECTIONS[2] if PATTERN in item.tags else SECTIONS[0]


class Heading(NamedTuple):
    """A heading outside fences and comments: its line, its level 1 to 6, and the section that begins there, if any."""

    line: int
    level: int
    section: Section | None


class Document:
    """One reading of a `memory.md`. Immutable: what changes it returns another."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = tuple(lines)
        self.opaque = opaque(self.lines)
        self.headings = tuple(_headings(self.lines, self.opaque))
        self.items = tuple(self._read())

    @classmethod
    def parse(cls, data: bytes) -> Document:
        """The document that these bytes are. Every text is one; `Document.parse(data).data == data`."""
        return cls(split(data))

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return join(self.lines)

    @property
    def updated(self) -> str | None:
        """What stands behind `Updated:` in the header."""
        at = self._updated_line()
        return None if at is None else body(self.lines[at])[len(_UPDATED) :].strip(BLANK)

    def adding(self, new: Mapping[str, Iterable[tuple[str, Annotation]]]) -> Document:
        """With these bullets (text, annotation) at the end of their sections; a missing section is made."""
        document = self
        for section in SECTIONS:
            end = newline(document.lines)
            lines = [line for text, note in new.get(section.name, ()) for line in bullets.write(text, note, end)]
            if lines:
                document = document._with_items(section, lines)
        return document

    def replacing(self, bullet: Bullet, text: str) -> Document:
        """With another text in place of this bullet's; its marker and its annotation stay."""
        written = bullets.write(
            text, bullet.annotation, newline(self.lines), bullets.marker_of(self.lines[bullet.start])
        )
        if not self.lines[bullet.end - 1].endswith("\n"):
            written[-1] = written[-1].rstrip("\r\n")
        return Document([*self.lines[: bullet.start], *written, *self.lines[bullet.end :]])

    def without(self, bullet: Bullet) -> Document:
        """Without this bullet's lines."""
        return Document([*self.lines[: bullet.start], *self.lines[bullet.end :]])

    def stamped(self, agent_id: str, time: datetime) -> Document:
        """With the header of an empty document, or with this time in the header it has; a person who took the header
        away does not get it back.
        """
        stamp = f"{_UPDATED} {rfc3339(time.replace(microsecond=0))}"
        at, lines = self._updated_line(), list(self.lines)
        title = next((number for number, line in enumerate(lines) if not is_blank(line)), None)
        end = newline(lines)
        if title is None:
            bom, rest = ("\ufeff", "".join(lines)[1:]) if lines and lines[0][0] == "\ufeff" else ("", "".join(lines))
            return Document([f"{bom}{_TITLE} {agent_id}{end}", f"{stamp}{end}", *split(rest.encode())])
        if at is not None:
            lines[at] = stamp + lines[at][len(lines[at].rstrip("\r\n")) :]
        elif body(lines[title]).startswith(_TITLE):
            lines[title] = lines[title].rstrip("\r\n") + end
            lines.insert(title + 1, f"{stamp}{end}")
        return Document(lines)

    def _updated_line(self) -> int | None:
        """The header's second line: right under the title, wherever that is."""
        for heading in self.headings[:1]:
            below = heading.line + 1
            if heading.level == 1 and below < len(self.lines) and body(self.lines[below]).startswith(_UPDATED):
                return below
        return None

    def _read(self) -> Iterable[tuple[Section, Bullet]]:
        section = None
        for number, heading in enumerate(self.headings):
            section = heading.section if heading.level <= 2 else section
            if section is not None:
                for bullet in self._bullets_below(number):
                    yield section, bullet

    def _stop(self, number: int) -> int:
        """The line at which what stands below a heading ends."""
        return self.headings[number + 1].line if number + 1 < len(self.headings) else len(self.lines)

    def _bullets_below(self, number: int) -> Iterable[Bullet]:
        at, last = self.headings[number].line + 1, self._stop(number)
        for start, stop in self.opaque[bisect_left(self.opaque, (at, 0)) :]:
            if start >= last:
                break
            yield from bullets.read(self.lines, at, start)
            at = stop
        yield from bullets.read(self.lines, at, last)

    def _with_items(self, section: Section, new: list[str]) -> Document:
        for number, heading in enumerate(self.headings):
            if heading.section == section:
                return self._with_items_below(number, new)
        return self._with_section(section, new)

    def _with_items_below(self, number: int, new: list[str]) -> Document:
        """After the section's last bullet; in one without, after whatever a person wrote there."""
        heading, stop = self.headings[number], self._stop(number)
        ends = [bullet.end for bullet in self._bullets_below(number)]
        at = ends[-1] if ends else stop
        while not ends and at > heading.line + 1 and is_blank(self.lines[at - 1]):
            at -= 1
        end = newline(self.lines)
        before = [end] if not ends and at > heading.line + 1 else []
        after = [end] if at < len(self.lines) and not is_blank(self.lines[at]) and at == stop else []
        return self._with_lines(at, [*before, *new, *after])

    def _with_section(self, section: Section, new: list[str]) -> Document:
        """Before the first section that comes after it in the fixed order, or at the end."""
        later = SECTIONS[SECTIONS.index(section) + 1 :]
        at = next((heading.line for heading in self.headings if heading.section in later), len(self.lines))
        end = newline(self.lines)
        before = [end] if at and not is_blank(self.lines[at - 1]) else []
        after = [end] if at < len(self.lines) else []
        return self._with_lines(at, [*before, f"## {section.name}{end}", *new, *after])

    def _with_lines(self, at: int, new: list[str]) -> Document:
        lines = list(self.lines)
        if at and not lines[at - 1].endswith("\n"):
            lines[at - 1] += newline(lines)
        return Document([*lines[:at], *new, *lines[at:]])


def _headings(lines: Sequence[str], blocks: Sequence[tuple[int, int]]) -> Iterable[Heading]:
    at = 0
    for start, stop in [*blocks, (len(lines), 0)]:
        for number in range(at, start):
            text = body(lines[number])
            level = len(text) - len(text.lstrip("#"))
            if 1 <= level <= 6 and text[level : level + 1] in {"", " ", "\t"}:
                name = text.strip("#").strip(BLANK).casefold()
                yield Heading(number, level, _BY_NAME.get(name) if level == 2 else None)
        at = stop


def opaque(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Fenced blocks and comments at the left edge, as line ranges: nothing in them is a heading or an item.

    One that is never closed is plain text, or else a person's slip would hide everything below it. A fence is closed at
    the left edge only, and a comment not by a line that opens another, so that no item can close either.
    """
    found: list[tuple[int, int]] = []
    closers = _Closers(lines)
    at = 0
    while at < len(lines):
        end = closers.end(at) if lines[at][:1] in {"`", "~", "<", "\ufeff"} else None
        if end is not None:
            found.append((at, end))
        at = at + 1 if end is None else end
    return found


class _Closers:
    """Where blocks end. Remembers what is known to be open for good, so that a file of openers stays cheap."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._open: dict[str, int] = {}

    def end(self, at: int) -> int | None:
        """The line after the block that begins on this line; None when none does or it is never closed."""
        text = body(self._lines[at])
        fence = _FENCE.match(text)
        if fence is not None:
            return self._fence(at, fence[1]) if "`" not in fence[2] or fence[1][0] == "~" else None
        return self._comment(at) if text.startswith("<!--") else None

    def _fence(self, at: int, fence: str) -> int | None:
        if len(fence) >= self._open.get(fence[0], len(fence) + 1):
            return None
        for number in range(at + 1, len(self._lines)):
            text = self._lines[number].rstrip(BLANK)
            if text.startswith(fence) and not text.strip(fence[0]):
                return number + 1
        self._open[fence[0]] = len(fence)
        return None

    def _comment(self, at: int) -> int | None:
        if "-->" in self._lines[at]:
            return at + 1
        for number in range(at + 1, len(self._lines)):
            opens, closes = self._lines[number].find("<!--"), self._lines[number].find("-->")
            if opens >= 0:
                return None
            if closes >= 0:
                return number + 1
        return None
