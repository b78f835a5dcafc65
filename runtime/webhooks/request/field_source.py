"""Sources of a provider's event type and delivery id: `header:NAME`, or JSONPaths into the payload.

Two more for senders that name neither: `key:NAME,NAME` is the first of the payload's keys except these, if the key is
the event; `body` is the body's SHA-256 in hexadecimal, used as id if no two events have the same body.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from math import isinf
from typing import Final

from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.json_path import compile_path
from runtime.webhooks.request.payload import Payload
from runtime.webhooks.request.refusal import RefusedRequest

FieldReader = Callable[[Headers, Payload], str | None]

BODY: Final = "body"

_LENGTH = 255
_KEY = "key:"
_JOIN = " + "

# The separator of the parts of one value; none of the known ids contains it.
_BETWEEN = "|"

_REPLACED = "\N{REPLACEMENT CHARACTER}"


def header_name(source: str) -> str | None:
    """Return the header's name if the source is a header, else None."""
    return source.removeprefix("header:") if source.startswith("header:") else None


def compile_sources(sources: Sequence[str], *, malformed: str, every: bool = False) -> FieldReader:
    """Return a function that reads the first of `sources` that is present and not empty, as text of at most 255
    characters; else None.

    A source is `header:NAME`, `key:…`, `body`, a JSONPath, or several JSONPaths joined by ` + `, which must all find
    something. If a path finds several nodes, the first counts; with `every`, all of them do, so that the id of a batch
    includes every item. A long value made of several parts is replaced by its SHA-256.

    The function raises `RefusedRequest`: `malformed` for a value that is not short printable text (ASCII in a header)
    or was not sent as a whole, `ambiguous_header` for a header sent twice, and the reason why a body that a source
    needs cannot be decoded.
    """
    reads = [_reader(source, every) for source in sources]

    def read(headers: Headers, payload: Payload) -> str | None:
        for each in reads:
            value = each(headers, payload)
            if not value:
                continue
            if len(value) > _LENGTH or not _is_readable(value):
                raise RefusedRequest(malformed)
            return value
        return None

    def _never(headers: Headers, payload: Payload) -> None:
        return None

    return read if reads else _never


def _reader(source: str, every: bool) -> FieldReader:
    if source == BODY:
        return lambda headers, payload: payload.sha256()
    if source.startswith(_KEY):
        return _key(frozenset(source.removeprefix(_KEY).split(",")))
    name = header_name(source)
    return _json(source, every) if name is None else _header(name)


def _key(others: frozenset[str]) -> FieldReader:
    def read(headers: Headers, payload: Payload) -> str | None:
        body = payload.value()
        return next((key for key in body if key not in others), None) if isinstance(body, dict) else None

    return read


def _header(name: str) -> FieldReader:
    lower = name.lower()

    def read(headers: Headers, payload: Payload) -> str | None:
        value = headers.one(lower, repeated="ambiguous_header")
        # Non-ASCII characters become control characters, which the caller refuses.
        return value if value is None or value.isascii() else "\0"

    return read


def _json(source: str, every: bool) -> FieldReader:
    finds = [compile_path(path) for path in source.split(_JOIN)]

    def read(headers: Headers, payload: Payload) -> str | None:
        body = payload.value()
        parts: list[str] = []
        for find in finds:
            texts = [text for node in find(body)[: None if every else 1] if (text := _text(node))]
            if not texts:
                return None
            parts += texts
        value = _BETWEEN.join(parts)
        if len(parts) > 1 and len(value) > _LENGTH and _is_readable(value):
            return hashlib.sha256(value.encode()).hexdigest()
        return value

    return read


def _is_readable(value: str) -> bool:
    """Return True for printable text without U+FFFD: it replaces what could not be read, so two values may share it."""
    return value.isprintable() and _REPLACED not in value


def _text(node: object) -> str | None:
    if isinstance(node, str):
        return node
    if isinstance(node, float) and isinf(node):
        return _REPLACED  # a number that no type can hold
    return str(node) if isinstance(node, int) and not isinstance(node, bool) else None
