"""Address rules: calls that a request causes go only to the public internet."""

from __future__ import annotations

import ipaddress
import socket

from aiohttp.abc import AbstractResolver, ResolveResult

# Networks with embedded IPv4 addresses, to which a gateway would forward: RFC 6052, and the older `::a.b.c.d`.
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")

# Entries of the registries that older versions of Python lack.
_SPECIAL = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "3fff::/20", "5f00::/16")))


def is_public(text: str) -> bool:
    """Return True for an address of the public internet (IANA's special-purpose registries): not loopback, private,
    link-local, shared, multicast or reserved, nor an IPv6 address that maps to such an address."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        if address.teredo is not None:
            return False
        held = address.ipv4_mapped or address.sixtofour
        if held is None and (address in _TRANSLATED or address in _COMPATIBLE):
            held = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if held is not None:
            return is_public(str(held))
    if any(address in network for network in _SPECIAL):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


class PublicResolver(AbstractResolver):
    """Resolves with `inner`, and refuses a name with any address that is not public.

    The connection is made to the checked addresses, so a name that resolves differently a moment later (DNS rebinding)
    has no effect.
    """

    def __init__(self, inner: AbstractResolver) -> None:
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Resolve the name. Raises OSError if an address is not public."""
        found = await self._inner.resolve(host, port, family)
        if not found or not all(is_public(each["host"]) for each in found):
            raise OSError(f"{host} has an address that is not public")
        return found

    async def close(self) -> None:
        await self._inner.close()
