"""A request as the checks see it: raw, with nothing parsed."""

from __future__ import annotations

from typing import NamedTuple

from runtime.webhooks.headers import Headers


class Request(NamedTuple):
    """`body`: the raw bytes as received. `url`: the webhook's public URL as its owner declared it, never what Host
    says; None unless declared. `method`: in upper case."""

    headers: Headers
    body: bytes
    method: str = "POST"
    url: str | None = None
