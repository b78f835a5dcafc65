"""Prepares any text for embedding."""

from __future__ import annotations


def readable(text: str) -> str:
    """Return `text` as every model and JSON can take it: pairs of surrogates become one character, others U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def is_blank(text: str) -> bool:
    """True if there is nothing to embed: such a text has the zero vector, which is near to nothing."""
    return not text.strip()
