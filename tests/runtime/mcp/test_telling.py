"""Calls of a client: cancelled once, so that they can clean up, with progress that only increases."""

from __future__ import annotations

import asyncio
import threading
import time

import anyio
import pytest

from runtime.mcp import progress_notifications
from runtime.mcp.backend import BackendFailure, Progress
from runtime.mcp.progress_notifications import with_progress
from runtime.mcp.side_thread import SideThread
from runtime.tools.failure import Failure


async def test_cancelled_work_has_time_to_put_things_in_order() -> None:
    ordered = asyncio.Event()

    async def work(_: Progress | None) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            # A level-triggered cancellation would end this at its first await.
            for _step in range(3):
                await asyncio.sleep(0)
            ordered.set()

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(with_progress, work, None)
            await asyncio.sleep(0)
            scope.cancel()
    async with asyncio.timeout(60):
        await ordered.wait()


async def test_steps_that_begin_again_are_one_number_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_notifications, "LOOK_SECONDS", 0.001)
    told: list[tuple[float, float | None, str | None]] = []
    heard = asyncio.Event()

    async def report(done: float, total: float | None, what: str | None) -> None:
        told.append((done, total, what))
        heard.set()

    async def work(progress: Progress | None) -> str:
        assert progress is not None
        for what, done, total in (("reading", 1, 2), ("reading", 2, 2), ("embedding", 0, 3), ("embedding", 3, 3)):
            progress(what, done, total)
            if done:
                heard.clear()
                await heard.wait() if (what, done) != ("embedding", 3) else None
        return "done"

    assert await with_progress(work, report) == "done"
    assert told == [(1.0, 2.0, "reading"), (2.0, 2.0, "reading"), (5.0, 5.0, "embedding")]


async def test_work_that_says_nothing_is_not_told_of() -> None:
    async def report(*_: object) -> None:
        raise AssertionError

    async def work(_: Progress | None) -> int:
        return 7

    assert await with_progress(work, report) == 7


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (Failure("upsert_failed", "the disk is full"), "upsert_failed: the disk is full"),
        (
            Failure("invalid_params", "it is too small", "limit", "give more", {"limit": 5}),
            'invalid_params: limit: it is too small (give more). For example: {"limit": 5}',
        ),
        (
            Failure("invalid_params", "It is too small.", "limit", example={"limit": 5}),
            'invalid_params: limit: It is too small. For example: {"limit": 5}',
        ),
        (Failure("provider_unavailable", "away", hint="later"), "provider_unavailable: away (later)"),
    ],
)
def test_a_failure_is_one_line_for_a_model(failure: Failure, line: str) -> None:
    assert BackendFailure(failure.json()).line() == line


async def test_what_waits_for_ever_beside_the_loop_holds_up_nobody() -> None:
    aside, forever = SideThread("a test"), threading.Event()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await aside.call(forever.wait)
    forever.set()
    assert await aside.call(time.gmtime, 0) == time.gmtime(0)
    with pytest.raises(ZeroDivisionError):
        await aside.call(lambda: 1 // 0)
