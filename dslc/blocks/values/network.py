"""IPv4 and IPv6 addresses and networks that may send."""

from __future__ import annotations

import re

from dslc.blocks.values.invalid import Invalid

_HINT = "such as `192.0.2.0/24`, `203.0.113.7` or `2001:db8::/32`"
_NETWORK = re.compile(r"[0-9A-Fa-f.:]{2,45}(?:/[0-9]{1,3})?")


def valid_network(network: str) -> str:
    """Return `network`. Raises Invalid unless it is an IPv4 or IPv6 address, or a network in CIDR notation (RFC 4632,
    RFC 4291 section 2.3) whose host bits are all zero; the hint is the network that was probably meant."""
    import ipaddress  # late: few programs use `allow_from`

    if _NETWORK.fullmatch(network) is None:
        raise Invalid("not an IP address or network", hint=_HINT)
    try:
        meant = ipaddress.ip_network(network, strict=False)
    except ValueError:
        raise Invalid("not an IP address or network", hint=_HINT) from None
    mapped = meant.network_address.ipv4_mapped if isinstance(meant, ipaddress.IPv6Network) else None
    if mapped is not None and meant.prefixlen >= 96:
        plain = ipaddress.ip_network((mapped, meant.prefixlen - 96), strict=False)
        raise Invalid("an IPv4 address inside IPv6 is compared as IPv4", hint=f"`{_short(str(plain))}`")
    address, slash, _ = network.partition("/")
    if slash and ipaddress.ip_address(address) != meant.network_address:
        raise Invalid(
            f"the address has bits set beyond the prefix `/{meant.prefixlen}`", hint=f"the network is `{meant}`"
        )
    return network


def _short(network: str) -> str:
    return network.removesuffix("/32")
