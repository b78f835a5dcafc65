"""The sender's address behind proxies. One that is refused repeatedly has to wait, one that is accepted never does."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from dslc.blocks.webhook import Webhook
from runtime.secrets.secret import Secret
from runtime.webhooks.receiving.address_limit import AddressLimit, Origin
from runtime.webhooks.receiving.client_address import client_address, is_allowed, is_proxied
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.routing.route import Route, build_route
from tests.cases import each_case
from tests.clocks import ManualClock

PEER = "10.0.0.9"


def forwarded(*lines: str) -> Headers:
    return Headers([("Host", "hooks.example"), *(("X-Forwarded-For", line) for line in lines)])


@each_case(
    "address, trusted, sent",
    [
        (PEER, 0, [["198.51.100.7"]]),
        (PEER, 1, [[], [""], ["198.51.100.7, unknown"], ["198.51.100.7,"], ["[2001:db8::1"], ["[2001:db8::1]junk"]]),
        (PEER, 1, [["198.51.100.7:junk"], ["198.51.100.7:"], ["198.51.100.7\r\nx: y"], ["\xa0198.51.100.7"], ["1e9"]]),
        (PEER, 1, [["198.051.100.7"]]),
        (PEER, 2, [["198.51.100.7"]]),
        ("198.51.100.7", 1, [["198.51.100.7"], ["198.51.100.7:4711"], ["::ffff:198.51.100.7"]]),
        ("198.51.100.7", 1, [["203.0.113.1, 198.51.100.7"], ["203.0.113.1", "198.51.100.7"]]),
        ("198.51.100.7", 2, [["203.0.113.1", "198.51.100.7 ,10.0.0.1"]]),
        ("203.0.113.1", 2, [["203.0.113.1, 198.51.100.7"]]),
        ("2001:db8::1", 1, [["2001:db8::1"], ["[2001:db8::1]:4711"], ["[2001:DB8::1]"]]),
        ("fe80::1", 1, [["fe80::1%eth0"]]),
    ],
)
def test_the_entry_that_our_outermost_proxy_wrote_counts(address: str, trusted: int, sent: list[list[str]]) -> None:
    assert [client_address(PEER, forwarded(*lines), trusted) for lines in sent] == [address] * len(sent)


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


SENDER = Origin("192.0.2.1", False)


@pytest.fixture
def limit(clock: ManualClock) -> AddressLimit:
    return AddressLimit(clock, per_minute=3)


@pytest.fixture
def route() -> Route:
    block = Webhook.model_validate(
        {"name": "github", "path": "/hooks/github", "provider": "github", "secret": ["secret://env/SECRET"]}
    )
    made = build_route(block, origin="x", secrets=[Secret(b"It's a secret", "env SECRET")], problem=None).route
    assert made is not None
    return made


def refuse(limit: AddressLimit, origin: Origin = SENDER, *, times: int = 3, status: int = 401) -> None:
    for _ in range(times):
        limit.record_refusal(origin, status)


def waits(limit: AddressLimit, origin: Origin = SENDER, route: Route | None = None) -> bytes:
    """Return the header lines of the refusal; empty if there is none."""
    with contextlib.suppress(RefusedRequest):
        limit.check(origin, route)
        return b""
    with pytest.raises(RefusedRequest, match="address_limited") as refused:
        limit.check(origin, route)
    return refused.value.fields


def test_after_so_many_refusals_an_address_waits_for_the_rest_of_the_minute(
    limit: AddressLimit, clock: ManualClock
) -> None:
    refuse(limit, times=2)
    assert not waits(limit)
    clock.advance(12.5)
    refuse(limit, times=1)
    assert waits(limit) == b"Retry-After: 48\r\n"
    assert not waits(limit, Origin("192.0.2.2", False))
    clock.advance(47.4)
    assert waits(limit) == b"Retry-After: 1\r\n"
    clock.advance(0.1)
    assert not waits(limit)
    refuse(limit, times=2)
    assert not waits(limit)


def test_setting_the_clock_does_not_help(limit: AddressLimit, clock: ManualClock) -> None:
    refuse(limit)
    clock.step(3600)
    assert waits(limit)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_is_not_the_senders_doing_does_not_count(limit: AddressLimit, status: int) -> None:
    refuse(limit, times=10, status=status)
    assert not waits(limit)


def test_an_address_is_known_where_a_request_from_it_was_verified(
    limit: AddressLimit, clock: ManualClock, route: Route
) -> None:
    limit.record_verification(SENDER, route)
    refuse(limit)
    assert not waits(limit, SENDER, route)
    assert waits(limit, SENDER, replace(route, name="other"))
    assert waits(limit, SENDER, None)
    clock.advance(3600)
    refuse(limit)
    assert waits(limit, SENDER, route)


def test_who_accepts_everything_knows_nobody(limit: AddressLimit, route: Route) -> None:
    route = replace(route, verified=False)
    limit.record_verification(SENDER, route)
    refuse(limit)
    assert waits(limit, SENDER, route)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2", True),
    ],
)
def test_addresses_of_one_customer_are_one(limit: AddressLimit, one: str, other: str, alike: bool) -> None:
    refuse(limit, Origin(one, False))
    assert bool(waits(limit, Origin(other, False))) == alike


@pytest.mark.parametrize("address", [None, "", "nonsense"])
def test_no_address_is_not_limited(limit: AddressLimit, address: str | None) -> None:
    refuse(limit, Origin(address, False))
    assert not waits(limit, Origin(address, False))


def test_memory_is_bounded_and_the_longest_unheard_of_goes(clock: ManualClock, route: Route) -> None:
    limit = AddressLimit(clock, per_minute=1, capacity=100)
    for number in range(1000):
        origin = Origin(f"192.0.{number // 250}.{number % 250}", False)
        refuse(limit, origin, times=1)
        limit.record_verification(origin, route)
    assert (len(limit._refused), len(limit._known)) == (100, 100)
    assert not waits(limit, Origin("192.0.0.0", False))
    assert waits(limit, Origin("192.0.3.249", False))


def test_zero_is_no_limit(clock: ManualClock) -> None:
    limit = AddressLimit(clock, per_minute=0)
    refuse(limit, times=500)
    assert not waits(limit)


def test_a_proxy_that_nobody_told_us_of_is_not_limited_and_that_is_said_once(clock: ManualClock) -> None:
    limit = AddressLimit(clock, per_minute=3)
    origin = limit.origin("10.0.0.9", Headers([("X-Forwarded-For", "203.0.113.1")]))
    assert origin == Origin("10.0.0.9", True)
    with capture_logs() as logs:
        refuse(limit, origin, times=10)
    assert not waits(limit, origin)
    assert [entry["log_level"] for entry in logs] == ["warning"]
    assert "--trusted-proxies" in logs[0]["hint"]


def test_behind_a_trusted_proxy_each_sender_is_counted_alone(clock: ManualClock) -> None:
    limit = AddressLimit(clock, trusted=1, per_minute=3)

    def sender(address: str) -> Origin:
        return limit.origin("10.0.0.9", Headers([("X-Forwarded-For", f"192.0.2.50, {address}")]))

    refuse(limit, sender("203.0.113.1"))
    assert waits(limit, sender("203.0.113.1"))
    assert not waits(limit, sender("203.0.113.2"))


def test_only_allowed_networks_may_send(limit: AddressLimit, route: Route) -> None:
    route = replace(route, allow_from=(ip_network("192.0.2.0/24"),))
    limit.check(SENDER, route)
    with pytest.raises(RefusedRequest, match="address_not_allowed") as refused:
        limit.check(Origin("198.51.100.1", False), route)
    assert (refused.value.status, refused.value.shown) == (403, "forbidden")


def test_what_never_became_a_request_is_counted_where_its_address_is_known(clock: ManualClock) -> None:
    direct, behind = AddressLimit(clock, per_minute=3), AddressLimit(clock, trusted=1, per_minute=3)
    for limit in (direct, behind):
        for status in (400, 431, 505):
            limit.record_refusal(limit.unread_origin("192.0.2.1"), status)
    assert waits(direct)
    # Behind a trusted proxy the address is the proxy's, and blocking it would block every sender.
    assert not waits(behind, behind.unread_origin("192.0.2.1"))
