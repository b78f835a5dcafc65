"""Cuts a text into its top-level pieces by strings, comments and braces, before anything is parsed.

A piece is parsed by itself: a mistake stays in its own, and only what an edit touched is read again. A block whose
braces pair up is a piece. Where they do not, the next head (`kind name {`) begins the next piece, for none stands
inside a body; and what a stray `}` cut off is put back to the block before it.

Blocks of the wider Symbiont language are cut here whole, by their braces: they have a syntax of their own. Their words
and shapes: `metadata`, `policy`, `schedule`, `channel` and `function` with any head up to its `{`, `type` likewise or
`type A = B` without a body, and `agent NAME(…) … { … }`. Parentheses in a head may go over lines.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator
from enum import Enum
from functools import cached_property
from typing import NamedTuple

ELSEWHERE = ("metadata", "policy", "schedule", "channel", "type", "function")
"""The words that open a block of the wider language, whatever its shape."""
DEEPEST = 64
"""Levels of braces and brackets that the language allows."""
MOST_BROKEN = 1000
"""Pieces that are no whole blocks after which the rest of a file is not read: it is no program."""

_FURTHEST = 1000  # pieces to look back for the block of a stray `}`


class _Late:
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


_STRING = r'"(?:[^"\\\n]++|\\[^\n])*+"'
_LONG = r'"""(?:[^"\\]++|\\[\s\S]|"(?!""))*+"""'
_COMMENT = r"(?:#|//)[^\n]*+"
_NAME = r'(?:[A-Za-z_][A-Za-z0-9_-]*+|"(?!"")(?:[^"\\\n]++|\\[^\n])*+")'

_WHITE = " \t\r\n"
_GAP = re.compile(rf"(?:[ \t\r\n]++|{_COMMENT})*+")
_HEAD = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]*+(?:[ \t]*+{_NAME})?[ \t]*+\{{")
_OPEN_HEAD = _Late(rf"[A-Za-z_][A-Za-z0-9_-]*+(?:[ \t]*+{_NAME})?[ \t]*+(?:{_COMMENT})?[\r\n]")
# What matters to the structure, in the order in which the parser's own tokens win.
_MARK = re.compile(
    rf'{_LONG}|(?P<endless>"""[\s\S]*+)|{_STRING}|(?P<unclosed>"[^\n]*+)|{_COMMENT}|\{{++|\}}++|\[++|\]++'
)
_WITHIN_LINE = _Late(rf'(?:{_LONG}|{_STRING}|{_COMMENT}|"[^\n]*+|[^\n{{}}"#/]++|/(?!/))*+')
_LINE = _Late(rf'(?:{_LONG}|(?!""")(?:{_STRING}|"[^\n]*+)|[^\n{{}}"/#]++|/(?!/))*+')

# A head without `{` and the lines below it that are indented.
_INDENTED_LINE = r"[ \t]++\S[^\n]*+"
_INDENTED = _Late(
    rf'[^\n{{}}"]*+(?:"[^\n{{}}"]*+")?[^\n{{}}"]*+\n{_INDENTED_LINE}(?:(?:[ \t\r]*+\n)++{_INDENTED_LINE})*+'
)
# Two settings or more, each on a line of its own.
_SETTING = (
    r"[A-Za-z_][A-Za-z0-9_-]*+[ \t]*+(?:[=:][ \t]*+)?"
    r'(?:"[^"\n]*+"|-?[0-9][A-Za-z0-9_.]*+|(?<=[ \t])[A-Za-z_][A-Za-z0-9_-]*+)[ \t]*+,?[ \t\r]*+'
)
_SETTINGS = _Late(rf"{_SETTING}(?:\n[ \t]*+{_SETTING}(?=\n|\Z))++")
_REST_OF_LINE = _Late(r"[^\r\n]*+")

_FOREIGN = re.compile(rf"(?:{'|'.join(ELSEWHERE)})(?![A-Za-z0-9_-])|agent(?![A-Za-z0-9_-])[ \t]*+{_NAME}[ \t]*+(?=\()")
_FOREIGN_HEAD = _Late(rf'(?:{_STRING}|[^\n{{}}("/#]++|/(?!/)|")*+')
_PARENTHESIS = _Late(rf"{_STRING}|{_COMMENT}|\(++|\)++|[{{}}]")
_EQUALS = _Late(rf"{_STRING}|{_COMMENT}|[()=]")
_FOREIGN_MARK = _Late(rf"{_LONG}|{_STRING}|{_COMMENT}|\{{++|\}}++")


