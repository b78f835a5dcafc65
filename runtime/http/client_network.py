"""Grouping of client addresses for counting."""

from __future__ import annotations

import socket


def network(address: str | None) -> bytes | None:
    """Return the packed network of `address`: the address itself for IPv4, mapped into IPv6 or not; for IPv6 the /64 of
    one customer. None if it is not an address, such as a Unix socket's."""
    if not address:
        return None
    try:
        if ":" not in address:
            return socket.inet_pton(socket.AF_INET, address)
        packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    except OSError:
        return None
    return packed[12:] if packed.startswith(b"\0" * 10 + b"\xff\xff") else packed[:8]
