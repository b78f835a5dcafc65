"""Errors of a request at the level of HTTP, before routing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ERRORS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "malformed_request": (400, "the request is not HTTP/1.1 as RFC 9112 has it"),
        "ambiguous_length": (400, "the request does not say plainly how long its body is"),
        "ambiguous_host": (400, "the request needs exactly one Host, a name or an address and perhaps a port"),
        "incomplete_body": (400, "the body ended too early"),
        "timeout": (408, "the request took too long to arrive"),
        "body_too_large": (413, "the body is too large"),
        "target_too_long": (414, "the request's target is too long"),
        "expectation_failed": (417, "only 100-continue can be expected"),
        "headers_too_large": (431, "the request has too many headers, or too large ones"),
        "internal_error": (500, "something went wrong here; try again later"),
        "overloaded": (503, "too much is being received; try again"),
        "version_not_supported": (505, "only HTTP/1.1 and HTTP/1.0 are spoken here"),
    }
)
"""Status and message of each; the messages contain nothing of the request."""


class HttpError(Exception):
    """A request that cannot be taken as it is. `error` is a key of `ERRORS`; after it the connection ends."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error
        self.status, self.message = ERRORS[error]
