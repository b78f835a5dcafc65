"""The store of fetched keys, with a real HTTPS server."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from structlog.testing import capture_logs

from runtime.outbound import key_store as limits
from runtime.outbound.key_store import KeyStore
from tests.clocks import ManualClock, until
from tests.runtime.outbound.https import authority, serving

KEYS = b'{"keys": []}'


class Names(AbstractResolver):
    """A resolver that returns the local address for every name, and counts its calls."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses or ("127.0.0.1",)
        self.asked = self.closed = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        # Another address each time, as in a DNS rebinding attack.
        self.asked += 1
        address = self.addresses[min(self.asked, len(self.addresses)) - 1]
        return [ResolveResult(hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0)]

    async def close(self) -> None:
        self.closed += 1


class Sender:
    """A server with scripted responses, and the store that calls it."""

    def __init__(self, clock: ManualClock, tls: ssl.SSLContext) -> None:
        self.names = Names()
        self.clock = clock
        self.tls = tls
        self.store = KeyStore(clock, tls=tls, resolver=lambda: self.names)
        self.answer = web.Response(body=KEYS)
        self.asked: list[str] = []
        self.hold: asyncio.Event | None = None
        self.port = 0

    def url(self, path: str = "/keys", host: str = "keys.example") -> str:
        return f"https://{host}:{self.port}{path}"

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request.path)
        if self.hold is not None:
            await self.hold.wait()
        return web.Response(status=self.answer.status, body=self.answer.body, headers=dict(self.answer.headers))

    async def get(self, path: str = "/keys", *, outdated: bool = False) -> bytes | None:
        await self.store.fetch(self.url(path), outdated=outdated, configured=True)
        return self.store.find(self.url(path))

    async def named(self, path: str, *, by: str) -> bytes | None:
        """Look up a key as for an unverified request from the address `by` that names the URL."""
        await self.store.fetch(self.url(path), configured=True, named_by=by)
        return self.store.find(self.url(path))


@pytest.fixture
async def sender(clock: ManualClock, tmp_path: Path) -> AsyncIterator[Sender]:
    server, client = authority(tmp_path)
    sender = Sender(clock, client)
    async with serving(sender.handle, server, host="127.0.0.1") as port:
        sender.port = port
        yield sender
    await sender.store.close()


async def test_a_document_is_fetched_once_and_then_here(sender: Sender) -> None:
    assert sender.store.find(sender.url()) is None
    assert await sender.get() == KEYS
    assert await sender.get() == KEYS
    assert sender.asked == ["/keys"]


async def test_all_who_wait_for_one_document_share_one_fetch(sender: Sender) -> None:
    sender.hold = asyncio.Event()
    waiting = [asyncio.create_task(sender.get()) for _ in range(20)]
    await until(lambda: bool(sender.asked))
    waiting[0].cancel()
    sender.hold.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert found[1:] == [KEYS] * 19
    assert isinstance(found[0], asyncio.CancelledError)
    assert len(sender.asked) == 1


@pytest.mark.parametrize(
    ("cache_control", "seconds"),
    [
        ("public, max-age=600, must-revalidate", 600), ("max-age=0", 300), ("no-store", 3600),
        ("max-age=99999999", 86400),
        ('MAX-AGE="700"', 700), ("s-maxage=7", 3600), ("max-age=-1", 3600), ("max-age=9e9", 300),
    ],
)  # fmt: skip
async def test_a_document_is_kept_as_long_as_it_says_within_bounds(
    sender: Sender, cache_control: str, seconds: int
) -> None:
    sender.answer.headers["Cache-Control"] = cache_control
    await sender.get()
    sender.clock.advance(seconds - 1)
    assert sender.store.find(sender.url()) == KEYS
    sender.clock.advance(2)
    assert sender.store.find(sender.url()) is None
    assert await sender.get() == KEYS


async def test_an_outdated_document_is_fetched_again_unless_it_is_quite_new(sender: Sender) -> None:
    await sender.get()
    await sender.get(outdated=True)
    assert len(sender.asked) == 1
    sender.clock.advance(61)
    sender.answer = web.Response(body=b'{"keys": [1]}')
    assert await sender.get(outdated=True) == b'{"keys": [1]}'
    assert len(sender.asked) == 2


async def test_a_document_that_cannot_be_renewed_stays_until_it_is_too_old(sender: Sender) -> None:
    await sender.get()
    sender.clock.advance(61)
    sender.answer = web.Response(status=500)
    assert await sender.get(outdated=True) == KEYS


