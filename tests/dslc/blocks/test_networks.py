"""Values of `allow_from`."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.network import valid_network


@given(st.one_of(st.ip_addresses().map(str), st.text("0123456789abcdef.:/%", max_size=20), st.text(max_size=20)))
def test_what_is_taken_is_an_address_or_a_network_to_the_library(text: str) -> None:
    try:
        valid_network(text)
    except Invalid:
        return
    assert isinstance(ip_network(text), IPv4Network | IPv6Network)


@given(st.ip_addresses(v=4), st.integers(0, 32))
def test_the_hint_for_an_address_with_host_bits_is_a_network_that_is_taken(address: object, length: int) -> None:
    text = f"{address}/{length}"
    meant = str(ip_network(text, strict=False))
    if meant == text:
        assert valid_network(text) == text
        return
    with pytest.raises(Invalid) as refused:
        valid_network(text)
    assert refused.value.hint == f"the network is `{meant}`"
    assert valid_network(meant) == meant


@pytest.mark.parametrize(
    ("text", "hint"),
    [("::ffff:192.0.2.7", "`192.0.2.7`"), ("::ffff:192.0.2.0/120", "`192.0.2.0/24`"), ("::ffff:0:0/96", "`0.0.0.0/0`")],
)
def test_an_ipv4_address_inside_ipv6_is_refused_with_the_plain_one(text: str, hint: str) -> None:
    with pytest.raises(Invalid) as refused:
        valid_network(text)
    assert refused.value.hint == hint


@pytest.mark.parametrize("text", ["::/0", "1.2.3.4", "1.2.3.4/32", "2001:DB8::", "::1"])
def test_other_addresses_and_networks_are_taken(text: str) -> None:
    assert valid_network(text) == text
