"""Basic authentication (RFC 7617): a name and a password in `Authorization`.

As with a token, nothing covers the body or a time: see `schemes.token`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.webhooks.keys.encoding import canonical_base64
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.schemes.scheme import Check, Scheme, UnsignedRequest
from runtime.webhooks.schemes.token import matching

_SCHEME = "basic "


def credentials(secret: bytes) -> bytes:
    """Return the secret as `name:password`. Raises ValueError, without the secret, if it has another form: a name has
    no colon, and neither part has control characters (RFC 7617 section 2)."""
    text = secret.strip(b"\r\n")
    name, colon, password = text.partition(b":")
    if not colon or not name or not password:
        raise ValueError("the secret must be `name:password`")
    if any(each < 0x20 or each == 0x7F for each in text):
        raise ValueError("name and password must not contain control characters")
    return text


@dataclass(frozen=True, slots=True)
class Basic(Scheme):
    """`Authorization: Basic …`, compared as bytes after decoding, in constant time."""

    headers = ("Authorization",)

    def check(self, secrets: Sequence[bytes]) -> Check:
        match = matching([credentials(secret) for secret in secrets])
        return lambda request, now: match(
            request, _read_credentials(request.headers.require("authorization", "missing_signature"))
        )

    def sign(self, secret: bytes, unsigned: UnsignedRequest) -> list[tuple[str, str]]:
        return [("Authorization", "Basic " + base64.b64encode(credentials(secret)).decode())]


def _read_credentials(value: str) -> bytes:
    """Return the credentials of a header's value. Raises `RefusedRequest` for another scheme, or base64 that is not
    canonical."""
    # The scheme's name is case-insensitive (RFC 9110 section 11.1).
    if value[: len(_SCHEME)].lower() != _SCHEME:
        raise RefusedRequest("malformed_signature")
    raw = canonical_base64(value[len(_SCHEME) :])
    if raw is None:
        raise RefusedRequest("malformed_signature")
    return raw
