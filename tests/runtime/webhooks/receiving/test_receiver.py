"""The receiver on a real socket, and the deliveries that it passes on."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace

import aiohttp

from dslc.blocks.variant import Variant
from dslc.blocks.webhook import Webhook
from runtime.daemon.listeners.sockets import bind, shown
from runtime.database.connection import Database
from runtime.http.server import Server
from runtime.webhooks.audit.audit import Audit
from runtime.webhooks.filters.filter import Filters
from runtime.webhooks.receiving.admission import Admission
from runtime.webhooks.receiving.receiver import Receiver
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.payload import OFF_THE_LOOP, Payload
from runtime.webhooks.routing.route import RouteTable, build_route
from tests.clocks import ManualClock
from tests.runtime.webhooks.keys.certificates import NOW
from tests.runtime.webhooks.providers.test_paypal import BODY, DOCUMENT, URL, WEBHOOK, sent

PATH = "/hooks/paypal"


def table() -> RouteTable:
    provider = Variant(name="paypal", options={"webhook_id": WEBHOOK})
    mounted = build_route(Webhook(name="paypal", path=PATH, provider=provider), origin="test", secrets=[], problem=None)
    assert mounted.route is not None, mounted.problem
    return RouteTable.of([mounted])


async def post(receiver: Receiver, headers: list[tuple[str, str]]) -> int:
    return (await posted(receiver, PATH, BODY, headers))[0]


async def posted(
    receiver: Receiver, path: str, body: bytes, headers: list[tuple[str, str]], *, times: int = 1
) -> list[int]:
    """Send the same request this many times at once and return the statuses."""
    with bind("PORT", "127.0.0.1:0") as listener:
        server = Server(receiver.handle)
        await server.start(listener)
        async with aiohttp.ClientSession() as session:

            async def one() -> int:
                async with session.post(f"http://{shown(listener)}{path}", data=body, headers=headers) as answer:
                    return answer.status

            statuses = await asyncio.gather(*(one() for _ in range(times)))
        await server.close(0)
    return statuses


async def test_only_a_verified_request_proves_the_certificate_that_it_named(database: Database) -> None:
    clock, proved = ManualClock(NOW), list[str]()
    routes, audit = table(), Audit(database, clock)
    admission = Admission(database, clock)
    receiver = Receiver(lambda: routes, admission, audit, clock, keys=lambda url: DOCUMENT, prove=proved.append)
    assert await post(receiver, sent(webhook="ANOTHER")) == 401
    assert proved == []
    assert await post(receiver, sent()) == 202
    assert proved == [URL]
    await admission.close()


async def test_large_bodies_are_decoded_one_at_a_time_so_that_others_get_their_turn(database: Database) -> None:
    clock, inside, most = ManualClock(NOW), set[int](), list[int]()

    def look(_headers: Headers, _payload: Payload) -> bool:
        inside.add(threading.get_ident())
        time.sleep(0.1)
        most.append(len(inside))
        inside.discard(threading.get_ident())
        return False

    webhook = Webhook(name="w", path="/w", insecure_allow_unverified=True, provider=Variant(name="custom"))
    mounted = build_route(webhook, origin="test", secrets=[], problem=None)
    assert mounted.route is not None, mounted.problem
    route = replace(mounted.route, wanted=Filters((), None, (look,)), body_limit=OFF_THE_LOOP * 2)
    routes = RouteTable.of([replace(mounted, route=route)])
    admission = Admission(database, clock)
    receiver = Receiver(lambda: routes, admission, Audit(database, clock), clock)
    body = b"[" + b" " * OFF_THE_LOOP + b"]"
    assert await posted(receiver, "/w", body, [], times=4) == [200] * 4
    assert most == [1] * 4
    await admission.close()
