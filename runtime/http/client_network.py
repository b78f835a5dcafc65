"""What addresses are counted under."""

from __future__ import annotations

import socket


def network(address: str | None) -> bytes | None:
    """Whose `address` is, packed: itself for IPv4, mapped into IPv6 or not, and of IPv6 the /64 that one customer has.
    None for what is no address, such as a Unix socket's."""
    if not address:
        return None
    try:
        if ":" not in address:
            return socket.inet_pton(socket.AF_INET, address)
        packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    except OSError:
        return None
    return packed[12:] if packed.startswith(b"\0" * 10 + b"\xff\xff") else packed[:8]
