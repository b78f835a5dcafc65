"""Bullets of a Markdown list, read as CommonMark reads them and written so that they read back exactly.

A bullet begins at the left edge; indented lines, blank lines before those, and plain lines right below belong to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from runtime.memory.markdown.text.annotation import GUARD, NOTHING, Annotation, take_annotation, with_time
from runtime.memory.markdown.text.lines import BLANK, body, is_blank, visible_lines

_MARKER = re.compile(r"([-*+])([ \t]+|$)")
_STRUCTURE = re.compile(r"#{1,6}([ \t]|$)|[-*+]([ \t]|$)|[0-9]{1,9}[.)]([ \t]|$)|>|<!--|```|~~~")


class Bullet(NamedTuple):
    """One bullet: its lines `start` to `end` (exclusive) of the file, its exact text, and its annotation."""

    start: int
    end: int
    text: str
    annotation: Annotation


def read(lines: Sequence[str], start: int, stop: int) -> Iterator[Bullet]:
    """Yield the bullets among these lines, in order. An empty one without an annotation is a person's unfinished
    line."""
    at = start
    while at < stop:
        if not is_bullet(lines[at]):
            at += 1
            continue
        end = _end(lines, at, stop)
        text, annotation = take_annotation(_text_of(lines[at:end]))
        text = text.strip(BLANK)
        if annotation.text is not None and _visible_text(annotation.text) == text:
            text = annotation.text
        if text or annotation != NOTHING:
            yield Bullet(at, end, text, annotation.copy(at=annotation.at, text=None))
        at = end


def write(text: str, annotation: Annotation, newline: str, marker: str = "-", *, guarded: bool = False) -> list[str]:
    """Return the lines of a bullet that `read` turns back into this text and annotation. `guarded`: always with an
    annotation."""
    lines = _lines(text, marker)
    comment = annotation.copy(at=annotation.at, text=text if _visible_text(text) != text else None).render()
    comment = comment or (GUARD if guarded else "")
    if comment and len(lines) == 1:
        lines = [f"{lines[0]} {comment}"]
    elif comment:
        lines.append(f"  {comment}")
    return [f"{line}{newline}" for line in lines]


def add_time(lines: Sequence[str], at: datetime, newline: str) -> list[str]:
    """Return the lines of a bullet without a time, with this time in its annotation."""
    for number in reversed(range(len(lines))):
        line = with_time(lines[number], at)
        if line is not None:
            return [*lines[:number], line, *lines[number + 1 :]]
    last = lines[-1].rstrip("\r\n")
    end, note = lines[-1][len(last) :], Annotation(at=at).render()
    if len(lines) == 1:
        return [f"{last} {note}{end}"]
    return [*lines[:-1], f"{last}{end or newline}", f"  {note}{end}"]


def is_bullet(line: str) -> bool:
    """True if a bullet begins on this line."""
    text = body(line)
    return _MARKER.match(text) is not None and not is_break(text)


def is_break(line: str) -> bool:
    """True if the line is a thematic break: three or more of one of `-*_` and nothing else (CommonMark 4.1)."""
    text = body(line)
    sign = text[:1]
    return sign in {"-", "*", "_"} and text.count(sign) >= 3 and not text.replace(sign, "").strip(BLANK)


def marker_of(line: str) -> str:
    """Return the bullet's own marker: `-`, `*` or `+`."""
    return body(line)[0]


def _end(lines: Sequence[str], start: int, stop: int) -> int:
    at = start + 1
    while at < stop:
        if is_blank(lines[at]):
            after = at
            while after < stop and is_blank(lines[after]):
                after += 1
            if after == stop or lines[after][0] not in " \t":
                return at
            at = after
        elif lines[at][0] not in " \t" and (is_blank(lines[at - 1]) or begins_block(lines[at])):
            return at
        at += 1
    return stop


def begins_block(line: str) -> bool:
    """True if a line, without its indent, cannot continue a paragraph."""
    return _STRUCTURE.match(line) is not None or is_break(line)


def _text_of(lines: Sequence[str]) -> str:
    """Return the text of the lines of one bullet, annotations included."""
    first = body(lines[0])
    marker = _MARKER.match(first)
    assert marker is not None
    width = marker.end() if marker.end() <= 5 else 2
    return "\n".join([first[marker.end() :], *(_dedent(line.rstrip(BLANK), width) for line in lines[1:])])


def _dedent(line: str, width: int) -> str:
    taken = 0
    while taken < width and taken < len(line) and line[taken] in " \t":
        taken += 1
        if line[taken - 1] == "\t":
            break
    return line[taken:]


def _lines(text: str, marker: str) -> list[str]:
    first, *rest = visible_lines(text)
    head = f"{marker} {first.lstrip(BLANK)}".rstrip(BLANK)
    if is_break(head):
        head = f"{marker} \\{head[2:]}"
    return [head, *(f"  {line}" if line else "" for line in rest)]


def _visible_text(text: str) -> str:
    """Return the text that its visible lines read back as."""
    return _text_of(_lines(text, "-")).strip(BLANK)
