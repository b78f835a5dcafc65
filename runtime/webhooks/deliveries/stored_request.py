"""What is kept of a request: its headers as received and its raw body, packed into one piece that is sealed as one.

Signatures stay, so that what was verified can be verified again; what would let its reader send requests does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from runtime.webhooks.deliveries.delivery import HeaderPairs
from runtime.webhooks.request.headers import Headers

HIDDEN: Final = "***"
"""Stands for a value that is a secret itself."""

_SECRET_NAMES: Final = ("authorization", "proxy-authorization", "cookie")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(HeaderPairs).decode


class StoredRequest(NamedTuple):
    """A request as it was received, but for hidden values."""

    headers: HeaderPairs
    body: bytes


def without_secrets(headers: Headers, secrets: Sequence[str] = (), credentials: Sequence[str] = ()) -> HeaderPairs:
    """The headers in the order received, without secrets: `***` for credentials and cookies, for the headers called
    `credentials` (in lower case), and for every value that holds one of `secrets`, as a shared token does. A signature
    is no secret."""
    names = (*_SECRET_NAMES, *credentials) if credentials else _SECRET_NAMES
    if not secrets and not any([headers.get(name) is not None for name in names]):  # noqa: C419 - quicker
        return headers.pairs
    pairs = []
    for name, value in headers.pairs:
        hide = name.lower() in names or any(secret in value for secret in secrets)
        pairs.append((name, HIDDEN if hide else value))
    return tuple(pairs)


def pack(headers: HeaderPairs, body: bytes) -> tuple[bytes, int]:
    """The piece that is sealed, and how many bytes of it are headers.

    Text that is no Unicode (a header's bytes that are not UTF-8) is kept with U+FFFD in place of it.
    """
    try:
        head = _encode(headers)
    except UnicodeEncodeError:
        head = _encode([(_unicode(name), _unicode(value)) for name, value in headers])
    return head + body, len(head)


def unpack(piece: bytes, headers_size: int) -> StoredRequest:
    """What `pack` made; of a delivery that was stored without its headers (`headers_size` 0) just the body."""
    if not headers_size:
        return StoredRequest((), piece)
    return StoredRequest(_decode(piece[:headers_size]), piece[headers_size:])


def body_of(piece: bytes, headers_size: int) -> bytes:
    """The raw body alone."""
    return piece[headers_size:] if headers_size else piece


def _unicode(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
