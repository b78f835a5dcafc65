"""The size of a JSON text before it is parsed: a parser makes an object of each of its values, at once."""

from __future__ import annotations

import re
from typing import Final

MOST_VALUES: Final = 100_000
"""Maximum values of a text, a member of an object as one: about 0.1 seconds of parsing and validation."""
MOST_DEPTH: Final = 500
"""Maximum depth of lists and objects in one another: half of what Python's parser reads."""
MOST_DIGITS: Final = 640
"""Maximum digits of a number in a text that is not parsed on the loop: reading and writing takes a time that is
quadratic in them."""
OFF_THE_LOOP: Final = 256 * 1024
"""Bytes of a text above which it is checked and parsed in a thread."""

TOO_DEEP: Final = f"it is nested more than {MOST_DEPTH} deep"

_COMMA: Final = ord(",")
_TEXT: Final = rb'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)(?:"|\\?\Z)'
# What is between the parts belongs to them: a search for the next part would take ten times as long.
_PARTS: Final = re.compile(rb'[^"\[\]{},]*+(?:' + _TEXT + rb"|[\[{\]},]|\Z)", re.DOTALL)
_NUMBERS: Final = re.compile(rb'[^"0-9]*+(?:' + _TEXT + rb"|([0-9]++)|\Z)", re.DOTALL)


def excess(text: bytes, most: int = MOST_VALUES, most_in_one: int | None = None) -> str | None:
    """Return the excess of a JSON text, as a sentence; None if it can be parsed at once. `most`: values that it may
    have, and `most_in_one` those of one list or object. For a text that is not JSON either is possible.

    It is counted as bytes first: an upper bound, which is enough for nearly all.
    """
    in_one = most if most_in_one is None else most_in_one
    opened = text.count(b"[") + text.count(b"{")
    if opened > MOST_DEPTH or opened + text.count(b",") >= min(most, in_one):
        # `above`: the commas of the lists and objects around the present one.
        above: list[int] = []
        commas, values = 0, 1
        for match in _PARTS.finditer(text):
            part = text[match.end() - 1]
            if part in b"[{":
                above.append(commas)
                commas = 0
                values += 1
            elif part in b"]}":
                commas = above.pop() if above else 0
            elif part == _COMMA:
                commas += 1
                values += 1
            if len(above) > MOST_DEPTH:
                return TOO_DEEP
            if values > most:
                return f"it has more than {most:,} values"
            if commas >= in_one:
                return f"it has a list or an object of more than {in_one:,} values"
    if len(text) > OFF_THE_LOOP and _has_long_number(text):
        return f"it has a number of more than {MOST_DIGITS} digits"
    return None


def _has_long_number(text: bytes) -> bool:
    """Return True for a number of more than `MOST_DIGITS` digits: of two places at half of that distance, one has
    nothing but digits."""
    half = MOST_DIGITS // 2
    if not any(text[at : at + half].isdigit() for at in range(0, len(text), half)):
        return False
    return any(len(match[1] or b"") > MOST_DIGITS for match in _NUMBERS.finditer(text))
