"""The head of a request, and checks beyond those of llhttp.

aiohttp's parser has read it. The checks here refuse input that two servers may read differently, or that could block
one of them: one Host, one unambiguous body length, a target of visible ASCII. They work on bytes, because
`"\\u212a".lower()` is `"k"`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from aiohttp import HttpVersion10, HttpVersion11

from runtime.http.aiohttp_private import RawRequestMessage
from runtime.http.error import HttpError
from runtime.http.limits import HttpLimits

CHUNKED: Final = -1
"""The `length` of a chunked body."""

# RFC 9112 section 3.2 with RFC 3986 section 3.2: a name or an address, and a port; no user.
_NAME = r"[A-Za-z0-9._~!$&'()*+,;=%-]*"
_ADDRESS = r"\[[0-9A-Za-z.:~_%-]+\]"
_HOST = re.compile(rf"(?:{_NAME}|{_ADDRESS})(?::[0-9]{{0,5}})?")
# The target in origin-form, absolute-form or asterisk-form (RFC 9112 section 3.2): visible ASCII without a fragment.
# RFC 3986 allows fewer characters, but no route contains the others.
_TARGET = re.compile(rf"(?i:(https?://)({_HOST.pattern}))?((?:/[!\"$->@-~]*)?)(?:(\?)([!\"$-~]*))?")
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class RequestHead(NamedTuple):
    """`path`: the raw request target up to its query, exactly as sent, without the scheme and host of an absolute-form;
    `query`: what follows the question mark. `pairs`: (name, value) in the order received, without the white space
    around values; text is UTF-8, other bytes are kept as surrogates. `fields`: the first value of each name, in lower
    case; `repeated`: names that occur more than once. `length`: of the body in bytes, or `CHUNKED`. `minor`: of
    HTTP/1.x. `expects`: the sender waits for 100 Continue."""

    method: str
    path: str
    query: str
    minor: int
    pairs: Sequence[tuple[str, str]]
    fields: dict[str, str]
    repeated: frozenset[str]
    length: int
    keep_alive: bool
    expects: bool


def head_of(message: RawRequestMessage, limits: HttpLimits) -> RequestHead:
    """Return the head in `message`. Raises `HttpError`."""
    minor = _minor(message)
    path, query = _target(message.path)
    names, keys, more, size = _names(tuple([name for name, _ in message.raw_headers]), limits.head)
    values = [*message.headers.values()]
    if len(message.path) + size + len("".join(values).encode("utf-8", "surrogateescape")) > limits.head:
        raise HttpError("headers_too_large")
    # For equal names the last value stored is kept, which is the first one sent.
    fields = dict(zip(keys, values[::-1], strict=True))
    if "host" in more or not _is_host(fields.get("host", "" if minor == 0 else None)):
        raise HttpError("ambiguous_host")
    return RequestHead(
        message.method,
        path,
        query,
        minor,
        tuple(zip(names, values)),  # noqa: B905 - as many as above; asking again would cost as much as half of it
        fields,
        more,
        _length(message, fields, more, minor),
        not message.should_close,
        minor == 1 and "expect" in fields and _expects(fields, more),
    )


def _minor(message: RawRequestMessage) -> int:
    if message.version == HttpVersion11:
        minor = 1
    elif message.version == HttpVersion10:
        minor = 0
    else:
        raise HttpError("version_not_supported")
    if message.method == "CONNECT":
        raise HttpError("malformed_request")
    return minor


@lru_cache(maxsize=256)
def _target(target: str) -> tuple[str, str]:
    """Return path and query. A host in the target replaces the one in Host (RFC 9112 section 3.2.2); neither is
    used."""
    found = None if target == "*" else _TARGET.fullmatch(target)
    if found is None:
        if target != "*":
            raise HttpError("malformed_request")
        return target, ""
    scheme, host, path, _, query = found.groups()
    if not path if scheme is None else not host.partition(":")[0]:
        raise HttpError("malformed_request")
    return path or "/", query or ""


@lru_cache(maxsize=64)
def _names(raw: tuple[bytes, ...], most: int) -> tuple[Sequence[str], Sequence[str], frozenset[str], int]:
    """Return the names of a head's fields as sent, the same in lower case (RFC 9110 section 5.1) from the last to the
    first, those that occur more than once, and the size of all of them, at most `most` bytes. A sender's requests have
    the same names each time."""
    size = sum(len(name) + 4 for name in raw)
    if size > most:
        raise HttpError("headers_too_large")
    if not all(map(_TOKEN.fullmatch, raw)):
        raise HttpError("malformed_request")
    names = [name.decode("ascii") for name in raw]
    keys = [name.lower() for name in reversed(names)]
    return names, keys, frozenset(key for key, times in Counter(keys).items() if times > 1), size


@lru_cache(maxsize=64)
def _is_host(value: str | None) -> bool:
    """Return True if the value is a valid Host. Senders use a few different values. None: there is no Host."""
    return value is not None and _HOST.fullmatch(value) is not None


def _length(message: RawRequestMessage, fields: dict[str, str], repeated: frozenset[str], minor: int) -> int:
    """Return the length of the body (RFC 9112 section 6.3); only a single unambiguous length is accepted, which the
    parser reads in the same way."""
    coding, length = fields.get("transfer-encoding"), fields.get("content-length")
    if coding is None and length is None and not message.chunked:
        return 0
    if "transfer-encoding" in repeated or "content-length" in repeated or (coding is not None and length is not None):
        raise HttpError("ambiguous_length")
    if coding is not None:
        # HTTP/1.0 does not have chunked bodies, and a proxy that speaks it would forward the chunks as content.
        if minor == 0 or not coding.isascii() or coding.lower() != "chunked" or not message.chunked:
            raise HttpError("ambiguous_length")
        return CHUNKED
    if length is None or message.chunked or len(length) > 18 or not (length.isascii() and length.isdigit()):
        raise HttpError("ambiguous_length")
    return int(length)


def _expects(fields: dict[str, str], repeated: frozenset[str]) -> bool:
    expected = fields["expect"]
    if "expect" in repeated or not expected.isascii() or expected.lower() != "100-continue":
        raise HttpError("expectation_failed")
    return True