async def test_a_failure_is_remembered_for_half_a_minute(sender: Sender) -> None:
    sender.answer = web.Response(status=404)
    assert await sender.get() is None
    assert await sender.get() is None
    assert len(sender.asked) == 1
    sender.clock.advance(31)
    sender.answer = web.Response(body=KEYS)
    assert await sender.get() == KEYS


@pytest.mark.parametrize("status", [201, 204, 301, 302, 307, 401, 500])
async def test_only_200_is_an_answer_and_no_redirect_is_followed(sender: Sender, status: int) -> None:
    sender.answer = web.Response(status=status, headers={"Location": sender.url("/elsewhere")})
    assert await sender.get() is None
    assert sender.asked == ["/keys"]


async def test_a_document_of_just_the_largest_size_is_taken_and_a_larger_one_is_not(sender: Sender) -> None:
    sender.answer = web.Response(body=b"x" * limits.BYTES)
    assert await sender.get("/1") == b"x" * limits.BYTES
    sender.answer = web.Response(body=b"x" * (limits.BYTES + 1))
    assert await sender.get("/2") is None


async def test_nothing_is_unpacked(sender: Sender) -> None:
    sender.answer = web.Response(body=gzip.compress(b"0" * 10_000_000), headers={"Content-Encoding": "gzip"})
    assert await sender.get() is None


async def test_a_slow_answer_is_given_up(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SECONDS", 0.05)
    sender.hold = asyncio.Event()
    with capture_logs() as lines:
        assert await sender.get() is None
    assert lines[0]["reason"] == "it took too long"
    sender.hold.set()


async def test_one_host_is_asked_a_few_times_a_minute(sender: Sender) -> None:
    for number in range(20):
        await sender.get(f"/{number}")
    assert len(sender.asked) == limits.PER_HOST
    sender.clock.advance(61)
    assert await sender.get("/one-more") == KEYS


async def test_many_hosts_are_asked_a_bounded_number_of_times_a_minute(sender: Sender) -> None:
    sender.names.addresses = ("10.0.0.1",)
    for number in range(100):
        await sender.store.fetch(f"https://{number}.keys.example/keys")
    assert sender.names.asked == limits.PER_MINUTE


async def test_the_number_of_documents_is_bounded(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_MOST_KEPT", 3)
    for number in range(5):
        await sender.get(f"/{number}")
    assert [sender.store.find(sender.url(f"/{number}")) is not None for number in range(5)] == [False] * 2 + [True] * 3


async def test_a_request_does_not_bring_the_daemon_to_call_a_private_address(sender: Sender) -> None:
    await sender.store.fetch(sender.url())
    assert sender.store.find(sender.url()) is None
    assert sender.asked == []
    sender.clock.advance(31)
    assert await sender.get() == KEYS, "an owner may"


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "1.1.1.1"])
async def test_a_bare_address_is_only_called_for_an_owner(sender: Sender, host: str) -> None:
    with capture_logs() as lines:
        await sender.store.fetch(sender.url(host=host))
    assert lines[0]["reason"] == "its host is an IP address"
    assert sender.asked == []


async def test_a_name_that_changes_its_meaning_meanwhile_is_called_where_it_was_judged(sender: Sender) -> None:
    sender.names.addresses = ("127.0.0.1", "10.255.255.1")
    assert await sender.get() == KEYS
    assert sender.names.asked == 1


@pytest.mark.parametrize(
    "url", ["http://keys.example/", "ftp://keys.example/", "https:///keys", "keys.example", "file:///etc/passwd"]
)
async def test_only_https_is_spoken(sender: Sender, url: str) -> None:
    await sender.store.fetch(url, configured=True)
    assert sender.store.find(url) is None
    assert sender.names.asked == 0


async def test_a_server_of_another_name_or_authority_is_not_believed(sender: Sender) -> None:
    other = f"https://other.example:{sender.port}/keys"
    await sender.store.fetch(other, configured=True)
    assert sender.store.find(other) is None
    strict = KeyStore(sender.clock, resolver=lambda: sender.names)
    await strict.fetch(sender.url(), configured=True)
    assert strict.find(sender.url()) is None
    assert sender.asked == []


async def test_what_resolves_names_is_let_go_after_each_fetch(sender: Sender) -> None:
    assert await sender.get() == KEYS
    sender.answer = web.Response(status=500)
    assert await sender.get("/other") is None
    assert sender.names.closed == 2