class Fault(Enum):
    """What is wrong with the frame of a piece, as far as cutting can tell."""

    UNCLOSED = "its braces do not close"
    JOINED = "it was put together around a `}` that closes nothing"
    OUTSIDE = "it is no block"
    HEADLESS = "it is the body of a block that has no head"
    UNREAD = "too much before it is no block"


class Segment(NamedTuple):
    """`text[start:end]`, for the parser; when `foreign`, a block of the wider language whose head ends at `head_end`.

    `deepest`: how many levels of braces and brackets it has.
    """

    start: int
    end: int
    fault: Fault | None = None
    foreign: bool = False
    head_end: int = 0
    deepest: int = 0


def cut(text: str, kinds: Collection[str]) -> list[Segment]:
    """The pieces of a text in order; between them stand white space and comments only. `kinds`: the words that open a
    block of ours."""
    return _Cutter(text, kinds).pieces()


def _equates(head: str) -> bool:
    """Whether there is a `=` outside of strings and parentheses."""
    depth = 0
    for mark in _EQUALS.finditer(head):
        if mark[0] == "=" and depth == 0:
            return True
        depth = max(depth + (mark[0] == "(") - (mark[0] == ")"), 0)
    return False


def closers(rest: str) -> int:
    """How many blocks the rest of a line closes whose string is not closed: `"/hooks }` was meant to close one."""
    if "}" not in rest:
        return 0
    bare = rest.rstrip()
    trailing = len(bare) - len(bare.rstrip("} \t"))
    return max(bare[len(bare) - trailing :].count("}") - rest.count("{"), 0)


def balance(text: str) -> int:
    """How many more braces a piece opens than it closes; brackets do not count."""
    depth = 0
    for mark in _MARK.finditer(text):
        sign, count = mark[0][0], mark.end() - mark.start()
        if sign == "{":
            depth += count
        elif sign == "}":
            depth -= count
        elif mark.lastgroup == "unclosed":
            depth -= min(closers(mark[0]), depth)
    return depth


def matching(text: str, at: int) -> int:
    """Where what begins with the brace or bracket at `at` has been closed, or the end of the text."""
    depth = 0
    for mark in _MARK.finditer(text, at):
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
    marks = _FOREIGN_MARK.compiled if foreign else _MARK
    for mark in marks.finditer(text, start, end):
        if mark[0][0] in "#/":
            yield mark.start(), mark.end() - mark[0].endswith("\r")


def entry_end(text: str, at: int) -> int:
    """Where the entry that goes on at `at` ends: at the end of its line, or at the `}` of its depth."""
    while True:
        at = _WITHIN_LINE.match(text, at).end()  # type: ignore[union-attr]
        if text[at : at + 1] != "{":
            return at - (text[at - 1 : at + 1] == "\r\n")
        at = matching(text, at)


def list_end(text: str, start: int, at: int) -> int:
    """Where to go on after a list that began at `start` and has something wrong before `at`: behind its `]`, or at the
    next brace."""
    depth = 0
    for mark in _MARK.finditer(text, start):
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


