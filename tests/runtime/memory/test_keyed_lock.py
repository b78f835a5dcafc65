"""A lock for each key."""

from __future__ import annotations

import asyncio

import pytest

from runtime.memory.keyed_lock import KeyedLock


async def test_one_at_a_time_has_a_key_and_others_are_not_held_up() -> None:
    turns, inside, most = KeyedLock(), 0, 0

    async def work(key: str) -> None:
        nonlocal inside, most
        async with turns.of(key):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(work("a") for _ in range(20)))
    assert most == 1

    await asyncio.gather(work("a"), work("b"))
    assert most == 2


async def test_nothing_is_kept_of_a_key_that_nobody_wants_any_more() -> None:
    turns = KeyedLock()

    async def wait() -> None:
        async with turns.of("a"):
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(wait()) for _ in range(3)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    with pytest.raises(ValueError, match="x"):
        async with turns.of("b"):
            raise ValueError("x")

    assert len(turns) == 0
