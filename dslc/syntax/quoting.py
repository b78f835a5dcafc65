"""Names and strings as the language writes them."""

from __future__ import annotations

import re

from dslc.syntax.tokens import WORD

_WORD = re.compile(WORD)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quoted(text: str) -> str:
    """Return the text as a string literal on one line, with non-printable characters escaped.

    Raises ValueError for characters that a string cannot contain: NUL and lone surrogates.
    """
    if "\0" in text or re.search("[\ud800-\udfff]", text):
        raise ValueError("a string cannot contain NUL or a lone surrogate")
    return f'"{"".join(map(_letter, text))}"'


def _letter(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter.isprintable():
        return letter
    units = letter.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def write_name(name: str) -> str:
    """Return the name as a bare word if possible, else as a string literal. Raises ValueError like `quoted`."""
    return name if _WORD.fullmatch(name) else quoted(name)
