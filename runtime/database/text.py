"""Conversion of text to a form that the columns of the database accept."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final, overload

import msgspec

_json = msgspec.json.Encoder()
_ESCAPED: Final = re.compile("[\x00\x1b]")
_ESCAPE: Final = re.compile("\x1b(.)")


def storable(text: str | None) -> str | None:
    """Return `text` as a database accepts it: NUL and lone surrogates become U+FFFD."""
    if text is None or (text.isascii() and "\x00" not in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\x00", "\ufffd")


def is_distinct(text: str) -> bool:
    """Return True if a text is stored as it is, so that no other one is stored alike. U+FFFD is what a sender's
    program, or a decoder, wrote in place of something else."""
    return storable(text) == text and "\ufffd" not in text


def escaped(text: str) -> str:
    """Return a text that loses nothing when it is stored: PostgreSQL takes no NUL."""
    if "\x00" not in text and "\x1b" not in text:
        return text
    return _ESCAPED.sub(lambda found: "\x1b0" if found[0] == "\x00" else "\x1b\x1b", text)


def unescaped(text: str) -> str:
    """Reverse `escaped`."""
    return _ESCAPE.sub(lambda found: "\x00" if found[1] == "0" else found[1], text) if "\x1b" in text else text


@overload
def hash_key(text: str) -> str: ...
@overload
def hash_key(text: None) -> None: ...
@overload
def hash_key(text: str | None) -> str | None: ...
def hash_key(text: str | None) -> str | None:
    """Return the key by which a text that may be long, such as a subject, is found: half of its SHA-256, in hex."""
    return None if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def headers_json(headers: Sequence[tuple[str, str]]) -> str:
    """Return the headers as the JSON that a column stores: a list of pairs."""
    return _json.encode([(name, storable(value)) for name, value in headers]).decode()
