"""The receiver on a real socket; large bodies, handled outside the event loop; metrics and log lines of runs."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
from sqlalchemy import delete, update
from structlog.testing import LogCapture

from dslc.blocks.agent import Agent
from dslc.blocks.variant import Variant
from dslc.blocks.webhook import Webhook
from runtime.agents import recorder
from runtime.agents.dispatcher import Dispatcher
from runtime.daemon.listeners.sockets import address_of, bind
from runtime.database.connection import Database
from runtime.database.keys.ring import KeyRing
from runtime.database.schema import bodies, deliveries, steps
from runtime.errors import GiveUp, Retry
from runtime.http.server import Server
from runtime.memory.item import Item
from runtime.memory.markdown.store import MarkdownStore
from runtime.memory.store_types import Scan
from runtime.metrics.metrics import Metrics
from runtime.threads.run_log import RunLog
from runtime.threads.turns.turn import AgentGone
from runtime.webhooks.audit.audit import Audit
from runtime.webhooks.deliveries.delivery import ClaimedDelivery
from runtime.webhooks.deliveries.inbox import Inbox
from runtime.webhooks.filters.filter import Filters
from runtime.webhooks.receiving import admission
from runtime.webhooks.receiving.admission import Admission, Busy
from runtime.webhooks.receiving.receiver import Receiver
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.payload import OFF_THE_LOOP, Payload
from runtime.webhooks.routing.route import RouteTable, build_route
from tests.clocks import ManualClock, until
from tests.conftest import KEY
from tests.runtime.agents.test_dispatcher import dispatching, settled
from tests.runtime.webhooks.candidates import BODY, candidate, rows
from tests.runtime.webhooks.keys.certificates import NOW
from tests.runtime.webhooks.providers.test_paypal import BODY as PAYPAL
from tests.runtime.webhooks.providers.test_paypal import DOCUMENT, URL, WEBHOOK, sent

PATH = "/hooks/paypal"


def table() -> RouteTable:
    provider = Variant(name="paypal", options={"webhook_id": WEBHOOK})
    mounted = build_route(Webhook(name="paypal", path=PATH, provider=provider), origin="test", secrets=[], problem=None)
    assert mounted.route is not None, mounted.problem
    return RouteTable.of([mounted])


async def post(receiver: Receiver, headers: list[tuple[str, str]]) -> int:
    return (await posted(receiver, PATH, PAYPAL, headers))[0]


async def posted(
    receiver: Receiver, path: str, body: bytes, headers: list[tuple[str, str]], *, times: int = 1
) -> list[int]:
    """Send the same request this many times at once and return the statuses."""
    with bind("PORT", "127.0.0.1:0") as listener:
        server = Server(receiver.handle)
        await server.start(listener)
        async with aiohttp.ClientSession() as session:

            async def one() -> int:
                async with session.post(f"http://{address_of(listener)}{path}", data=body, headers=headers) as answer:
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
    route = replace(mounted.route, filters=Filters((), None, (look,)), body_limit=OFF_THE_LOOP * 2)
    routes = RouteTable.of([replace(mounted, route=route)])
    admission = Admission(database, clock)
    receiver = Receiver(lambda: routes, admission, Audit(database, clock), clock)
    body = b"[" + b" " * OFF_THE_LOOP + b"]"
    assert await posted(receiver, "/w", body, [], times=4) == [200] * 4
    assert most == [1] * 4
    await admission.close()


LARGE = json.dumps({"action": "opened", "filler": "x" * OFF_THE_LOOP}).encode()


class Noting:
    """Records in which threads a database sealed and opened large data."""

    def __init__(self, keys: KeyRing, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[int] = []
        for name in ("seal", "unseal"):
            monkeypatch.setattr(keys, name, self._noting(getattr(keys, name)))

    def _noting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def noting(data: bytes, *given: Any, **more: Any) -> Any:
            if len(data) > OFF_THE_LOOP:
                self.threads.append(threading.get_ident())
            return method(data, *given, **more)

        return noting


@pytest.fixture
async def noted(database_url: str) -> AsyncIterator[Database]:
    opened = await Database.open(database_url, KEY)
    yield opened
    await opened.close()


@pytest.fixture
async def key(noted: Database, monkeypatch: pytest.MonkeyPatch) -> Noting:
    return Noting(noted.keys, monkeypatch)


async def test_a_large_body_is_sealed_opened_and_recorded_off_the_event_loop(
    noted: Database, key: Noting, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MarkdownStore(tmp_path / "agents", clock)
    plain, threads, made = recorder.entry, key.threads, list[str]()

    def entry(agent: Agent, turn: ClaimedDelivery, run_id: str) -> Item:
        threads.append(threading.get_ident())
        made.append(turn.delivery_id)
        return plain(agent, turn, run_id)

    monkeypatch.setattr(recorder, "entry", entry)

    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        assert turn.body == LARGE
        await recorder.record(turn, log, Agent(name="reviewer"), store)

    async with dispatching(noted, clock, run) as dispatcher:
        await Admission(noted, clock, on_admitted=dispatcher.wake).admit(candidate("1", body=LARGE))
        await settled(noted, "done")
    assert [item.text async for item in store.scan(Scan())]
    assert len(made) == 1
    assert len(threads) == 3
    assert threading.get_ident() not in threads
    await store.close()


async def test_a_large_body_and_a_small_one_are_claimed_together_and_run_whole(
    noted: Database, clock: ManualClock
) -> None:
    found: dict[str | None, bytes] = {}

    async def run(turn: ClaimedDelivery, _log: RunLog) -> None:
        found[turn.provider_delivery_id] = turn.body

    door = Admission(noted, clock)
    await door.admit(candidate("large", body=LARGE))
    await door.admit(candidate("small"))
    async with dispatching(noted, clock, run):
        await settled(noted, "done", "done")
    assert found == {"large": LARGE, "small": BODY}


async def test_what_there_is_no_room_for_is_not_sealed_first(
    noted: Database, key: Noting, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "CAPACITY_BYTES", 2 * len(LARGE))
    door = Admission(noted, clock)
    asked = [door.admit(candidate(str(number), body=LARGE)) for number in range(5)]
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(result, Busy) for result in results] == [False, False, True, True, True]
    assert len(key.threads) == 2
    # A refused body takes no space.
    await door.admit(candidate("later", body=LARGE))


@pytest.mark.parametrize("gone", [True, False])
async def test_a_large_body_that_cannot_be_read_any_more_makes_a_dead_letter(
    noted: Database, clock: ManualClock, gone: bool
) -> None:
    async def run(_work: ClaimedDelivery, _log: RunLog) -> None:
        raise AssertionError("there is nothing to run on")

    await Admission(noted, clock).admit(candidate("1", body=LARGE))
    async with noted.write() as connection:
        if gone:
            await connection.execute(delete(bodies))
        else:
            sealed = noted.keys.seal(LARGE, "bodies.body", user_id="owner", row="another")
            await connection.execute(update(bodies).values(body=sealed))
    async with dispatching(noted, clock, run):
        await settled(noted, "dead")
    [row] = await rows(noted, deliveries, "last_error")
    assert ("no longer stored" if gone else "was changed or moved") in row.last_error
    assert not await rows(noted, steps)


Lines = list[MutableMapping[str, Any]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Return the logged lines with their bound fields."""
    capture = LogCapture()
    before = structlog.get_config()
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, capture],
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    yield capture.entries
    structlog.configure(**before)


