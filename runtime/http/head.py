"""The head of a request: its request line and header lines, read whole and strictly (RFC 9112 sections 2 to 6).

A head is only looked at once its empty line is there, so there is no half-read state to be confused in, and what
follows it is not touched. The grammar is the RFC's, without any of the leniencies that it permits: what one server
reads one way and a proxy before it another way is how requests are smuggled. Tests hold it to llhttp: whatever is
taken here, llhttp takes and reads alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from runtime.http.limits import Limits
from runtime.http.problem import Problem

END: Final = b"\r\n\r\n"

CHUNKED: Final = -1
"""The `length` of a body that says its length chunk by chunk."""

# The target in origin-form, absolute-form or asterisk-form (RFC 9112 section 3.2): visible ASCII without a fragment.
# RFC 3986 has fewer characters, but an exact look-up finds none of the others.
_LINE = r"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ((?:/|https?://|\*(?= ))[!-\"$-~]*) HTTP/"
_REQUEST_LINE = re.compile(_LINE + r"1\.([01])")
_OTHER_VERSION = re.compile(_LINE + r"[0-9]\.[0-9]")
# A field name is a token (RFC 9110 section 5.1); the value's characters have been checked when this is asked.
_FIELD_LINE = re.compile(r"\r\n([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r]*)")
# What a field value is made of (RFC 9110 section 5.5): tab, visible ASCII, and bytes above it.
_TEXT = bytes([9, *range(0x20, 0x7F), *range(0x80, 0x100)])
# RFC 9112 section 3.2 with RFC 3986 section 3.2: a name or an address, and a port; no user. It may be empty.
_HOST = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Za-z.:~_%-]+\])(?::[0-9]{0,5})?")
_LENGTH = re.compile(r"[0-9]{1,18}")
_NOTHING: Final[frozenset[str]] = frozenset()


class Head(NamedTuple):
    """`path`: the raw request target up to its query, exactly as sent; `query`: what follows the question mark.
    `pairs`: (name, value) in the order received, without the white space around values. `fields`: the first value of
    each name, in lower case; `repeated`: names that came more than once. `length`: of the body in bytes, or `CHUNKED`.
    `minor`: of HTTP/1.x. `expects`: the sender waits to be told to go on."""

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


def parse(data: bytes, limits: Limits) -> Head:
    """The head that `data` is, without its empty line: no CRLF at its end. Raises `Problem`.

    Text is UTF-8; other bytes are kept as surrogates and can be told from it.
    """
    count = data.count(b"\r\n")
    # Each control character must be of a CRLF: no bare CR or LF, no NUL.
    if data.translate(None, _TEXT) != b"\r\n" * count:
        raise Problem("malformed_request")
    text = data.decode("utf-8", "surrogateescape")
    end = text.find("\r\n")
    if end < 0:
        end = len(text)
    if end > limits.line:
        raise Problem("target_too_long")
    if count > limits.fields:
        raise Problem("headers_too_large")
    line = _REQUEST_LINE.fullmatch(text, 0, end)
    if line is None:
        other = _OTHER_VERSION.fullmatch(text, 0, end)
        raise Problem("malformed_request" if other is None else "version_not_supported")
    method, target, version = line.groups()
    pairs = _FIELD_LINE.findall(text, end)
    if len(pairs) != count:
        # A line without a colon or with a name that is none, or one that goes on with the line before it (obs-fold).
        raise Problem("malformed_request")
    fields, repeated = _by_name(pairs)
    minor = 1 if version == "1" else 0
    if method == "CONNECT":
        raise Problem("malformed_request")
    if "host" in repeated or not _is_host(fields.get("host", "" if minor == 0 else None)):
        raise Problem("ambiguous_host")
    path, _, query = target.partition("?")
    return Head(
        method,
        path,
        query,
        minor,
        pairs,
        fields,
        repeated,
        _length(fields, repeated, minor) if "content-length" in fields or "transfer-encoding" in fields else 0,
        _keeps_alive(pairs, minor) if "connection" in fields else minor == 1,
        minor == 1 and "expect" in fields and _expects(fields, repeated),
    )


def check_beginning(data: bytes, limits: Limits) -> None:
    """Look at a head that is not whole yet. Raises `Problem` when it can't become one any more."""
    if len(data) > limits.line and data.find(b"\r\n", 0, limits.line + 2) < 0:
        raise Problem("target_too_long")
    if len(data) > limits.head:
        raise Problem("headers_too_large")
    if data.count(b"\n") != data.count(b"\r\n") or not (data[:1].isalnum() or data == b"\r"):
        # Nothing will ever end it, or it is another protocol's greeting.
        raise Problem("malformed_request")


def _by_name(pairs: list[tuple[str, str]]) -> tuple[dict[str, str], frozenset[str]]:
    """The first value of each name; values lose the white space behind them, in `pairs` too."""
    fields: dict[str, str] = {}
    repeated: set[str] | None = None
    for place, (name, value) in enumerate(pairs):
        if value and value[-1] in " \t":
            value = value.rstrip(" \t")  # noqa: PLW2901 - it is the same value
            pairs[place] = (name, value)
        key = name.lower()
        if key not in fields:
            fields[key] = value
        elif repeated is None:
            repeated = {key}
        else:
            repeated.add(key)
    return fields, _NOTHING if repeated is None else frozenset(repeated)


@lru_cache(maxsize=64)
def _is_host(value: str | None) -> bool:
    """Senders use one of a few. None is no Host at all."""
    return value is not None and _HOST.fullmatch(value) is not None


def _length(fields: dict[str, str], repeated: frozenset[str], minor: int) -> int:
    """How long the body is (RFC 9112 section 6.3); only one plain statement of it is taken."""
    coding, length = fields.get("transfer-encoding"), fields.get("content-length")
    if "transfer-encoding" in repeated or "content-length" in repeated or (coding is not None and length is not None):
        raise Problem("ambiguous_length")
    if coding is not None:
        # HTTP/1.0 does not know it, and a proxy that speaks it would pass the chunks on as something else.
        if minor == 0 or coding.lower() != "chunked":
            raise Problem("ambiguous_length")
        return CHUNKED
    assert length is not None
    if _LENGTH.fullmatch(length) is None:
        raise Problem("ambiguous_length")
    return int(length)


def _keeps_alive(pairs: Sequence[tuple[str, str]], minor: int) -> bool:
    """Whether the connection may be used again (RFC 9112 section 9.3)."""
    said = ",".join(value for name, value in pairs if name.lower() == "connection").lower()
    options = {option.strip(" \t") for option in said.split(",")}
    return "close" not in options and (minor == 1 or "keep-alive" in options)


def _expects(fields: dict[str, str], repeated: frozenset[str]) -> bool:
    if "expect" in repeated or fields["expect"].lower() != "100-continue":
        raise Problem("expectation_failed")
    return True
