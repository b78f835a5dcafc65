"""Resources of generations are closed by the last one that releases them, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from runtime.daemon.program.resource_pool import Lease, Pool


class Door:
    """A resource: one that sticks fails to close, and a slow one closes only when it is cancelled."""

    def __init__(self, *, sticks: bool = False, slow: bool = False) -> None:
        self.closing = asyncio.Event()
        self.open = True
        self._sticks, self._slow = sticks, slow

    async def close(self) -> None:
        self.closing.set()
        if self._slow:
            await asyncio.Event().wait()
        if self._sticks:
            raise OSError("it sticks")
        self.open = False


async def held(*doors: Door) -> tuple[Lease, Pool[Door]]:
    pool, taken = Pool[Door](), Lease()

    async def opened(door: Door) -> Door:
        return door

    for number, door in enumerate(doors):
        await taken.take(pool, number, partial(opened, door))
    return taken, pool


async def test_what_cannot_be_closed_keeps_nothing_else_open() -> None:
    first, stuck, last = Door(), Door(sticks=True), Door()
    taken, pool = await held(first, stuck, last)
    with pytest.raises(OSError, match="it sticks"):
        await taken.give_back()
    assert not first.open
    assert not last.open
    assert len(pool) == 0


async def test_who_is_cancelled_while_letting_go_keeps_nothing_else_open() -> None:
    first, slow, last = Door(), Door(slow=True), Door()
    taken, pool = await held(first, slow, last)
    caller = asyncio.create_task(taken.give_back())
    await slow.closing.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not first.open
    assert not last.open
    assert len(pool) == 0


async def test_the_last_of_two_that_hold_it_closes_it() -> None:
    door = Door()
    pool = Pool[Door]()

    async def opened() -> Door:
        return door

    one, other = Lease(), Lease()
    assert await one.take(pool, "door", opened) is await other.take(pool, "door", opened)
    await one.give_back()
    await one.give_back()
    assert door.open
    await other.give_back()
    assert not door.open
