"""Requests as a provider would send them: the inverse of verification."""

from __future__ import annotations

from dataclasses import replace

from runtime.secrets.secret import Secret
from runtime.webhooks.keys.shared_secret import secret_bytes
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.schemes.scheme import UnsignedRequest


def sign_request(
    row: Provider,
    secret: str | bytes | Secret,
    body: bytes,
    *,
    now: float,
    delivery_id: str,
    event: str | None = None,
    method: str = "POST",
    url: str | None = None,
) -> tuple[list[tuple[str, str]], bytes]:
    """Return headers and body as the sender `row` would send `body` at `now` (Unix seconds).

    The headers are content type, event, delivery id and signature. The body contains the proof or the time if the
    provider puts them there. An event or id in the body is written by the caller. `url`: the webhook's public URL, for
    providers that sign it.

    Raises ValueError as `prepare` does and for a body that has no place for the proof, and `CannotSign` for a secret
    that only verifies.
    """
    key = secret_bytes(secret)
    unsigned = UnsignedRequest(body, now, delivery_id, method, url)
    try:
        unsigned = replace(unsigned, body=row.scheme.embed(key, unsigned))
    except RecursionError:
        raise ValueError("the body is nested too deeply to write the proof into it") from None
    return signed_headers(row, key, unsigned, event), unsigned.body


def signed_headers(row: Provider, key: bytes, unsigned: UnsignedRequest, event: str | None) -> list[tuple[str, str]]:
    """Return the headers of `unsigned` as its sender would write them."""
    headers = row.headers(event, unsigned.delivery_id)
    sent = headers + row.scheme.sign(key, replace(unsigned, headers=tuple(headers)))
    return list({name.lower(): (name, value) for name, value in sent}.values())
