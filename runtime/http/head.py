"""The head of a request, as a handler sees it, and what we ask of it beyond what llhttp does.

aiohttp's parser has read it. What is checked here is what lets two servers read one request differently, or lets one
of them be held up by it: one Host, one plain statement of the body's length, a target of visible ASCII. All of it is
decided on bytes, since `"\\u212a".lower()` is `"k"`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from aiohttp.http import HttpVersion10, HttpVersion11, RawRequestMessage

from runtime.http.limits import Limits
from runtime.http.problem import Problem

CHUNKED: Final = -1
"""The `length` of a body that says its length chunk by chunk."""

# RFC 9112 section 3.2 with RFC 3986 section 3.2: a name or an address, and a port; no user.
_NAME = r"[A-Za-z0-9._~!$&'()*+,;=%-]*"
_ADDRESS = r"\[[0-9A-Za-z.:~_%-]+\]"
_HOST = re.compile(rf"(?:{_NAME}|{_ADDRESS})(?::[0-9]{{0,5}})?")
# The target in origin-form, absolute-form or asterisk-form (RFC 9112 section 3.2): visible ASCII without a fragment.
# RFC 3986 has fewer characters, but an exact look-up finds none of the others.
_TARGET = re.compile(rf"(?i:(https?://)({_HOST.pattern}))?((?:/[!\"$->@-~]*)?)(?:(\?)([!\"$-~]*))?")
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LENGTH = re.compile(r"[0-9]{1,18}")
_NOTHING: Final[frozenset[str]] = frozenset()


class Head(NamedTuple):
    """`path`: the raw request target up to its query, exactly as sent, without the scheme and host of an absolute-form;
    `query`: what follows the question mark. `pairs`: (name, value) in the order received, without the white space
    around values; text is UTF-8, other bytes are kept as surrogates. `fields`: the first value of each name, in lower
    case; `repeated`: names that came more than once. `length`: of the body in bytes, or `CHUNKED`. `minor`: of
    HTTP/1.x. `expects`: the sender waits to be told to go on."""

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


def head_of(message: RawRequestMessage, limits: Limits) -> Head:
    """The head that `message` is. Raises `Problem`."""
    minor = _minor(message)
    path, query = _target(message.path)
    size = len(message.path)
    pairs: list[tuple[str, str]] = []
    fields: dict[str, str] = {}
    repeated: set[str] | None = None
    for raw_name, raw_value in message.raw_headers:
        size += len(raw_name) + len(raw_value) + 4
        name, key = _name(raw_name)
        value = raw_value.decode("utf-8", "surrogateescape")
        pairs.append((name, value))
        if key not in fields:
            fields[key] = value
        elif repeated is None:
            repeated = {key}
        else:
            repeated.add(key)
    if size > limits.head:
        raise Problem("headers_too_large")
    more = _NOTHING if repeated is None else frozenset(repeated)
    if "host" in more or not _is_host(fields.get("host", "" if minor == 0 else None)):
        raise Problem("ambiguous_host")
    return Head(
        message.method,
        path,
        query,
        minor,
        pairs,
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
        raise Problem("version_not_supported")
    if message.method == "CONNECT":
        raise Problem("malformed_request")
    return minor


@lru_cache(maxsize=256)
def _target(target: str) -> tuple[str, str]:
    """Path and query. A host in the target stands for the one in Host (RFC 9112 section 3.2.2); neither is used."""
    found = None if target == "*" else _TARGET.fullmatch(target)
    if found is None:
        if target != "*":
            raise Problem("malformed_request")
        return target, ""
    scheme, host, path, _, query = found.groups()
    if not path if scheme is None else not host.partition(":")[0]:
        raise Problem("malformed_request")
    return path or "/", query or ""


@lru_cache(maxsize=512)
def _name(raw: bytes) -> tuple[str, str]:
    """A field's name as sent, and in lower case (RFC 9110 section 5.1)."""
    if _TOKEN.fullmatch(raw) is None:
        raise Problem("malformed_request")
    name = raw.decode("ascii")
    return name, name.lower()


@lru_cache(maxsize=64)
def _is_host(value: str | None) -> bool:
    """Senders use one of a few. None is no Host at all."""
    return value is not None and _HOST.fullmatch(value) is not None


def _length(message: RawRequestMessage, fields: dict[str, str], repeated: frozenset[str], minor: int) -> int:
    """How long the body is (RFC 9112 section 6.3); only one plain statement of it is taken, and only one that the
    parser reads alike."""
    coding, length = fields.get("transfer-encoding"), fields.get("content-length")
    if coding is None and length is None and not message.chunked:
        return 0
    if "transfer-encoding" in repeated or "content-length" in repeated or (coding is not None and length is not None):
        raise Problem("ambiguous_length")
    if coding is not None:
        # HTTP/1.0 does not know it, and a proxy that speaks it would pass the chunks on as something else.
        if minor == 0 or not coding.isascii() or coding.lower() != "chunked" or not message.chunked:
            raise Problem("ambiguous_length")
        return CHUNKED
    if length is None or message.chunked or _LENGTH.fullmatch(length) is None:
        raise Problem("ambiguous_length")
    return int(length)


def _expects(fields: dict[str, str], repeated: frozenset[str]) -> bool:
    expected = fields["expect"]
    if "expect" in repeated or not expected.isascii() or expected.lower() != "100-continue":
        raise Problem("expectation_failed")
    return True
