"""A request as the checks see it: raw, with nothing parsed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from runtime.webhooks.request.headers import Headers

Keys = Callable[[str], bytes | None]
"""Looks up a document of keys by its URL in what has been fetched so far; None when it is not there."""


def no_keys(url: str) -> bytes | None:
    """The look-up where nothing is ever fetched."""
    return None


class Request(NamedTuple):
    """`body`: the raw bytes as received. `url`: the webhook's public URL as its owner declared it, never what Host
    says; None unless declared. `method`: in upper case. `query`: the raw query string without its question mark.
    `keys`: fetched documents, for senders that publish their keys."""

    headers: Headers
    body: bytes
    method: str = "POST"
    url: str | None = None
    query: str = ""
    keys: Keys = no_keys
