"""What was taken back of a run is known to a later undo, and disturbs no step of the run."""

from __future__ import annotations

import asyncio

from runtime.database.connection import Database
from runtime.memory.item import run_uri
from runtime.memory.items.undone_items import note_undone, undone_addresses
from runtime.threads.run_log import RunLog
from tests.clocks import ManualClock
from tests.runtime.threads.thread_runs import begin


async def test_what_was_taken_back_is_known_for_its_run_and_user_alone(database: Database, clock: ManualClock) -> None:
    first, second = (run_uri("run", key) for key in ("one", "two"))
    assert await undone_addresses(database, "run", "owner") == set()
    await asyncio.gather(*(note_undone(database, clock, "run", "owner", {each}) for each in (first, second)))
    assert await undone_addresses(database, "run", "owner") == {first, second}
    assert await undone_addresses(database, "another", "owner") == set()
    assert await undone_addresses(database, "run", "ada") == set()


async def test_a_run_that_goes_on_after_an_undo_has_its_steps(database: Database, clock: ManualClock) -> None:
    run_id = await begin(database, None)
    log = RunLog(database, clock, run_id, 1)

    async def done() -> str:
        return "done"

    assert await log.step("call", {}, done, key="one") == "done"
    await log.settle()
    await note_undone(database, clock, run_id, "owner", {run_uri(run_id, "one")})
    await begin(database, None, run_id=run_id, attempt=2)
    again = RunLog(database, clock, run_id, 2)

    async def not_again() -> str:
        raise AssertionError("it was recorded")

    assert await again.step("call", {}, not_again, key="one") == "done"
    assert await again.step("call", {}, done, key="two") == "done"
    await again.settle()
    assert await undone_addresses(database, run_id, "owner") == {run_uri(run_id, "one")}
