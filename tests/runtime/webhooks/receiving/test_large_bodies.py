"""A large body is encrypted, decrypted and recorded outside the event loop, and otherwise handled like any other."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

from dslc.blocks.agent import Agent
from runtime.agents import recorder
from runtime.database.connection import Database
from runtime.database.keys.ring import KeyRing
from runtime.database.schema import bodies, deliveries, steps
from runtime.memory.item import Item
from runtime.memory.markdown.store import MarkdownStore
from runtime.memory.store_types import Scan
from runtime.threads.run_log import RunLog
from runtime.webhooks.deliveries.delivery import ClaimedDelivery
from runtime.webhooks.receiving import admission
from runtime.webhooks.receiving.admission import Admission, Busy
from runtime.webhooks.request.payload import OFF_THE_LOOP
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.runtime.agents.test_dispatcher import dispatching, settled
from tests.runtime.webhooks.candidates import BODY, candidate, rows

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
