"""Conversion of text to a form that the columns of the database accept."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

_json = msgspec.json.Encoder()


def storable(text: str | None) -> str | None:
    """Return `text` as a database accepts it: NUL and lone surrogates become U+FFFD."""
    if text is None or (text.isascii() and "\x00" not in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\x00", "\ufffd")


def headers_json(headers: Sequence[tuple[str, str]]) -> str:
    """Return the headers as the JSON that a column stores: a list of pairs."""
    return _json.encode([(name, storable(value)) for name, value in headers]).decode()
