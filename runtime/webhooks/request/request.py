"""A request for verification, raw, without anything parsed; and a response that a provider's row prescribes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from runtime.webhooks.request.headers import Headers

Keys = Callable[[str], bytes | None]
"""Looks up a fetched document of keys by its URL; None if it was not fetched."""


_PARAMETERS = 16


def query_parameters(query: str) -> Mapping[str, str]:
    """Return the parameters of a query string; empty if one occurs twice or the string is malformed."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=_PARAMETERS)
    except ValueError:
        return {}
    found = dict(pairs)
    return found if len(found) == len(pairs) else {}


def no_keys(url: str) -> bytes | None:
    """Return None: a lookup without documents."""
    return None


class WebhookRequest(NamedTuple):
    """A request to verify. `body`: the raw bytes as received. `url`: the webhook's public URL as its owner declared it,
    never the Host header; None unless declared. `method`: in upper case. `query`: the raw query string without the
    question mark. `keys`: fetched documents, for senders that publish their keys."""

    headers: Headers
    body: bytes
    method: str = "POST"
    url: str | None = None
    query: str = ""
    keys: Keys = no_keys


class StaticAnswer(NamedTuple):
    """The response: `body` as it is sent. `fields`: names and values of more headers, without line ends."""

    status: int = 200
    content_type: str = "text/plain; charset=utf-8"
    body: bytes = b""
    fields: tuple[tuple[str, str], ...] = ()


OK: Final = StaticAnswer()
"""For senders that accept only 200 as success, and do not use a delivery's id."""
