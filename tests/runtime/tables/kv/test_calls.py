"""A call of an agent that is repeated changes nothing more, and an older attempt changes nothing at all."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import delete, func, select

from runtime.clock import milliseconds
from runtime.database.connection import Database
from runtime.database.schema import kv_calls, runs
from runtime.tables.kv import store as kv_store
from runtime.tables.kv import writes
from runtime.tables.kv.store import KvStore
from runtime.tables.kv.writes import CallOrigin, VersionConflict
from runtime.threads.run import Begin, begin
from runtime.threads.step import Superseded
from tests.clocks import ManualClock
from tests.runtime.tables.kv.stores import everything, store_of


@pytest.fixture
async def store(database: Database, clock: ManualClock) -> KvStore:
    await running(database, clock)
    return store_of(database, clock)


async def running(database: Database, clock: ManualClock, attempt: int = 1) -> None:
    """Begin an attempt at a run."""
    begun = Begin("run", "owner", "message", None, None, "assistant", attempt, milliseconds(clock), attempt == 1)
    await database.transact(lambda connection: begin(connection, [begun]))


def call(key: str, attempt: int = 1) -> CallOrigin:
    return CallOrigin("run", attempt, key)


async def test_a_repeated_call_stores_nothing_more_and_has_the_same_version(
    store: KvStore, database: Database, clock: ManualClock
) -> None:
    first = await store.set("n", 1, expected=0, origin=call("a"))
    second = await store.set("n", 2, expected=first.version, origin=call("b"))
    await running(database, clock, 2)
    assert await store.set("n", 1, expected=0, origin=call("a", 2)) == first
    assert await store.set("n", 2, expected=first.version, origin=call("b", 2)) == second
    entry = await store.get("n")
    assert entry is not None
    assert (entry.value, entry.version) == (2, second.version)
    with pytest.raises(VersionConflict):
        await store.set("n", 3, expected=first.version, origin=call("c", 2))


async def test_a_repeated_call_does_not_bring_back_what_was_changed_since(store: KvStore) -> None:
    await store.set("n", "of the agent", origin=call("a"))
    await store.set("n", "of a person")
    await store.set("n", "of the agent", origin=call("a"))
    entry = await store.get("n")
    assert entry is not None
    assert entry.value == "of a person"
    await store.delete("n", origin=call("b"))
    await store.set("n", "new")
    assert await store.delete("n", origin=call("b")) == 1
    assert [each.value for each in await everything(store)] == ["new"]


async def test_a_call_that_was_in_time_is_repeated_after_its_time(store: KvStore, clock: ManualClock) -> None:
    expiry = milliseconds(clock) + 1000
    first = await store.set("n", 1, expires_at=expiry, origin=call("a"))
    clock.advance(2)
    assert await store.set("n", 1, expires_at=expiry, origin=call("a")) == first
    assert await store.get("n") is None


async def test_calls_at_once_with_one_key_happen_once(store: KvStore) -> None:
    done = await asyncio.gather(*(store.set("n", 1, origin=call("a")) for _ in range(10)))
    assert {each.version for each in done} == {1}


async def test_an_older_attempt_changes_nothing(store: KvStore, database: Database, clock: ManualClock) -> None:
    await store.set("n", 1)
    await running(database, clock, 2)
    for change in (store.set("n", 2, origin=call("a")), store.delete("n", origin=call("b"))):
        with pytest.raises(Superseded):
            await change
    assert [each.value for each in await everything(store)] == [1]


async def test_a_key_of_any_length_is_recognized(store: KvStore) -> None:
    key = "1/" + "x" * 500
    first = await store.set("n", 1, origin=call(key))
    assert await store.set("n", 2, origin=call(key)) == first._replace()
    assert (await store.set("n", 2, origin=call(f"{key}y"))).version > first.version


async def test_what_calls_did_is_forgotten_with_their_run(store: KvStore, database: Database) -> None:
    await store.set("n", 1, origin=call("a"))
    await database.transact(lambda connection: connection.execute(delete(runs)))
    async with database.read() as connection:
        assert await connection.scalar(select(func.count()).select_from(kv_calls)) == 0
    assert len(await everything(store)) == 1


async def test_many_entries_are_deleted_in_parts_and_by_a_repeated_call_no_more(
    store: KvStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (writes, kv_store):
        monkeypatch.setattr(module, "DELETED_AT_ONCE", 3)
    for number in range(7):
        await store.set(f"n{number}", number, ["t"])
    assert await store.delete(tags=["t"], origin=call("a")) == 7
    await store.set("new", 1, ["t"])
    assert await store.delete(tags=["t"], origin=call("a")) == 7
    assert [each.name for each in await everything(store)] == ["new"]
    assert await store.delete(tags=["t"]) == 1
