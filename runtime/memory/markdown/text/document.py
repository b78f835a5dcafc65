"""`memory.md`: sections of bullets among a person's other text.

A document is its lines; joined they are the bytes it was read from. An edit changes the lines of one item, or adds
lines, and leaves every other byte unchanged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from runtime.memory.item import PATTERN, Item, MemoryType, rfc3339
from runtime.memory.markdown.text import bullets
from runtime.memory.markdown.text.annotation import Annotation, annotation_of
from runtime.memory.markdown.text.bullets import Bullet
from runtime.memory.markdown.text.item_lines import ItemLines
from runtime.memory.markdown.text.lines import BLANK, body, is_blank, newline, split
from runtime.memory.markdown.text.literal_blocks import literal_ranges

_TITLE = "# Agent Memory:"
_UPDATED = "Updated:"


class MarkdownSection(NamedTuple):
    """A section of items: their memory type, and the tags that its name implies."""

    name: str
    memory_type: MemoryType
    tags: tuple[str, ...]


SECTIONS = (
    MarkdownSection("Facts", "semantic", ()),
    MarkdownSection("Procedures", "procedural", ()),
    MarkdownSection("Learned Patterns", "semantic", (PATTERN,)),
)
"""The sections of the first design (section 1, Markdown Format), in the order in which they are written."""
_BY_NAME = {section.name.casefold(): section for section in SECTIONS}


def bullet_of(item: Item, section: MarkdownSection) -> tuple[str, Annotation]:
    """Return the text and the annotation of the bullet that an item is in a section."""
    tags = tuple(tag for tag in item.tags if tag not in section.tags)
    return item.text, annotation_of(item, at=item.timestamp, tags=tags)


def section_of(item: Item) -> MarkdownSection:
    """Return the section of a long-term item. Raises ValueError for an episodic one, which belongs to a log."""
    if item.memory_type == "episodic":
        raise ValueError("an episodic item belongs to a log")
    if item.memory_type == "procedural":
        return SECTIONS[1]
    return SECTIONS[2] if PATTERN in item.tags else SECTIONS[0]


class Heading(NamedTuple):
    """A heading outside fences and comments: its line, its level 1 to 6, and the section of items that it begins, if
    any."""

    line: int
    level: int
    section: MarkdownSection | None


class _ParsedItem(NamedTuple):
    """The parsed form of one item."""

    section: str
    text: str
    annotation: Annotation


class MarkdownDocument(ItemLines[Bullet]):
    """A parsed `memory.md`."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = tuple(lines)
        self.literal_ranges = literal_ranges(self.lines)
        self.headings = tuple(_headings(self.lines, self.literal_ranges))
        self.items = tuple(self._read_items())

    @classmethod
    def parse(cls, data: bytes) -> MarkdownDocument:
        """Parse a document. Every text is valid; `MarkdownDocument.parse(data).data == data`."""
        return cls(split(data))

    @property
    def places(self) -> list[Bullet]:
        return [bullet for _, bullet in self.items]

    def _from_lines(self, lines: Sequence[str]) -> MarkdownDocument:
        return MarkdownDocument(lines)

    @property
    def updated_at(self) -> datetime | None:
        """Return the time after `Updated:` in the header (UTC unless it has an offset); None if there is none."""
        at = self._updated_line()
        try:
            time = None if at is None else datetime.fromisoformat(body(self.lines[at])[len(_UPDATED) :].strip(BLANK))
            return time if time is None else (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            return None

    def adding(self, new: Mapping[str, Iterable[tuple[str, Annotation]]]) -> MarkdownDocument:
        """Return the document with these bullets (text, annotation) at the end of their sections; missing sections are
        created."""
        document = self
        for section in SECTIONS:
            end = newline(document.lines)
            lines = [line for text, note in new.get(section.name, ()) for line in bullets.write(text, note, end)]
            if lines:
                document = document._with_items(section, lines)
        return document

    def replacing(self, bullet: Bullet, text: str, annotation: Annotation | None = None) -> MarkdownDocument:
        """Return the document with another text in this bullet, and if given with another annotation; its marker stays.
        Raises Inseparable."""
        number = self.places.index(bullet)
        note = bullet.annotation if annotation is None else annotation
        wanted = self._contents()
        wanted[number] = wanted[number]._replace(text=text, annotation=note)
        marker, end = bullets.marker_of(self.lines[bullet.start]), newline(self.lines)

        def lines(*, guarded: bool) -> list[str]:
            written = bullets.write(text, note, end, marker, guarded=guarded)
            if not self.lines[bullet.end - 1].endswith("\n"):
                written[-1] = written[-1].rstrip("\r\n")
            return written

        return self._with_new_lines([bullet], lines, wanted)

    def _contents(self) -> list[_ParsedItem]:
        return [_ParsedItem(section.name, bullet.text, bullet.annotation) for section, bullet in self.items]

    def with_item_times(self, otherwise: datetime) -> MarkdownDocument:
        """Return the document with an explicit time for every bullet without one: that of the header, or else
        `otherwise`. So they keep it when the header changes."""
        at, lines = self.updated_at or otherwise, list(self.lines)
        for _, bullet in reversed(self.items):
            if bullet.annotation.at is None:
                place = slice(bullet.start, bullet.end)
                lines[place] = bullets.add_time(lines[place], at, newline(lines))
        return MarkdownDocument(lines)

    def with_updated_time(self, agent_id: str, time: datetime, otherwise: datetime) -> MarkdownDocument:
        """Return the document with this time in its header; an empty document gets a header, one whose header a person
        removed does not. Bullets keep their times (see `with_item_times`)."""
        stamp = f"{_UPDATED} {rfc3339(time.replace(microsecond=0))}"
        document = self.with_item_times(otherwise)
        at, lines = document._updated_line(), list(document.lines)
        title = next((number for number, line in enumerate(lines) if not is_blank(line)), None)
        end = newline(lines)
        if title is None:
            bom, rest = ("\ufeff", "".join(lines)[1:]) if lines and lines[0][0] == "\ufeff" else ("", "".join(lines))
            return MarkdownDocument([f"{bom}{_TITLE} {agent_id}{end}", f"{stamp}{end}", *split(rest.encode())])
        if at is not None:
            lines[at] = stamp + lines[at][len(lines[at].rstrip("\r\n")) :]
        elif body(lines[title]).startswith(_TITLE):
            lines[title] = lines[title].rstrip("\r\n") + end
            lines.insert(title + 1, f"{stamp}{end}")
        return MarkdownDocument(lines)

    def _updated_line(self) -> int | None:
        """Return the index of the header's second line, right under the title."""
        for heading in self.headings[:1]:
            below = heading.line + 1
            if heading.level == 1 and below < len(self.lines) and body(self.lines[below]).startswith(_UPDATED):
                return below
        return None

    def _read_items(self) -> Iterable[tuple[MarkdownSection, Bullet]]:
        section = None
        for number, heading in enumerate(self.headings):
            section = heading.section if heading.level <= 2 else section
            if section is not None:
                for bullet in self._bullets_below(number):
                    yield section, bullet

    def _stop(self, number: int) -> int:
        """Return the line at which the text below a heading ends."""
        return self.headings[number + 1].line if number + 1 < len(self.headings) else len(self.lines)

    def _bullets_below(self, number: int) -> Iterable[Bullet]:
        at, last = self.headings[number].line + 1, self._stop(number)
        for start, stop in self.literal_ranges[bisect_left(self.literal_ranges, (at, 0)) :]:
            if start >= last:
                break
            yield from bullets.read(self.lines, at, start)
            at = stop
        yield from bullets.read(self.lines, at, last)

    def _with_items(self, section: MarkdownSection, new: list[str]) -> MarkdownDocument:
        for number, heading in enumerate(self.headings):
            if heading.section == section:
                return self._with_items_below(number, new)
        return self._with_section(section, new)

    def _with_items_below(self, number: int, new: list[str]) -> MarkdownDocument:
        """Insert after the section's last bullet, or without one after the text of the section."""
        heading, stop = self.headings[number], self._stop(number)
        ends = [bullet.end for bullet in self._bullets_below(number)]
        at = ends[-1] if ends else stop
        while not ends and at > heading.line + 1 and is_blank(self.lines[at - 1]):
            at -= 1
        end = newline(self.lines)
        before = [end] if not ends and at > heading.line + 1 else []
        after = [end] if at < len(self.lines) and not is_blank(self.lines[at]) and at == stop else []
        return self._with_lines(at, [*before, *new, *after])

    def _with_section(self, section: MarkdownSection, new: list[str]) -> MarkdownDocument:
        """Insert the section before the first one that follows it in the fixed order, or at the end."""
        later = SECTIONS[SECTIONS.index(section) + 1 :]
        at = next((heading.line for heading in self.headings if heading.section in later), len(self.lines))
        end = newline(self.lines)
        before = [end] if at and not is_blank(self.lines[at - 1]) else []
        after = [end] if at < len(self.lines) else []
        return self._with_lines(at, [*before, f"## {section.name}{end}", *new, *after])

    def _with_lines(self, at: int, new: list[str]) -> MarkdownDocument:
        lines = list(self.lines)
        if at and not lines[at - 1].endswith("\n"):
            lines[at - 1] += newline(lines)
        return MarkdownDocument([*lines[:at], *new, *lines[at:]])


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
