"""Behind proxies the sender's address is the one that our outermost proxy saw, whatever the sender writes."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.webhooks.receiving.client_address import client_address, is_allowed, is_proxied
from runtime.webhooks.request.headers import Headers

PEER = "10.0.0.9"


def forwarded(*lines: str) -> Headers:
    return Headers([("Host", "hooks.example"), *(("X-Forwarded-For", line) for line in lines)])


@pytest.mark.parametrize(
    ("lines", "trusted", "address"),
    [
        (["198.51.100.7"], 0, PEER),
        (["198.51.100.7"], 1, "198.51.100.7"),
        (["203.0.113.1, 198.51.100.7"], 1, "198.51.100.7"),
        (["203.0.113.1, 198.51.100.7"], 2, "203.0.113.1"),
        (["203.0.113.1", "198.51.100.7"], 1, "198.51.100.7"),
        (["203.0.113.1", "198.51.100.7 ,10.0.0.1"], 2, "198.51.100.7"),
        ([], 1, PEER),
        ([""], 1, PEER),
        (["198.51.100.7"], 2, PEER),
        (["198.51.100.7, unknown"], 1, PEER),
        (["198.51.100.7,"], 1, PEER),
        (["198.51.100.7:4711"], 1, "198.51.100.7"),
        (["2001:db8::1"], 1, "2001:db8::1"),
        (["[2001:db8::1]:4711"], 1, "2001:db8::1"),
        (["[2001:DB8::1]"], 1, "2001:db8::1"),
        (["[2001:db8::1"], 1, PEER),
        (["[2001:db8::1]junk"], 1, PEER),
        (["198.51.100.7:junk"], 1, PEER),
        (["198.51.100.7:"], 1, PEER),
        (["::ffff:198.51.100.7"], 1, "198.51.100.7"),
        (["fe80::1%eth0"], 1, "fe80::1"),
        (["198.51.100.7\r\nx: y"], 1, PEER),
        (["\xa0198.51.100.7"], 1, PEER),
        (["1e9"], 1, PEER),
        (["198.051.100.7"], 1, PEER),
    ],
)
def test_the_entry_that_our_outermost_proxy_wrote_counts(lines: list[str], trusted: int, address: str) -> None:
    assert client_address(PEER, forwarded(*lines), trusted) == address


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.integers(1, 3))
def test_what_a_sender_writes_changes_nothing(spoofed: list[str], trusted: int) -> None:
    ours = [f"198.51.100.{number}" for number in range(trusted)]
    assert client_address(PEER, forwarded(*spoofed, ", ".join(ours)), trusted) == "198.51.100.0"


def test_the_other_header_for_it_is_not_believed() -> None:
    headers = Headers([("Forwarded", "for=203.0.113.1")])
    assert client_address(PEER, headers, 1) == PEER


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("192.0.2.7", True),
        ("192.0.3.7", False),
        ("::ffff:192.0.2.7", True),
        ("2001:db8:1::5", True),
        ("2001:db8:2::5", False),
        ("nonsense", False),
        (None, False),
    ],
)
def test_an_address_is_allowed_by_the_networks_it_is_in(address: str | None, allowed: bool) -> None:
    assert is_allowed(address, [ip_network("192.0.2.0/24"), ip_network("2001:db8:1::/48")]) == allowed


@pytest.mark.parametrize(
    ("peer", "proxied"),
    [("127.0.0.1", True), ("10.1.2.3", True), ("::1", True), ("fd00::1", True), (None, True), ("198.41.0.4", False)],
)
def test_a_peer_nearby_that_speaks_for_somebody_is_a_proxy(peer: str | None, proxied: bool) -> None:
    assert is_proxied(peer, forwarded("203.0.113.1")) == proxied
    assert not is_proxied(peer, forwarded())
