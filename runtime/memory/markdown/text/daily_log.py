"""A day's log: `# Session Log: YYYY-MM-DD`, then entries `## HH:MM — Title` with notes below them.

An entry is an episodic item: the first line of its text is the title, the others are the body. It ends at the next line
that begins with `## ` outside of fences and comments; a section with another kind of heading is a person's and not an
item. Times are UTC.

An entry's annotation is after its heading or on a line of its own. We write it as the last line, so an entry that has
one was written completely. An annotation after a bullet belongs to the bullet (see `long_term`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time
from itertools import pairwise
from typing import NamedTuple

from runtime.memory.item import Item
from runtime.memory.markdown.text.annotation import GUARD, MARK, NOTHING, Annotation, annotation_of, take_annotation
from runtime.memory.markdown.text.bullets import begins_block, is_bullet
from runtime.memory.markdown.text.item_lines import ItemLines
from runtime.memory.markdown.text.lines import BLANK, body, newline, split, visible_lines
from runtime.memory.markdown.text.literal_blocks import literal_ranges

_ENTRY = re.compile(r"##[ \t]+([0-9]{1,2}):([0-9]{2})(?:[ \t]+(?:[—–-]+(?:[ \t]+|$))?(.*))?$")
_HEADING = re.compile(r"##([ \t]|$)")
_FENCE = re.compile(r"```|~~~")
_INDENTED_FENCE = re.compile(r" (?=```|~~~)")


class LogEntry(NamedTuple):
    """One entry: its lines `start` to `end` (exclusive), its time (UTC), its exact text and its annotation."""

    start: int
    end: int
    at: datetime
    text: str
    annotation: Annotation
    bullets: str | None
    """The text with the annotations of its bullets; None if the exact text is in the entry's annotation, where
    annotations are plain text."""


class _ParsedEntry(NamedTuple):
    """The parsed form of one entry."""

    at: datetime
    text: str
    annotation: Annotation


class DailyLog(ItemLines[LogEntry]):
    """A parsed log of a day."""

    def __init__(self, day: date, lines: Sequence[str]) -> None:
        self.day = day
        self.lines = tuple(lines)
        self.headings = tuple(_headings(self.lines))
        """The lines that begin with `## ` outside of fences and comments: entries and other sections."""
        self.entries = tuple(_entries(day, self.lines, self.headings))

    @classmethod
    def parse(cls, day: date, data: bytes) -> DailyLog:
        """Parse a log. Every text is valid; `DailyLog.parse(day, data).data == data`."""
        return cls(day, split(data))

    @property
    def places(self) -> tuple[LogEntry, ...]:
        return self.entries

    def _from_lines(self, lines: Sequence[str]) -> DailyLog:
        return DailyLog(self.day, lines)

    @property
    def sections(self) -> Iterator[tuple[int, int]]:
        """Yield the line ranges that are not entries: the text before the first heading, and other sections."""
        entries = {entry.start for entry in self.entries}
        for start, end in pairwise([0, *self.headings, len(self.lines)]):
            if start not in entries and start < end:
                yield start, end

    def replacing(self, entry: LogEntry, text: str) -> DailyLog:
        """Return the log with another text in this entry; its time, its annotation and the lines after it stay. Raises
        Inseparable."""
        number = self.entries.index(entry)
        wanted = self._contents()
        wanted[number] = wanted[number]._replace(text=text)
        blank = self._blank_lines_after(entry)

        def lines(*, guarded: bool) -> list[str]:
            written = _write(entry.at, text, entry.annotation, newline(self.lines), guarded=guarded)
            if not blank and not self.lines[entry.end - 1].endswith("\n"):
                written[-1] = written[-1].rstrip("\r\n")
            return [*written, *blank]

        return self._with_new_lines([entry], lines, wanted)

    def _contents(self) -> list[_ParsedEntry]:
        return [_ParsedEntry(entry.at, entry.text, entry.annotation) for entry in self.entries]

    def _blank_lines_after(self, entry: LogEntry) -> tuple[str, ...]:
        at = entry.end
        while at > entry.start + 1 and not self.lines[at - 1].strip(BLANK):
            at -= 1
        return self.lines[at : entry.end]


def header(day: date) -> bytes:
    """Return the first line of a new log."""
    return f"# Session Log: {day.isoformat()}\n".encode()


def entry_of(item: Item, end: str = "\n") -> bytes:
    """Return the bytes that add this item as the last entry of a log; `end` is the log's line end."""
    note = annotation_of(item, at=None, tags=item.tags)
    return ("".join([end, *_write(item.timestamp, item.text, note, end)])).encode()


