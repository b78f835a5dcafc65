"""Metrics of runs, and that every log line of a run names its delivery."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from runtime.agents.dispatcher import Dispatcher
from runtime.database.connection import Database
from runtime.errors import GiveUp, Retry
from runtime.metrics.metrics import Metrics
from runtime.threads.run_log import RunLog
from runtime.threads.turns.turn import AgentGone
from runtime.webhooks.deliveries.delivery import ClaimedDelivery
from runtime.webhooks.deliveries.inbox import Inbox
from runtime.webhooks.receiving.admission import Admission
from tests.clocks import ManualClock, until
from tests.runtime.webhooks.candidates import candidate

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
    ends: tuple[list[str], ...] = (
        [],
        [again],
        ["dead_letter"],
        ["agent_gone"],
        [again],
    )
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
