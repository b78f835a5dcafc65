"""Errors of a request at the level of HTTP, before routing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ERRORS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "malformed_request": (400, "the request is not HTTP/1.1 as RFC 9112 has it"),
        "ambiguous_length": (400, "the length of the request's body is missing or ambiguous"),
        "ambiguous_host": (400, "the request needs exactly one Host: a name or an address, optionally with a port"),
        "incomplete_body": (400, "the body ended too early"),
        "timeout": (408, "the request took too long to arrive"),
        "body_too_large": (413, "the body is too large"),
        "target_too_long": (414, "the request's target is too long"),
        "expectation_failed": (417, "Expect supports only 100-continue"),
        "headers_too_large": (431, "the request has too many headers, or too large ones"),
        "internal_error": (500, "internal error; try again later"),
        "overloaded": (503, "the server receives too much data; try again"),
        "version_not_supported": (505, "only HTTP/1.1 and HTTP/1.0 are supported"),
    }
)
"""Status and message of each error; messages contain no data of the request."""


class HttpError(Exception):
    """A request that cannot be handled. `error` is a key of `ERRORS`; the connection ends after the answer."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error
        self.status, self.message = ERRORS[error]
