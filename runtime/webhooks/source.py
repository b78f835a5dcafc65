"""Where a provider puts its event type and its delivery id: `header:NAME`, or a JSONPath into the payload."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runtime.webhooks.headers import Headers
from runtime.webhooks.json_path import compile_path
from runtime.webhooks.payload import Payload
from runtime.webhooks.refusal import Refused

Read = Callable[[Headers, Payload], str | None]

_LENGTH = 255


def header_name(source: str) -> str | None:
    """The header's name of a source that is one."""
    return source.removeprefix("header:") if source.startswith("header:") else None


def compile_sources(sources: Sequence[str], *, malformed: str) -> Read:
    """The first of `sources` that is there and not empty, as text of at most 255 characters; else None.

    A body that can't be decoded has none. Raises `Refused(malformed)` for a value that is no short printable text
    (ASCII in a header), `Refused` `ambiguous_header` for a header sent twice, `duplicate_key` for a body that
    has a key twice.
    """
    reads = [_header(name) if (name := header_name(source)) else _json(source) for source in sources]

    def read(headers: Headers, payload: Payload) -> str | None:
        for each in reads:
            value = each(headers, payload)
            if not value:
                continue
            if len(value) > _LENGTH or not value.isprintable():
                raise Refused(malformed)
            return value
        return None

    def _never(headers: Headers, payload: Payload) -> None:
        return None

    return read if reads else _never


def _header(name: str) -> Read:
    lower = name.lower()

    def read(headers: Headers, payload: Payload) -> str | None:
        value = headers.one(lower, repeated="ambiguous_header")
        # Anything not ASCII becomes a control character here, which the caller refuses.
        return value if value is None or value.isascii() else "\0"

    return read


def _json(path: str) -> Read:
    find = compile_path(path)

    def read(headers: Headers, payload: Payload) -> str | None:
        node = next(iter(find(payload.unambiguous_or_none())), None)
        if isinstance(node, str):
            return node
        return str(node) if isinstance(node, int) and not isinstance(node, bool) else None

    return read
