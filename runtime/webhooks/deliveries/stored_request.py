"""The stored request: headers as received and raw body, packed into one byte string that is encrypted as a whole.

Signatures are kept, so that a request can be verified again. Values that would let a reader send requests are removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from runtime.webhooks.deliveries.delivery import HeaderPairs
from runtime.webhooks.request.headers import Headers

HIDDEN: Final = "***"
"""Replaces a secret value."""

_SECRET_NAMES: Final = ("authorization", "proxy-authorization", "cookie")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(HeaderPairs).decode


class StoredRequest(NamedTuple):
    """A request as received, without secret values."""

    headers: HeaderPairs
    body: bytes


def without_secrets(headers: Headers, secrets: Sequence[str] = (), credentials: Sequence[str] = ()) -> HeaderPairs:
    """Return the headers in the order received, without secrets: `***` replaces credentials and cookies, the headers
    named in `credentials` (lower case), and every value that contains one of `secrets`, such as a shared token. A
    signature is not a secret."""
    names = (*_SECRET_NAMES, *credentials) if credentials else _SECRET_NAMES
    if not secrets and not any([headers.get(name) is not None for name in names]):  # noqa: C419 - quicker
        return headers.pairs
    pairs = []
    for name, value in headers.pairs:
        hide = name.lower() in names or any(secret in value for secret in secrets)
        pairs.append((name, HIDDEN if hide else value))
    return tuple(pairs)


def pack(headers: HeaderPairs, body: bytes) -> tuple[bytes, int]:
    """Return the bytes to encrypt, and how many of them are headers.

    Text that is not Unicode (header bytes that are not UTF-8) is stored with U+FFFD instead.
    """
    try:
        head = _encode(headers)
    except UnicodeEncodeError:
        head = _encode([(_unicode(name), _unicode(value)) for name, value in headers])
    return head + body, len(head)


def unpack(piece: bytes, headers_size: int) -> StoredRequest:
    """Return the request that `pack` packed; only the body for a delivery stored without headers (`headers_size` 0)."""
    if not headers_size:
        return StoredRequest((), piece)
    return StoredRequest(_decode(piece[:headers_size]), piece[headers_size:])


def body_of(piece: bytes, headers_size: int) -> bytes:
    """Return only the raw body."""
    return piece[headers_size:] if headers_size else piece


def _unicode(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
