"""Whose address a request is from, behind any number of proxies that we were told to trust."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from runtime.webhooks.request.headers import Headers

FORWARDED_FOR = "x-forwarded-for"


def client_address(peer: str | None, headers: Headers, trusted: int) -> str | None:
    """The sender's address, given that `trusted` proxies stand between it and us.

    Every proxy writes the address that it was asked from behind what it received, so the `trusted`-th entry from the
    right of `X-Forwarded-For` (all its lines taken together) is what the outermost proxy of ours saw; whatever stands
    left of it the sender wrote itself, and it is never looked at. With 0, with fewer entries than proxies and for an
    entry that is no address it is `peer`, the other end of the connection.

    `Forwarded` (RFC 7239) is not read: a proxy that writes one of the two lets the other one through as the sender
    wrote it, so to believe both is to believe the sender.
    """
    if trusted < 1:
        return peer
    entries = forwarded_for(headers)
    if len(entries) < trusted:
        return peer
    found = _entry(entries[-trusted])
    return peer if found is None else str(found)


def forwarded_for(headers: Headers) -> list[str]:
    """The entries of all lines of `X-Forwarded-For`, in order."""
    if headers.get(FORWARDED_FOR) is None:
        return []
    lines = [value for name, value in headers.pairs if name.lower() == FORWARDED_FOR]
    return [entry.strip(" \t") for entry in ",".join(lines).split(",")]


def parsed(address: str | None) -> IPv4Address | IPv6Address | None:
    """`address` without its zone; an IPv4 address that was mapped into IPv6 (RFC 4291 section 2.5.5.2) is IPv4. None
    for what is no address."""
    if address is None:
        return None
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


def is_allowed(address: str | None, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    """Whether `address` is in one of `networks`."""
    found = parsed(address)
    return found is not None and any(found in network for network in networks)


def is_proxied(peer: str | None, headers: Headers) -> bool:
    """Whether `peer` looks like a proxy of our own, whose address stands for everybody's: on this machine or in a
    private network, and it says whom it speaks for."""
    if headers.get(FORWARDED_FOR) is None:
        return False
    found = parsed(peer)
    return found is None or found.is_private or found.is_loopback


def _entry(text: str) -> IPv4Address | IPv6Address | None:
    """An entry as an address; some proxies write a port behind it, and an IPv6 address in brackets then."""
    if text.startswith("["):
        return parsed(text[1:].partition("]")[0])
    if text.count(":") == 1:
        text = text.partition(":")[0]
    return parsed(text)
