"""Limits on the size and time of requests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """The limits of one listener. Sizes are bytes, times seconds."""

    connections: int = 4096
    """Maximum open connections; beyond it a connection of the busiest address is evicted, see `ConnectionTable`; if all
    are at work, the new one."""
    line: int = 8 * 1024
    """Maximum bytes of the request line. RFC 9112 section 3 recommends at least 8,000."""
    head: int = 32 * 1024
    """Maximum bytes of the request line and all header lines."""
    fields: int = 100
    """Header lines."""
    all_bodies: int = 256 * 1024 * 1024
    """Maximum bytes of all bodies being received or handled. Above it the slowest are dropped after `body_grace`;
    if there are none, the one that needs more."""
    small: int = 256 * 1024
    """Bytes of a body beyond which it is large: what large bodies have beyond that is at most half of `all_bodies`, and
    a quarter for one address."""
    skipped_body: int = 256 * 1024
    """A refused body up to this size is read to its end, so that the connection can be used again."""
    head_seconds: float = 10
    """Seconds from the first byte of a head to its last, however slowly it arrives."""
    body_seconds: float = 30
    """Seconds from the end of a head to the end of the body."""
    body_rate: float = 240
    """Minimum bytes of body per second, on average, after `body_grace` seconds."""
    body_grace: float = 5
    idle_seconds: float = 75
    """Seconds for which a connection may wait for its next request."""
    write_seconds: float = 30
    """Seconds for which a sender may leave its answers unread before its connection is closed."""
    linger_seconds: float = 2
    """Seconds for which further input of a refused sender is discarded, so that it can read the reason: closing at
    once would reset the connection and lose the answer (RFC 9112 section 9.6)."""
