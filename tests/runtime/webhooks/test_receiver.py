"""The receiver over a real socket, with what it hands on."""

from __future__ import annotations

import aiohttp

from dslc.blocks import Choice, Webhook
from runtime import http
from runtime.daemon.listeners import bind, shown
from runtime.database import Database
from runtime.webhooks.admission import Admission
from runtime.webhooks.audit import Audit
from runtime.webhooks.receiver import Receiver
from runtime.webhooks.route import RouteTable, mount
from tests.clocks import ManualClock
from tests.runtime.webhooks.certificates import NOW
from tests.runtime.webhooks.test_paypal import BODY, DOCUMENT, URL, WEBHOOK, sent

PATH = "/hooks/paypal"


def table() -> RouteTable:
    provider = Choice(name="paypal", options={"webhook_id": WEBHOOK})
    mounted = mount(Webhook(name="paypal", path=PATH, provider=provider), origin="test", secrets=[], problem=None)
    assert mounted.route is not None, mounted.problem
    return RouteTable.of([mounted])


async def post(receiver: Receiver, headers: list[tuple[str, str]]) -> int:
    with bind("PORT", "127.0.0.1:0") as listener:
        server = http.Server(receiver.handle)
        await server.start(listener)
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://{shown(listener)}{PATH}", data=BODY, headers=headers) as answer,
        ):
            status = answer.status
        await server.close(0)
    return status


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
