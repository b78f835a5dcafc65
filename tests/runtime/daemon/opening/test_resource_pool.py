"""Resources of generations are closed by the last one that releases them, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from runtime.daemon.opening.resource_pool import Lease, Pool


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


async def test_a_release_that_is_cancelled_while_another_resource_opens_closes_its_own() -> None:
    pool, taken = Pool[Door](), Lease()
    one, other = Door(), Door()
    opening, may_open = asyncio.Event(), asyncio.Event()

    async def open_one() -> Door:
        return one

    async def open_other() -> Door:
        opening.set()
        await may_open.wait()
        return other

    await taken.take(pool, "one", open_one)
    taking = asyncio.create_task(Lease().take(pool, "other", open_other))
    await opening.wait()
    releasing = asyncio.create_task(taken.give_back())
    await asyncio.sleep(0)
    releasing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await releasing
    assert one.open
    may_open.set()
    assert await taking is other
    async with asyncio.timeout(30):
        await one.closing.wait()
    assert not one.open
    assert len(pool) == 1


async def test_a_resource_that_is_taken_again_before_it_is_closed_stays_open() -> None:
    pool, one, other = Pool[Door](), Lease(), Lease()
    door, slow = Door(), Door()
    may_open = asyncio.Event()

    async def open_door() -> Door:
        return door

    async def open_slow() -> Door:
        await may_open.wait()
        return slow

    await one.take(pool, "door", open_door)
    opening = asyncio.create_task(Lease().take(pool, "slow", open_slow))
    await asyncio.sleep(0)
    taking = asyncio.create_task(other.take(pool, "door", open_door))
    await asyncio.sleep(0)
    releasing = asyncio.create_task(one.give_back())
    await asyncio.sleep(0)
    may_open.set()
    await asyncio.gather(opening, taking, releasing)
    assert door.open
    await other.give_back()
    assert not door.open