async def test_what_is_logged_of_a_url_is_without_its_query(sender: Sender) -> None:
    sender.answer = web.Response(status=403)
    with capture_logs() as lines:
        await sender.get("/keys?token=very-secret")
    assert lines[0]["url"] == sender.url()
    assert "very-secret" not in str(lines)


async def test_fetches_under_way_end_with_the_daemon(sender: Sender) -> None:
    sender.hold = asyncio.Event()
    waiting = asyncio.create_task(sender.get())
    await until(lambda: bool(sender.asked))
    await sender.store.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    sender.hold.set()


async def test_what_unverified_requests_name_leaves_proven_documents_theirs(sender: Sender) -> None:
    genuine = "/genuine"
    assert await sender.named(genuine, by="192.0.2.1") == KEYS
    sender.store.prove(sender.url(genuine))
    sender.clock.advance(limits.STALE_SECONDS * 3)
    for number in range(limits.PER_HOST_NAMED * 2):
        await sender.named(f"/forged-{number}", by=f"198.51.100.{number}")
    assert sum(path.startswith("/forged") for path in sender.asked) == limits.PER_HOST_NAMED
    assert await sender.named(genuine, by="192.0.2.1") == KEYS


@pytest.mark.parametrize("address", ["198.51.100.7", "2001:db8::{}", "::ffff:198.51.100.7", ""])
async def test_one_address_cannot_use_up_what_others_may_name(sender: Sender, address: str) -> None:
    for number in range(70):
        await sender.named(f"/forged-{number}", by=address.format(number))
    assert len(sender.asked) == limits.PER_ADDRESS
    assert await sender.named("/genuine", by="192.0.2.1") == KEYS


async def test_some_addresses_cannot_use_up_what_others_may_name(sender: Sender) -> None:
    for number in range(70):
        await sender.named(f"/forged-{number}", by=f"198.51.100.{number % 10}")
    assert await sender.named("/genuine", by="192.0.2.1") == KEYS


async def test_what_is_proven_stays_so_after_a_restart(sender: Sender) -> None:
    kept: list[Sequence[str]] = []
    first = KeyStore(sender.clock, on_proven=kept.append)
    first.prove(sender.url("/1"))
    first.prove(sender.url("/1"))
    first.prove(sender.url("/2"))
    assert kept == [(sender.url("/1"),), (sender.url("/1"), sender.url("/2"))]

    sender.store = KeyStore(sender.clock, tls=sender.tls, resolver=lambda: sender.names, proven=kept[-1])
    for number in range(limits.PER_HOST_NAMED + 1):
        await sender.named(f"/forged/{number}", by=f"10.0.{number}.1")
    assert await sender.named("/2", by="10.0.0.1") == KEYS


async def test_a_proven_document_serves_on_while_a_new_one_is_fetched(sender: Sender) -> None:
    sender.answer.headers["Cache-Control"] = "max-age=300"
    await sender.named("/genuine", by="192.0.2.1")
    sender.store.prove(sender.url("/genuine"))
    sender.clock.advance(301)
    assert sender.store.find(sender.url("/genuine")) == KEYS
    sender.answer = web.Response(body=b"new")
    sender.store.prove(sender.url("/genuine"))
    await until(lambda: sender.store.find(sender.url("/genuine")) == b"new")


async def test_a_proven_document_does_not_serve_for_ever(sender: Sender) -> None:
    sender.answer.headers["Cache-Control"] = "max-age=300"
    await sender.named("/genuine", by="192.0.2.1")
    sender.store.prove(sender.url("/genuine"))
    sender.clock.advance(301 + limits.STALE_SECONDS)
    assert sender.store.find(sender.url("/genuine")) is None


async def test_forged_requests_write_a_line_a_minute(sender: Sender) -> None:
    with capture_logs() as lines:
        for number in range(200):
            await sender.named(f"/forged-{number}", by=f"198.51.100.{number}")
    assert len([line for line in lines if line["event"] == "key_fetches_limited"]) == 1


async def test_what_is_proven_is_not_pushed_out_by_what_is_not(sender: Sender) -> None:
    await sender.named("/genuine", by="192.0.2.1")
    sender.store.prove(sender.url("/genuine"))
    for number in range(200):
        sender.clock.advance(61)
        await sender.named(f"/forged-{number}", by="198.51.100.7")
    asked = len(sender.asked)
    assert sender.store._documents[sender.url("/genuine")].content == KEYS
    sender.store.prove(sender.url("/genuine"))
    await until(lambda: len(sender.asked) == asked + 1)
