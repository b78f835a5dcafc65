"""Signed requests and their verification, each in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.secrets.secret import Secret
from runtime.webhooks.keys.shared_secret import secret_bytes
from runtime.webhooks.providers import find_provider
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.request import Keys, WebhookRequest, no_keys
from runtime.webhooks.schemes.scheme import UnsignedRequest
from runtime.webhooks.verification.signing import signed_headers
from runtime.webhooks.verification.verifier import Options, Verified, prepare


def sign(
    provider: str | Provider,
    secret: str | bytes | Secret,
    body: bytes,
    *,
    event: str | None = None,
    options: Options = None,
    **unsigned: Any,
) -> list[tuple[str, str]]:
    """Return only the headers of `sign_request`, for an unchanged `body`."""
    row = find_provider(provider).configured(options)
    return signed_headers(row, secret_bytes(secret), UnsignedRequest(body, **unsigned), event)


def verify(
    provider: str | Provider,
    secrets: Sequence[str | bytes | Secret],
    headers: Sequence[tuple[str, str]],
    body: bytes,
    *,
    now: float,
    method: str = "POST",
    url: str | None = None,
    options: Options = None,
    query: str = "",
    keys: Keys = no_keys,
) -> Verified:
    """Verify one request in one call.

    `headers`: (name, value) pairs as received, repeated ones included. `body`: raw. `now`: Unix seconds. `url`: the
    webhook's public URL, for providers that sign it. `keys`: the documents of keys that are there. Secrets are tried
    in order, all of them.

    Raises `Refused` for the request, `KeyNeeded` for a document that is not there, ValueError for the provider,
    options or secrets (see `prepare`).
    """
    verifier = prepare(provider, secrets, options)
    request = WebhookRequest(Headers(headers), body, method, url, query, keys)
    match = verifier.check(request, now)
    return verifier.identify(match, request, verifier.payload(request))
