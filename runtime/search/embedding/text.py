"""Prepares any text for embedding."""

from __future__ import annotations


def readable(text: str) -> str:
    """Return `text` in a form that every model and JSON accept: pairs of surrogates become one character, others
    U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def is_blank(text: str) -> bool:
    """Return True if there is nothing to embed: such a text has the zero vector, which is similar to nothing."""
    return not text.strip()
