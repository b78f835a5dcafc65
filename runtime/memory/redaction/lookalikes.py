"""Disguised secrets: full-width characters of Chinese and Japanese keyboards, letters of other alphabets inside a Latin
word, and invisible characters inserted by a page or a chat."""

from __future__ import annotations

import re

_FULL_WIDTH = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_LETTERS = str.maketrans(
    "АВЕЅІЈКМНОРСТХУаԁеһіјӏорԛѕсԝхуΑΒΕΖΗΙΚΜΝΟΡΤΥΧοα",
    "ABESIJKMHOPCTXYadehijlopqscwxyABEZHIKMNOPTYXoa",
)
_OTHERS = "".join(map(chr, _LETTERS))
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u2060\ufeff"

_ANY = re.compile(f"[\uff01-\uff5e{_INVISIBLE}{_OTHERS}]")
_WORD = re.compile(f"[A-Za-z{_OTHERS}]++")
_LATIN = re.compile("[A-Za-z]")
_INSIDE_ASCII = re.compile(f"(?<=[ -~])[{_INVISIBLE}]++(?=[ -~])")


def undisguised(text: str) -> str:
    """Return `text` in a form that patterns can read; `text` itself if nothing is disguised. Words entirely in another
    alphabet stay unchanged, and so do the joiners of emoji and of other scripts."""
    if text.isascii() or _ANY.search(text) is None:
        return text
    plain = _INSIDE_ASCII.sub("", text.translate(_FULL_WIDTH))
    return _WORD.sub(_latin, plain)


def _latin(word: re.Match[str]) -> str:
    return word.group().translate(_LETTERS) if _LATIN.search(word.group()) else word.group()