def closing_of(tail: bytes, end: str = "\n") -> bytes:
    """Return the bytes that must follow the end of a log before an entry may: an interrupted write is closed, not cut
    off, because it may also be a person's unfinished line. An open comment would hide the next entry, and half a
    heading mark would become the last line of the entry before."""
    if not tail or tail.endswith(b"\n"):
        return b""
    line = tail[tail.rfind(b"\n") + 1 :]
    closing = " -->" if line.rfind(b"<!--") > line.rfind(b"-->") else "#" if line == b"#" else ""
    return f"{closing}{end}".encode()


def _write(at: datetime, text: str, note: Annotation, end: str, *, guarded: bool = False) -> list[str]:
    whole_minute = at.second == 0 and at.microsecond == 0
    lines = _lines(at, text)
    shown = _visible_text(lines)
    said = note.copy(at=None if whole_minute else at, text=None if shown == text else text).render()
    said = said or (GUARD if guarded else "")
    return [f"{line}{end}" for line in ([*lines, said] if said else lines)]


def _lines(at: datetime, text: str) -> list[str]:
    """Return the visible lines of an entry. A line of the body must not look like the next entry, close a fence that is
    open before it, or open one that is closed after it; only lines at the left edge can."""
    first, _, rest = text.partition("\n")
    title = visible_lines(first)[0]
    under = visible_lines(rest) if rest else []
    head = f"## {at.hour:02}:{at.minute:02}" + (f" — {title}" if title else "")
    return [head, *(_escape_line(line) for line in under if line or len(under) > 1)]


def _escape_line(line: str) -> str:
    if _HEADING.match(line):
        return f"\\{line}"
    return f" {line}" if _FENCE.match(line) else line


def _visible_text(lines: Sequence[str]) -> str:
    """Return the text that the visible lines read back as."""
    head = _ENTRY.match(lines[0])
    assert head is not None
    below = (_INDENTED_FENCE.sub("", line, count=1) if line[:2] in {" `", " ~"} else line for line in lines[1:])
    title, under = (head[3] or "").strip(BLANK), "\n".join(line.rstrip(BLANK) for line in below).strip(BLANK)
    return f"{title}\n{under}" if under else title


def _headings(lines: Sequence[str]) -> Iterator[int]:
    at = 0
    for start, stop in [*literal_ranges(lines, marks_end_fences=True), (len(lines), 0)]:
        for number in range(at, start):
            if lines[number].startswith("##") and _HEADING.match(body(lines[number])):
                yield number
        at = stop


def _entries(day: date, lines: Sequence[str], headings: Sequence[int]) -> Iterator[LogEntry]:
    for start, end in pairwise([*headings, len(lines)]):
        head = _ENTRY.match(body(lines[start]))
        if head is not None and int(head[1]) < 24 and int(head[2]) < 60:
            at = datetime.combine(day, time(int(head[1]), int(head[2])), UTC)
            yield _entry(start, end, at, [body(line) for line in lines[start:end]])


def _entry(start: int, end: int, at: datetime, lines: list[str]) -> LogEntry:
    whole, note = take_annotation("\n".join(lines))
    with_bullets = whole
    if any(MARK in line and not line.startswith(MARK) for line in lines[1:]):
        with_bullets, note = _split_annotations(lines)
    shown = _visible_text([line.rstrip(BLANK) for line in whole.split("\n")])
    exact = note.text is not None and _visible_text(_lines(at, note.text)) == shown
    text = note.text if exact and note.text is not None else shown
    if note.at is not None and note.at.replace(second=0, microsecond=0) == at:
        at = note.at
    bullets = None if exact else shown
    if bullets is not None and with_bullets is not whole:
        bullets = _visible_text([line.rstrip(BLANK) for line in with_bullets.split("\n")])
    return LogEntry(start, end, at, text, note.copy(at=None, text=None), bullets)


def _split_annotations(lines: Sequence[str]) -> tuple[str, Annotation]:
    """Return the lines of an entry without its own annotation but with those of its bullets, and its own. An annotation
    after a bullet or indented below it is the bullet's."""
    found, kept, within = NOTHING, list[str](), False
    for line in lines:
        edge = line.lstrip(BLANK)
        if is_bullet(edge):
            within = True
        elif edge and edge == line:
            within = within and bool(kept[-1].strip(BLANK)) and not begins_block(line)
        text, note = take_annotation(line)
        kept.append(line if within else text)
        found = found if within or note == NOTHING else note
    return "\n".join(kept), found


def days(names: Iterable[str]) -> list[date]:
    """Return the days of these log files, in order; other names are ignored."""
    return sorted(day for day in map(day_of, names) if day is not None)


def day_of(name: str) -> date | None:
    """Return the day of `YYYY-MM-DD.md`, or None for any other name."""
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\.md", name) is None:
        return None
    try:
        return date.fromisoformat(name[:10])
    except ValueError:
        return None
