"""Characters that nobody sees, outside of strings and comments: they are reported, and read as blanks.

They come with text that is copied from web pages and word processors.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from dslc.diagnostic import CODES, Diagnostic, Edit, Fix
from dslc.marks import COMMENT, LONG, STRING
from dslc.source import Source

_INVISIBLE = (
    "\x0b\x0c\x85\u00a0\u00ad\u034f\u061c\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u2066-\u206f\u3000\ufeff"
)
_ANY = re.compile(f"[{_INVISIBLE}]")
_FOUND = re.compile(
    rf'{LONG}|"""[\s\S]*+|{STRING}|"[^\n]*+|{COMMENT}|(?<![A-Za-z0-9_])\'[^\'\n{{}}]*\'|(?P<found>[{_INVISIBLE}]++)'
)
_SEPARATORS = "\x0b\x0c\x85\u2028\u2029"


class Cleaned(NamedTuple):
    """A text as it is read, as long as it was, and the places of its invisible characters."""

    text: str
    places: tuple[int, ...] = ()


def cleaned(text: str) -> Cleaned:
    """The text with a blank for every invisible character outside of strings and comments."""
    if _ANY.search(text) is None:
        return Cleaned(text)
    runs = [match.span() for match in _FOUND.finditer(text) if match["found"]]
    parts, at = [], 0
    for start, end in runs:
        parts += [text[at:start], " " * (end - start)]
        at = end
    places = tuple(place for start, end in runs for place in range(start, end))
    return Cleaned("".join([*parts, text[at:]]), places)


def reported(source: Source, places: Iterable[int]) -> list[Diagnostic]:
    """One diagnostic for each kind of such a character, at its first place, whose fix is for all of them."""
    text = source.text or ""
    by_kind: dict[str, list[int]] = {}
    for place in places:
        by_kind.setdefault(text[place], []).append(place)
    return [_reported(source, character, found) for character, found in by_kind.items()]


def _reported(source: Source, character: str, found: list[int]) -> Diagnostic:
    name = unicodedata.name(character, "").lower()
    message = f"invisible character U+{ord(character):04X}{f' ({name})' if name else ''}"
    if len(found) > 1:
        message += f", here and in {len(found) - 1} more place{'s' if len(found) > 2 else ''}"
    is_blank = unicodedata.category(character) == "Zs" or character in _SEPARATORS
    hint = "write a blank instead" if is_blank else "remove it"
    edits = tuple(Edit(source.span(place, place + 1), " " if is_blank else "") for place in found)
    span = source.span(found[0], found[0] + 1)
    return Diagnostic("S115", CODES["S115"][0], message, source.name, span, (), hint, Fix(hint, edits, safe=True))
