"""Signed requests and their verification, each in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from runtime.secrets.secret import Secret
from runtime.webhooks import verification
from runtime.webhooks.keys.shared_secret import secret_bytes
from runtime.webhooks.providers import find_provider
from runtime.webhooks.providers.provider import Provider
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.request.request import Keys, WebhookRequest, no_keys
from runtime.webhooks.schemes.scheme import Match, UnsignedRequest
from runtime.webhooks.verification import VerifiedRequest, Verifier

Row = str | Provider
Key = str | bytes | Secret
Pairs = Sequence[tuple[str, str]]
Options = Mapping[str, object] | BaseModel | None
NOW = 1_700_000_000


def configured(provider: Row, options: Options) -> Provider:
    """Return a provider's row with `options` applied."""
    return (find_provider(provider) if isinstance(provider, str) else provider).with_options(options)


def prepare(
    provider: Row, secrets: Sequence[Key], options: Options = None, places: Sequence[int] | None = None
) -> Verifier:
    """Return the verifier of a provider with `options`. Raises ValueError for provider, options or secrets."""
    return verification.prepare(configured(provider, options), secrets, places)


def sign_request(
    provider: Row, secret: Key, body: bytes, *, options: Options = None, **more: Any
) -> tuple[list[tuple[str, str]], bytes]:
    """Return headers and body as a provider with `options` would send them."""
    return verification.sign_request(configured(provider, options), secret, body, **more)


def sign(
    provider: Row, secret: Key, body: bytes, *, event: str | None = None, options: Options = None, **unsigned: Any
) -> list[tuple[str, str]]:
    """Return only the headers of `sign_request`, for an unchanged `body`."""
    request = UnsignedRequest(body, **unsigned)
    return verification.signed_headers(configured(provider, options), secret_bytes(secret), request, event)


def verify(
    provider: Row,
    secrets: Sequence[Key],
    headers: Pairs,
    body: bytes,
    *,
    now: float,
    options: Options = None,
    **more: Any,
) -> VerifiedRequest:
    """Verify one request in one call, and read its event and id. The parameters are those of `matched`.

    Raises `Refused` for the request, `KeyNeeded` for a document that is not there, ValueError for the provider,
    options or secrets (see `prepare`).
    """
    prepared = prepare(provider, secrets, options)
    request = _request(headers, body, **more)
    return prepared.identify(prepared.check(request, now), request, prepared.payload(request))


def refusal(provider: str, secret: str, headers: Pairs, body: bytes = b"{}", **more: Any) -> str:
    """Return the reason why `verify` refuses a request."""
    with pytest.raises(RefusedRequest) as caught:
        verify(provider, [secret], headers, body, **{"now": NOW, **more})
    return caught.value.reason


def matched(
    provider: Row,
    secrets: Sequence[Key],
    headers: Pairs,
    body: bytes,
    *,
    now: float,
    options: Options = None,
    **more: Any,
) -> Match:
    """Check only the signature of one request.

    `headers`: (name, value) pairs as received, repeated ones included. `body`: raw. `now`: Unix seconds. `url`: the
    webhook's public URL, for providers that sign it. `keys`: the documents of keys that are there. Secrets are tried
    in order, all of them. Raises as `verify` does.
    """
    return prepare(provider, secrets, options).check(_request(headers, body, **more), now)


def _request(
    headers: Pairs, body: bytes, *, method: str = "POST", url: str | None = None, query: str = "", keys: Keys = no_keys
) -> WebhookRequest:
    return WebhookRequest(Headers(headers), body, method, url, query, keys)
