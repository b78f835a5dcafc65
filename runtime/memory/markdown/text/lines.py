"""A text file as lines that, joined, are its bytes again: the lossless ground under every Markdown document.

Bytes that are not UTF-8 become lone surrogates and go back as they came (PEP 383). Only LF ends a line; a CR before it
is part of the line's end. No other separator that Unicode or Python knows splits anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

BLANK = " \t\r\n"


def split(data: bytes) -> list[str]:
    """The lines of a file, each with its end; a last line without one is kept as it is."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def join(lines: Sequence[str]) -> bytes:
    """The bytes that `split` was given."""
    return "".join(lines).encode("utf-8", "surrogateescape")


def unreadable_line(data: bytes) -> int | None:
    """The first line, counted from 1, that is no text: not UTF-8, or with a NUL in it. None when all of them are."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        nul = data.find(b"\0", 0, error.start)
        return data.count(b"\n", 0, error.start if nul < 0 else nul) + 1
    nul = data.find(b"\0")
    return None if nul < 0 else data.count(b"\n", 0, nul) + 1


def body(line: str) -> str:
    """A line without its end, without spaces and tabs before it, and without a byte-order mark."""
    return line.rstrip(BLANK).removeprefix("\ufeff")


_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


def visible(text: str) -> list[str]:
    """A text as lines a person can be shown, none ending in white space, without blank ones at the ends.

    Control characters and separators that editors take for line ends show as U+FFFD, and comment marks as entities, so
    that no text hides what comes after it. What is lost that way is for an annotation to say.
    """
    shown = text.replace("\r\n", "\n") if "\r" in text else text
    shown = _UNSEEN.sub("\ufffd", shown).replace("<!--", "&lt;!--").replace("-->", "--&gt;")
    return [line.rstrip(BLANK) for line in shown.strip(BLANK).split("\n")]


def is_blank(line: str) -> bool:
    """Whether a line holds nothing but spaces, tabs and a byte-order mark."""
    return not body(line).strip(BLANK)


def newline(lines: Sequence[str]) -> str:
    """How this file ends its lines: as its first line does, LF when it has none."""
    return "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
