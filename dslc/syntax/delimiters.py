"""Delimiters that structure a text before it is parsed: strings, comments, braces and brackets."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cached_property

from dslc.syntax.tokens import COMMENT, LONG, SINGLE_QUOTED_PART, STRING, UNCLOSED_LONG, UNCLOSED_STRING


class LazyPattern:
    """A regular expression compiled on first use; most programs need few of them."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self._pattern)

    def match(self, text: str, at: int) -> re.Match[str] | None:
        return self.compiled.match(text, at)

    def finditer(self, text: str, at: int = 0, end: int = sys.maxsize) -> Iterator[re.Match[str]]:
        return self.compiled.finditer(text, at, end)


WHITESPACE = " \t\r\n"
GAP = re.compile(rf"(?>(?:[ \t\r\n]++|{COMMENT})*)")
"""White space and comments between two sections."""
DELIMITER = re.compile(
    rf"{LONG}|(?P<endless>{UNCLOSED_LONG})|{STRING}|(?P<unclosed>{UNCLOSED_STRING})|{COMMENT}|\{{++|\}}++|\[++|\]++"
    rf"|{SINGLE_QUOTED_PART}"
)
"""Alternatives in the parser's order of precedence."""
FOREIGN_DELIMITER = LazyPattern(rf"{LONG}|{STRING}|{COMMENT}|\{{++|\}}++")
"""`DELIMITER` for blocks of the wider language, in which an unpaired quote does not begin a string."""
_WITHIN_LINE = LazyPattern(rf'(?>(?:{LONG}|{STRING}|{COMMENT}|{UNCLOSED_STRING}|[^\n{{}}"#/]++|/(?!/))*)')


def closing_braces(rest: str) -> int:
    """Number of blocks that the rest of a line after an unclosed string was meant to close, as in `"/hooks }`."""
    if "}" not in rest:
        return 0
    bare = rest.rstrip()
    trailing = len(bare) - len(bare.rstrip("} \t"))
    return max(bare[len(bare) - trailing :].count("}") - rest.count("{"), 0)


def balance(text: str, at: int = 0, depth: int = 0) -> int:
    """Number of opening braces minus closing braces from `at` on, plus `depth`. Brackets are not counted."""
    for mark in DELIMITER.finditer(text, at):
        sign, count = mark[0][0], mark.end() - mark.start()
        if sign == "{":
            depth += count
        elif sign == "}":
            depth -= count
        elif mark.lastgroup == "unclosed":
            depth -= min(closing_braces(mark[0]), depth)
    return depth


def bracket_balance(text: str) -> int:
    """Number of `[` minus number of `]`, without those in strings and comments."""
    marks = (mark[0] for mark in DELIMITER.finditer(text) if mark[0][0] in "[]")
    return sum(len(brackets) if brackets[0] == "[" else -len(brackets) for brackets in marks)


def matching_end(text: str, at: int) -> int:
    """End of the bracketed text that begins with the brace or bracket at `at`, or the end of the text if it is not
    closed."""
    depth = 0
    for mark in DELIMITER.finditer(text, at):
        sign, count = mark[0][0], mark.end() - mark.start()
        if sign in "{[":
            depth += count
        elif sign in "}]":
            if count >= depth:
                return mark.start() + depth
            depth -= count
    return len(text)


def comments(text: str, start: int, end: int, *, foreign: bool = False) -> Iterator[tuple[int, int]]:
    """Yield start and end of each comment between two positions, without its line end. Comment signs in strings are
    ignored.

    `foreign`: use the rules of a block of the wider language, in which an unpaired quote does not begin a string.
    """
    marks = FOREIGN_DELIMITER.compiled if foreign else DELIMITER
    for mark in marks.finditer(text, start, end):
        if mark[0][0] in "#/":
            yield mark.start(), mark.end() - mark[0].endswith("\r")


def entry_end(text: str, at: int) -> int:
    """End of the entry that contains `at`: the end of its line, or the `}` of its level."""
    while True:
        at = _WITHIN_LINE.match(text, at).end()  # type: ignore[union-attr]
        if text[at : at + 1] != "{":
            return at - (text[at - 1 : at + 1] == "\r\n")
        at = matching_end(text, at)


def list_end(text: str, start: int, at: int) -> int:
    """Position at which to continue after a list that begins at `start` and has an error before `at`: after its `]`, or
    at the next brace."""
    depth = 0
    for mark in DELIMITER.finditer(text, start):
        sign, count = mark[0][0], mark.end() - mark.start()
        if sign == "[":
            depth += count
        elif sign == "]" and count >= depth:
            return max(mark.start() + depth, at)
        elif sign == "]":
            depth -= count
        elif sign in "{}" and mark.start() >= at:
            return mark.start()
    return len(text)
