"""What matters to the structure of a text before anything is parsed: its strings, comments, braces and brackets."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cached_property

from dslc.syntax.tokens import COMMENT, LONG, STRING, UNCLOSED_LONG, UNCLOSED_STRING


class LazyPattern:
    """A regular expression that is compiled when it is first used: most programs need few of those here."""

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
"""What may stand between two pieces."""
DELIMITER = re.compile(
    rf"{LONG}|(?P<endless>{UNCLOSED_LONG})|{STRING}|(?P<unclosed>{UNCLOSED_STRING})|{COMMENT}|\{{++|\}}++|\[++|\]++"
    r"|(?<![A-Za-z0-9_])'[^'\n{}]*'"
)
"""In the order in which the parser's own tokens win; a text in single quotes is a mistake, but its `//` no comment."""
FOREIGN_DELIMITER = LazyPattern(rf"{LONG}|{STRING}|{COMMENT}|\{{++|\}}++")
"""The same in a block of the wider language, in which a lone quote is no string."""
_WITHIN_LINE = LazyPattern(rf'(?>(?:{LONG}|{STRING}|{COMMENT}|{UNCLOSED_STRING}|[^\n{{}}"#/]++|/(?!/))*)')


def closing_braces(rest: str) -> int:
    """How many blocks the rest of a line closes whose string is not closed: `"/hooks }` was meant to close one."""
    if "}" not in rest:
        return 0
    bare = rest.rstrip()
    trailing = len(bare) - len(bare.rstrip("} \t"))
    return max(bare[len(bare) - trailing :].count("}") - rest.count("{"), 0)


def balance(text: str, at: int = 0, depth: int = 0) -> int:
    """How many more braces a text opens than it closes, from `at` on, where `depth` are open; brackets do not count."""
    for mark in DELIMITER.finditer(text, at):
        sign, count = mark[0][0], mark.end() - mark.start()
        if sign == "{":
            depth += count
        elif sign == "}":
            depth -= count
        elif mark.lastgroup == "unclosed":
            depth -= min(closing_braces(mark[0]), depth)
    return depth


def matching_end(text: str, at: int) -> int:
    """Where what begins with the brace or bracket at `at` has been closed, or the end of the text."""
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
    """Where the comments between two places stand, each without its line end. What looks like one in a string is none.

    `foreign`: by the rules of a block of the wider language, in which a lone quote is no string.
    """
    marks = FOREIGN_DELIMITER.compiled if foreign else DELIMITER
    for mark in marks.finditer(text, start, end):
        if mark[0][0] in "#/":
            yield mark.start(), mark.end() - mark[0].endswith("\r")


def entry_end(text: str, at: int) -> int:
    """Where the entry that goes on at `at` ends: at the end of its line, or at the `}` of its depth."""
    while True:
        at = _WITHIN_LINE.match(text, at).end()  # type: ignore[union-attr]
        if text[at : at + 1] != "{":
            return at - (text[at - 1 : at + 1] == "\r\n")
        at = matching_end(text, at)


def list_end(text: str, start: int, at: int) -> int:
    """Where to go on after a list that began at `start` and has something wrong before `at`: behind its `]`, or at the
    next brace."""
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
