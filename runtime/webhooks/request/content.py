"""The content of a request: what is decoded, filtered and stored. It is the body, without its compression."""

from __future__ import annotations

import zlib
from typing import Final, Literal, NamedTuple

from runtime.webhooks.request.refusal import RefusedRequest

Compression = Literal["sent", "content"]
"""The bytes of a compressed body that a sender signs: the body as it was sent, or its uncompressed content."""

CODINGS: Final = frozenset({"gzip", "x-gzip", "deflate"})
"""The values of Content-Encoding that can be read (RFC 9110 section 8.4.1)."""

TRANSFER_HEADERS: Final = frozenset({"content-encoding", "content-length"})
"""Headers, in lower case, that describe the compressed body."""

FORM: Final = "application/x-www-form-urlencoded"

# Texts shrink to a tenth, repetitive logs to a fiftieth; a body made to fill the memory to a thousandth.
_RATIO = 100
_ANY_RATIO = 256 * 1024


class Content(NamedTuple):
    """`content_type`: the header's value with parameters; None if it was not sent."""

    body: bytes
    content_type: str | None


def most_content(size: int, limit: int) -> int:
    """Return the maximum bytes of the content of a compressed body of `size` bytes, if a body may have `limit`."""
    return min(limit, max(_RATIO * size, _ANY_RATIO))


def decompress(body: bytes, coding: str, most: int) -> bytes:
    """Return the content of a body with one of `CODINGS`. Memory is used for `most` bytes and not for more.

    Raises `RefusedRequest`: `body_too_large`, or `malformed_encoding` unless the body is exactly one compressed text.
    """
    # `deflate` is the zlib format; some senders leave out its header and its checksum.
    bits = 31 if coding != "deflate" else 15 if _is_zlib(body) else -15
    reader = zlib.decompressobj(bits)
    try:
        content = reader.decompress(body, most + 1)
    except zlib.error:
        raise RefusedRequest("malformed_encoding") from None
    if len(content) > most:
        raise RefusedRequest("body_too_large")
    if not reader.eof or reader.unused_data:
        raise RefusedRequest("malformed_encoding")
    return content


def _is_zlib(body: bytes) -> bool:
    """Return True for a header of RFC 1950."""
    return len(body) > 1 and body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0
