"""A day's log: `# Session Log: YYYY-MM-DD`, then entries `## HH:MM — Title` with what was noted below them.

An entry is an episodic item: the first line of its text is the title, the others are the body. It goes on to the next
line that begins with `## `, whatever else stands between; a section with another kind of heading is a person's and no
item. Times are UTC. An entry's annotation is its last line, so an entry that has one was written whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time
from itertools import pairwise
from typing import NamedTuple

from runtime.memory.annotation import Annotation, annotation_of, take
from runtime.memory.item import Item
from runtime.memory.lines import BLANK, body, join, newline, split, visible

_ENTRY = re.compile(r"##[ \t]+([0-9]{1,2}):([0-9]{2})(?:[ \t]+(?:[—–-]+(?:[ \t]+|$))?(.*))?$")
_HEADING = re.compile(r"##([ \t]|$)")


class Entry(NamedTuple):
    """One entry: its lines `start` to `end` (exclusive), when it was (UTC), its exact text and what is said behind."""

    start: int
    end: int
    at: datetime
    text: str
    annotation: Annotation


class Log:
    """One reading of a day's log. Immutable: what changes it returns another."""

    def __init__(self, day: date, lines: Sequence[str]) -> None:
        self.day = day
        self.lines = tuple(lines)
        self.entries = tuple(_read(day, self.lines))

    @classmethod
    def parse(cls, day: date, data: bytes) -> Log:
        """The log that these bytes are. Every text is one; `Log.parse(day, data).data == data`."""
        return cls(day, split(data))

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return join(self.lines)

    def replacing(self, entry: Entry, text: str) -> Log:
        """With another text in place of this entry's; its time and its annotation stay, as does what follows it."""
        lines = _write(entry.at, text, entry.annotation, newline(self.lines))
        blank = self._blank_lines_after(entry)
        if not blank and not self.lines[entry.end - 1].endswith("\n"):
            lines[-1] = lines[-1].rstrip("\r\n")
        return Log(self.day, [*self.lines[: entry.start], *lines, *blank, *self.lines[entry.end :]])

    def without(self, entry: Entry) -> Log:
        """Without this entry's lines, down to the next heading."""
        return Log(self.day, [*self.lines[: entry.start], *self.lines[entry.end :]])

    def _blank_lines_after(self, entry: Entry) -> tuple[str, ...]:
        at = entry.end
        while at > entry.start + 1 and not self.lines[at - 1].strip(BLANK):
            at -= 1
        return self.lines[at : entry.end]


def header(day: date) -> bytes:
    """The first line of a new log."""
    return f"# Session Log: {day.isoformat()}\n".encode()


def entry_of(item: Item, end: str = "\n") -> bytes:
    """The bytes that, at the end of a log, add this item as its last entry; `end` is how the log ends its lines."""
    note = annotation_of(item, at=None, tags=item.tags)
    return ("".join([end, *_write(item.timestamp, item.text, note, end)])).encode()


def mended(tail: bytes, end: str = "\n") -> bytes:
    """What must follow the last bytes of a log before an entry may: a write that was cut off is closed, not cut away,
    for it may as well be a person's unfinished line. A comment that is left open would hide what comes after it, and
    the first half of a heading's mark would become the last line of the entry before.
    """
    if not tail or tail.endswith(b"\n"):
        return b""
    line = tail[tail.rfind(b"\n") + 1 :]
    closing = " -->" if line.rfind(b"<!--") > line.rfind(b"-->") else "#" if line == b"#" else ""
    return f"{closing}{end}".encode()


def _write(at: datetime, text: str, note: Annotation, end: str) -> list[str]:
    whole_minute = at.second == 0 and at.microsecond == 0
    lines = _lines(at, text)
    shown = _shown(lines)
    said = note.saying(at=None if whole_minute else at, text=None if shown == text else text).render()
    return [f"{line}{end}" for line in ([*lines, said] if said else lines)]


def _lines(at: datetime, text: str) -> list[str]:
    """What a person sees of an entry. No line of the body may look like the next entry."""
    first, _, rest = text.partition("\n")
    title = visible(first)[0]
    under = visible(rest) if rest else []
    head = f"## {at.hour:02}:{at.minute:02}" + (f" — {title}" if title else "")
    return [head, *(f"\\{line}" if _HEADING.match(line) else line for line in under if line or len(under) > 1)]


def _shown(lines: Sequence[str]) -> str:
    """How the lines of an entry come back when nothing but they are read."""
    head = _ENTRY.match(lines[0])
    assert head is not None
    title, under = (head[3] or "").strip(BLANK), "\n".join(line.rstrip(BLANK) for line in lines[1:]).strip(BLANK)
    return f"{title}\n{under}" if under else title


def _read(day: date, lines: Sequence[str]) -> Iterator[Entry]:
    starts = [number for number, line in enumerate(lines) if line.startswith("##") and _HEADING.match(body(line))]
    for start, end in pairwise([*starts, len(lines)]):
        head = _ENTRY.match(body(lines[start]))
        if head is not None and int(head[1]) < 24 and int(head[2]) < 60:
            at = datetime.combine(day, time(int(head[1]), int(head[2])), UTC)
            yield _entry(start, end, at, [body(line) for line in lines[start:end]])


def _entry(start: int, end: int, at: datetime, lines: list[str]) -> Entry:
    whole, note = take("\n".join(lines))
    shown = _shown([line.rstrip(BLANK) for line in whole.split("\n")])
    text = shown
    if note.text is not None and _shown(_lines(at, note.text)) == shown:
        text = note.text
    if note.at is not None and note.at.replace(second=0, microsecond=0) == at:
        at = note.at
    return Entry(start, end, at, text, note.saying(at=None, text=None))


def days(names: Iterable[str]) -> list[date]:
    """The days whose logs these file names are, in order; other names are not logs."""
    return sorted(day for day in map(day_of, names) if day is not None)


def day_of(name: str) -> date | None:
    """The day of `YYYY-MM-DD.md`, None for any other name."""
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\.md", name) is None:
        return None
    try:
        return date.fromisoformat(name[:10])
    except ValueError:
        return None