async def ended(database: Database, clock: ManualClock, *acts: Exception | None) -> tuple[Metrics, list[str]]:
    """Run a delivery for each of `acts`, which happens at its first try; return the ids in order."""
    metrics, left = Metrics(), list(acts)

    async def run(turn: ClaimedDelivery, log: RunLog) -> None:
        act = left[ids.index(turn.delivery_id)]
        structlog.get_logger("a store").info("something is done")
        await asyncio.to_thread(structlog.get_logger("a store").info, "something is done in a thread")
        if act is not None:
            raise act

    ids = [(await Admission(database, clock).admit(candidate())).delivery_id for _ in acts]
    dispatcher = Dispatcher(database, clock, [Inbox(database, clock)], run, metrics=metrics)
    task = asyncio.create_task(dispatcher.run())
    await until(lambda: sum(metrics.runs.values.values()) == len(acts))
    await dispatcher.stop(0)
    await task
    return metrics, ids


async def test_every_line_of_a_run_names_its_delivery(database: Database, clock: ManualClock, lines: Lines) -> None:
    acts = (None, Retry("busy"), GiveUp("no"), AgentGone("reviewer"), OSError("no network"))
    _, ids = await ended(database, clock, *acts)
    said: dict[str, list[str]] = {
        delivery_id: [line["event"] for line in lines if line.get("delivery_id") == delivery_id] for delivery_id in ids
    }
    assert sum(map(len, said.values())) == len(lines)
    done = ["run_started", "something is done", "something is done in a thread"]
    again = "run_failed"
    ends: tuple[list[str], ...] = ([], [again], ["dead_letter"], ["agent_gone"], [again])
    assert list(said.values()) == [[*done, *end, "run_ended"] for end in ends]
    assert all({"run_id", "attempt"} <= line.keys() for line in lines)


async def test_nothing_stays_bound_when_runs_have_ended(database: Database, clock: ManualClock, lines: Lines) -> None:
    await ended(database, clock, None)
    assert structlog.contextvars.get_contextvars() == {}


async def test_what_is_stored_for_several_is_not_about_the_first_of_them(
    database: Database, clock: ManualClock
) -> None:
    seen: list[dict[str, Any]] = []
    with structlog.contextvars.bound_contextvars(delivery_id="one"):
        database.commits.on_commit = lambda writes, seconds: seen.append(structlog.contextvars.get_contextvars())
        await Admission(database, clock).admit(candidate())
    assert seen == [{}]


async def test_each_outcome_is_counted(database: Database, clock: ManualClock, lines: Lines) -> None:
    metrics, _ = await ended(database, clock, None, None, Retry("busy"), GiveUp("no"), AgentGone("reviewer"))
    counted = {outcome: count for outcome, count in metrics.runs.values.items() if count}
    assert counted == {"done": 2, "retry": 1, "dead": 1, "agent_gone": 1}
    assert metrics.run_seconds.cumulative()[-1] == 5