class _Cutter:
    def __init__(self, text: str, kinds: Collection[str]) -> None:
        self.text = text
        self._kinds = "|".join(map(re.escape, sorted(kinds)))
        self._inner_head = re.compile(rf"\n(?:{self._kinds})[ \t]++{_NAME}[ \t]*+\{{")
        self._next_head = -1
        self._strict = False  # some block's braces do not pair up: the next head ends the block before it
        self._broken = 0
        self._absent: set[str] = set()  # what was looked for in vain
        self._patience = 4 * len(text)  # characters to look through for `)` in vain
        self.found: list[Segment] = []

    @cached_property
    def _heads(self) -> re.Pattern[str]:
        """Heads of blocks in column one, and one of ours with its name in any, for no reference takes a body.

        `=` and `:` are for fields of other languages, such as `type: {`.
        """
        return re.compile(
            rf"\n(?P<any>(?:{self._kinds}|{'|'.join(ELSEWHERE)})(?![A-Za-z0-9_-])[^\n{{}}=:]*+\{{)"
            rf"|\n[ \t]*+(?P<ours>(?:{self._kinds})[ \t]++{_NAME}[ \t]*+\{{)"
        )

    @cached_property
    def _names(self) -> re.Pattern[str]:
        """Heads in column one, with a `{` or without."""
        words = f"{self._kinds}|{'|'.join(ELSEWHERE)}"
        return re.compile(rf"^(?:{words})(?![A-Za-z0-9_-])[ \t]++{_NAME}", re.MULTILINE)

    def pieces(self) -> list[Segment]:
        text, found = self.text, self.found
        at = _GAP.match(text, 0).end()  # type: ignore[union-attr]
        while at < len(text):
            segment = self._foreign(at) or self._ours(at)
            if segment.fault is not None:
                self._broken += 1
                if self._broken > MOST_BROKEN:
                    segment = Segment(at, len(text), Fault.UNREAD)
                elif text[at] == "}":
                    segment = self._joined(segment)
            found.append(segment)
            at = _GAP.match(text, segment.end).end()  # type: ignore[union-attr]
        return found

    def _ours(self, at: int) -> Segment:
        """The block that begins here, or its line when none does."""
        text = self.text
        head = _HEAD.match(text, at)
        if head is not None:
            return self._whole(self._braces(at, head.end() - 1))
        head = _OPEN_HEAD.match(text, at)
        if head is not None:
            brace = _GAP.match(text, head.end()).end()  # type: ignore[union-attr]
            if text[brace : brace + 1] == "{":
                return self._braces(at, brace)
        beyond = self._beyond_lines(at)
        if beyond > at:
            return Segment(at, beyond, Fault.OUTSIDE)
        end = _LINE.match(text, at).end()  # type: ignore[union-attr]
        run = self._lines(at, end) if text[end : end + 1] != "{" else None
        if run is not None:
            return run
        if text[end : end + 1] == "{":
            braces = self._braces(at, end)
            return (
                braces if end > at else Segment(at, braces.end, braces.fault or Fault.OUTSIDE, deepest=braces.deepest)
            )
        if text.startswith('"""', end):
            return Segment(at, self._head_after(end), Fault.OUTSIDE)
        if end == at:
            end += 1
        return Segment(at, end - (text[end - 1] == "\r"), Fault.OUTSIDE)

    @cached_property
    def _opens(self) -> re.Pattern[str]:
        """A word that opens a block."""
        return re.compile(rf"(?:{self._kinds}|agent|{'|'.join(ELSEWHERE)})(?![A-Za-z0-9_-])")

    def _lines(self, at: int, end: int) -> Segment | None:
        """The body below a head without `{`, or settings without a head, that begin with this line."""
        beyond = self._indented(at)
        if beyond > end:
            return Segment(at, beyond, Fault.OUTSIDE)
        run = _SETTINGS.match(self.text, at)
        if run is None or self._opens.match(self.text, at):
            return None
        return Segment(at, run.end(), Fault.HEADLESS)

    def _indented(self, at: int) -> int:
        """Behind the lines that stand deeper than a head without `{`, up to the next head."""
        if self._column(at) != 0 or self._names.match(self.text, at) is None:
            return at
        lines = _INDENTED.match(self.text, at)
        return at if lines is None else min(lines.end(), self._head_after(at))

    def _beyond_lines(self, at: int) -> int:
        """Behind a `/* … */` or an unresolved merge that begins here."""
        for opened, closed in (("/*", "*/"), ("<<<<<<<", "\n>>>>>>>")):
            if self.text.startswith(opened, at) and closed not in self._absent:
                end = self.text.find(closed, at)
                if end >= 0:
                    return _REST_OF_LINE.match(self.text, end + len(closed)).end() if closed[0] == "\n" else end + 2  # type: ignore[union-attr]
                self._absent.add(closed)
        return at

    def _whole(self, block: Segment) -> Segment:
        """The block, or what stands before a head in column one inside of it: then a `}` is missing, and a later one is
        too much."""
        inner = self._inner_head.search(self.text, block.start, block.end)
        while inner is not None and block.fault is None:
            at = inner.start() + 1
            if not any(mark.start() < at < mark.end() for mark in _MARK.finditer(self.text, block.start, block.end)):
                self._strict = True
                return Segment(block.start, at, Fault.UNCLOSED, deepest=block.deepest)
            inner = self._inner_head.search(self.text, at, block.end)
        return block

    def _braces(self, at: int, brace: int) -> Segment:
        """From `at` to the `}` that closes the brace; to the next head when none does."""
        text = self.text
        limit = self._head_after(brace) if self._strict else len(text)
        depth = lists = deepest = 0
        for mark in _MARK.finditer(text, brace, limit):
            sign, count = mark[0][0], mark.end() - mark.start()
            if sign == "{":
                depth += count
                deepest = max(deepest, depth + lists)
            elif sign == "}":
                if count >= depth:
                    return Segment(at, mark.start() + depth, deepest=deepest)
                depth, lists = depth - count, 0
            elif sign == "[":
                lists += count
                deepest = max(deepest, depth + lists)
            elif sign == "]":
                lists -= min(count, lists)
            elif sign == '"' and mark.lastgroup == "unclosed":
                depth -= min(closers(mark[0]), depth)
                if depth == 0:
                    return Segment(at, mark.end(), deepest=deepest)
        self._strict = True
        return Segment(at, self._head_after(brace), Fault.UNCLOSED, deepest=deepest)

    def _head_after(self, at: int) -> int:
        """Where the next head begins after `at`, or the end of the text."""
        if self._next_head <= at:
            head = self._heads.search(self.text, at)
            self._next_head = head.start(head.lastgroup or 0) if head else len(self.text)
        return self._next_head

    def _joined(self, stray: Segment) -> Segment:
        """A `}` at the top level, with the block that it belongs to and all that was taken to stand outside of it.

        That is the last one that stands no further right: a block that was closed too early, or a head that lacks its
        `{`.
        """
        found, column = self.found, self._column(stray.start)
        first = len(found) - 1
        while first >= 0 and len(found) - first < _FURTHEST:
            segment = found[first]
            further_right = column is not None and (self._column(segment.start) or 0) > column
            outside = segment.fault in {Fault.OUTSIDE, Fault.HEADLESS} and not self._names.match(
                self.text, segment.start
            )
            if not further_right and not outside:
                break
            first -= 1
        if len(found) - first >= _FURTHEST:
            return stray
        if first < 0 or (first + 1 < len(found) and self._closes_where_it_should(found[first])):
            return self._merged(first + 1, stray, Fault.HEADLESS) if first + 1 < len(found) else stray
        if found[first].foreign or found[first].fault is Fault.UNCLOSED:
            return stray
        return self._merged(first, stray, Fault.JOINED)

    def _merged(self, first: int, last: Segment, fault: Fault) -> Segment:
        """One piece out of those from `first` on and `last`."""
        pieces = [*self.found[first:], last]
        del self.found[first:]
        return Segment(pieces[0].start, last.end, fault, deepest=max(piece.deepest for piece in pieces) + 1)

    def _closes_where_it_should(self, block: Segment) -> bool:
        """Whether the `}` of a block stands on a line of its own, no further right than the head."""
        head, brace = self._column(block.start), self._column(block.end - 1)
        return block.fault is None and head is not None and brace is not None and brace <= head

    def _column(self, at: int) -> int | None:
        """Characters before `at` when nothing but white space stands before it on its line."""
        before = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return None if before.strip(" \t") else len(before)

    def _foreign(self, at: int) -> Segment | None:
        """The block of the wider language that begins here."""
        word = _FOREIGN.match(self.text, at)
        if word is None:
            return None
        end = self._foreign_head(word.end())
        if end < 0:
            return None
        if self.text[end : end + 1] == "{":
            return self._foreign_body(at, end)
        head = self.text[at:end].rstrip(_WHITE)
        if self.text[end : end + 1] not in {"", "\n", "#", "/"}:
            return None
        if word[0] == "type" and _equates(head):
            return Segment(at, at + len(head), foreign=True, head_end=at + len(head))
        return None

    def _foreign_head(self, at: int) -> int:
        """Where a head ends: before `{`, a comment or the end of the line; -1 when its parentheses do not close."""
        text = self.text
        while True:
            at = _FOREIGN_HEAD.match(text, at).end()  # type: ignore[union-attr]
            if text[at : at + 1] != "(":
                return at
            if self._patience <= 0:
                return -1
            depth, start = 0, at
            for mark in _PARENTHESIS.finditer(text, at):
                sign, count = mark[0][0], mark.end() - mark.start()
                if sign == ")" and count >= depth:
                    at, depth = mark.start() + depth, 0
                    break
                if sign in "{}":
                    at = mark.start()
                    break
                depth += count * ((sign == "(") - (sign == ")"))
            else:
                self._patience -= len(text) - at
                return -1
            if depth:
                self._patience -= at - start
                return -1

    def _foreign_body(self, at: int, brace: int) -> Segment:
        head_end = at + len(self.text[at:brace].rstrip(_WHITE))
        depth = 0
        limit = self._head_after(brace) if self._strict else len(self.text)
        for mark in _FOREIGN_MARK.finditer(self.text, brace, limit):
            sign, count = mark[0][0], mark.end() - mark.start()
            if sign == "}" and count >= depth:
                return Segment(at, mark.start() + depth, foreign=True, head_end=head_end)
            depth += count * ((sign == "{") - (sign == "}"))
        self._strict = True
        return Segment(at, self._head_after(brace), Fault.UNCLOSED, foreign=True, head_end=head_end)
