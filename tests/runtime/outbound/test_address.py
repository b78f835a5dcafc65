from __future__ import annotations

import socket

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from runtime.outbound.address import PublicResolver, is_public
from tests.cases import each_case


@each_case("text", ["1.1.1.1", "142.250.74.35", "2606:4700:4700::1111", "2a00:1450:4001:82a::200e"])
def test_addresses_of_the_internet_are_public(text: str) -> None:
    assert is_public(text)


@each_case(
    "text",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "192.88.99.1",
        "3fff::1",
        "2001:2::1",
        "100.64.0.1",
        "192.0.0.8",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.1.2.3",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "ff0e::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:a00:1::",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "100::1",
        "",
        "localhost",
        "1.1.1",
        "0x7f000001",
        "2130706433",
        "1.1.1.1/32",
    ],
)
def test_all_others_are_not_whatever_they_are_written_as(text: str) -> None:
    assert not is_public(text)


def test_an_address_in_an_address_counts_as_what_it_is() -> None:
    assert is_public("::ffff:1.1.1.1")
    assert is_public("64:ff9b::101:101")


class Answers(AbstractResolver):
    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=each, port=port, family=family, proto=0, flags=0)
            for each in self.addresses
        ]

    async def close(self) -> None:
        pass


async def test_a_name_with_public_addresses_only_is_resolved() -> None:
    found = await PublicResolver(Answers("1.1.1.1", "2606:4700:4700::1111")).resolve("keys.example", 443)
    assert [each["host"] for each in found] == ["1.1.1.1", "2606:4700:4700::1111"]


@each_case("addresses", [("127.0.0.1",), ("1.1.1.1", "10.0.0.1"), ("10.0.0.1", "1.1.1.1"), ()])
async def test_one_address_that_is_not_public_is_enough_to_refuse_a_name(addresses: tuple[str, ...]) -> None:
    with pytest.raises(OSError, match="not public"):
        await PublicResolver(Answers(*addresses)).resolve("keys.example", 443)
