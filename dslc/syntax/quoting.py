"""Names and texts as the language writes them."""

from __future__ import annotations

import re

from dslc.syntax.tokens import WORD

_WORD = re.compile(WORD)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quoted(text: str) -> str:
    """A text as a string on one line; what cannot be seen is escaped.

    Raises ValueError for what no string holds: NUL and halves of surrogate pairs.
    """
    if "\0" in text or re.search("[\ud800-\udfff]", text):
        raise ValueError("a string holds no NUL and no half of a surrogate pair")
    return f'"{"".join(map(_letter, text))}"'


def _letter(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter.isprintable():
        return letter
    units = letter.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def named(name: str) -> str:
    """A name as a bare word where it can be one, else as a string. Raises ValueError as `quoted` does."""
    return name if _WORD.fullmatch(name) else quoted(name)
