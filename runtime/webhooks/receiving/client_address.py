"""The sender's address of a request, behind any number of trusted proxies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from runtime.webhooks.request.headers import Headers

FORWARDED_FOR = "x-forwarded-for"

_WITH_PORT = re.compile(r"\[(?P<in_brackets>[^][]+)\](?::[0-9]{1,5})?|(?P<plain>[^][:]+):[0-9]{1,5}")


def client_address(peer: str | None, headers: Headers, trusted: int) -> str | None:
    """Return the sender's address, given that `trusted` proxies are between it and this server.

    Every proxy appends the address of its peer, so the `trusted`-th entry from the right of `X-Forwarded-For` (all its
    lines joined) is the one that the outermost trusted proxy saw. Entries to the left of it were written by the sender
    and are ignored. The result is `peer`, the other end of the connection, if `trusted` is 0, if there are fewer
    entries than proxies, or if the entry is not an address.

    `Forwarded` (RFC 7239) is not read: a proxy that writes one of the two passes the other one on as the sender wrote
    it, so trusting both means trusting the sender.
    """
    if trusted < 1:
        return peer
    entries = forwarded_for(headers)
    if len(entries) < trusted:
        return peer
    found = _parse_entry(entries[-trusted])
    return peer if found is None else str(found)


def forwarded_for(headers: Headers) -> list[str]:
    """Return the entries of all lines of `X-Forwarded-For`, in order."""
    if headers.get(FORWARDED_FOR) is None:
        return []
    lines = [value for name, value in headers.pairs if name.lower() == FORWARDED_FOR]
    return [entry.strip(" \t") for entry in ",".join(lines).split(",")]


def parse_address(address: str | None) -> IPv4Address | IPv6Address | None:
    """Return `address` without its zone, and IPv4-mapped IPv6 (RFC 4291 section 2.5.5.2) as IPv4; None if it is not an
    address."""
    if address is None:
        return None
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


def is_allowed(address: str | None, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    """Return True if `address` is in one of `networks`."""
    found = parse_address(address)
    return found is not None and any(found in network for network in networks)


def is_proxied(peer: str | None, headers: Headers) -> bool:
    """Return True if `peer` looks like a local proxy: on this machine or in a private network, and it sends
    `X-Forwarded-For`."""
    if headers.get(FORWARDED_FOR) is None:
        return False
    found = parse_address(peer)
    return found is None or found.is_private or found.is_loopback


def _parse_entry(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an entry; some proxies append a port, with an IPv6 address then in brackets."""
    match = _WITH_PORT.fullmatch(text)
    return parse_address(text if match is None else match["in_brackets"] or match["plain"])
