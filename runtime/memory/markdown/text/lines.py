"""A text file as lines that, joined, are its bytes again.

Bytes that are not UTF-8 become lone surrogates and are restored (PEP 383). Only LF ends a line; a CR before it is part
of the line's end. No other separator of Unicode or Python splits anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

BLANK = " \t\r\n"


def split(data: bytes) -> list[str]:
    """Split a file into lines, each with its end; the last one may have none."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def join(lines: Sequence[str]) -> bytes:
    """Reverse `split`."""
    return "".join(lines).encode("utf-8", "surrogateescape")


def unreadable_line(data: bytes) -> int | None:
    """Return the first line, counted from 1, that is not text: not UTF-8, or with a NUL. None if all are."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        nul = data.find(b"\0", 0, error.start)
        return data.count(b"\n", 0, error.start if nul < 0 else nul) + 1
    nul = data.find(b"\0")
    return None if nul < 0 else data.count(b"\n", 0, nul) + 1


def body(line: str) -> str:
    """Return a line without its end, leading spaces and tabs, and a byte-order mark."""
    return line.rstrip(BLANK).removeprefix("\ufeff")


_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


def visible_lines(text: str) -> list[str]:
    """Return a text as lines to show, without trailing white space and surrounding blank lines.

    Control characters and separators that editors take for line ends become U+FFFD, and comment marks become entities,
    so that no text hides what follows it. An annotation stores what is lost by this.
    """
    shown = text.replace("\r\n", "\n") if "\r" in text else text
    shown = _UNSEEN.sub("\ufffd", shown).replace("<!--", "&lt;!--").replace("-->", "--&gt;")
    return [line.rstrip(BLANK) for line in shown.strip(BLANK).split("\n")]


def is_blank(line: str) -> bool:
    """True if a line has only spaces, tabs and a byte-order mark."""
    return not body(line).strip(BLANK)


def newline(lines: Sequence[str]) -> str:
    """Return the line end of this file, that of its first line; LF if it has none."""
    return "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
