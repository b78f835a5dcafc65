"""Invisible characters outside strings and comments: they are reported and then ignored.

They come from text copied from web pages and word processors. A character with a width is read as a blank. One without
a width is removed, so that the word around it is read as one word.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from dslc.diagnostics.diagnostic import CODES, Diagnostic, Edit, Fix
from dslc.source import OffsetText, Source, Span
from dslc.syntax.tokens import COMMENT, LONG, SINGLE_QUOTED_PART, STRING, UNCLOSED_LONG, UNCLOSED_STRING

_WIDE = "\x0b\x0c\x85\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_WIDTHLESS = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
_PART = "[A-Za-z0-9_.-]"
_ANY = re.compile(f"[{_WIDE}{_WIDTHLESS}]")
_BLANK = re.compile(f"[{_WIDE}]")
_FOUND = re.compile(
    rf"{LONG}|{UNCLOSED_LONG}|{STRING}|{UNCLOSED_STRING}|{COMMENT}|{SINGLE_QUOTED_PART}"
    rf"|(?P<word>(?<!{_PART}){_PART}++(?>(?:[{_WIDTHLESS}]++{_PART}++)+))|(?P<found>[{_WIDE}{_WIDTHLESS}]++)"
)


class CleanText(NamedTuple):
    """A text without invisible characters, of the same length, and the positions of these characters."""

    text: str
    places: tuple[int, ...] = ()


def clean_text(text: str) -> CleanText:
    """Replace every invisible character outside strings and comments by a blank; blanks for characters inside a word
    are moved after the word."""
    if _ANY.search(text) is None:
        return CleanText(text)
    parts, places, at = [], [], 0
    for match in _FOUND.finditer(text):
        if match.lastgroup is not None:
            parts += [text[at : match.start()], _ANY.sub("", match[0]).ljust(len(match[0]))]
            places += [match.start() + inner.start() for inner in _ANY.finditer(match[0])]
            at = match.end()
    return CleanText("".join([*parts, text[at:]]), tuple(places))


class Places(OffsetText):
    """Converts positions in the cleaned text to the original text; a word with invisible characters is covered as a
    whole."""

    def span(self, start: int, end: int) -> Span:
        number = bisect_left(self._words, (end, 0)) - 1
        if number >= 0 and end < self._words[number][1]:
            end = self._words[number][1]
        return super().span(start, end)

    @cached_property
    def _words(self) -> list[tuple[int, int]]:
        """Start and end of the words that contain an invisible character."""
        if self.text.isascii() or _ANY.search(self.text) is None:
            return []
        return [match.span() for match in _FOUND.finditer(self.text) if match.lastgroup == "word"]


def invisible_diagnostics(source: Source, places: Iterable[int]) -> list[Diagnostic]:
    """One diagnostic for each invisible character that occurs, at its first position; its fix covers all positions."""
    text = source.text or ""
    by_kind: dict[str, list[int]] = {}
    for place in places:
        by_kind.setdefault(text[place], []).append(place)
    return [_diagnostic(source, character, found) for character, found in by_kind.items()]


def _diagnostic(source: Source, character: str, found: list[int]) -> Diagnostic:
    name = unicodedata.name(character, "").lower()
    message = f"invisible character U+{ord(character):04X}{f' ({name})' if name else ''}"
    if len(found) > 1:
        message += f", here and in {len(found) - 1} more place{'s' if len(found) > 2 else ''}"
    is_blank = _BLANK.match(character) is not None
    hint = "replace it with a space" if is_blank else "remove it"
    edits = tuple(Edit(source.span(place, place + 1), " " if is_blank else "") for place in found)
    span = source.span(found[0], found[0] + 1)
    return Diagnostic("S115", CODES["S115"][0], message, source.name, span, (), hint, Fix(hint, edits, safe=True))
