"""Whatever is done in whatever order, the store holds what a dictionary would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Table, delete, select

from runtime.clock import milliseconds
from runtime.database.connection import Database
from runtime.database.schema import kv, user_storage
from runtime.tables.kv.expiry import Expiry
from runtime.tables.kv.store import KvStore
from runtime.tables.kv.writes import VersionConflict
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import migrated
from tests.lanes import examples
from tests.runtime.tables.kv.stores import everything, storage_of

NAMES = st.sampled_from(["a", "b", "é", "e\u0301"])
TAGS = st.lists(st.sampled_from(["x", "y", "z"]), max_size=3, unique=True)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


class Set(NamedTuple):
    name: str
    value: Any
    tags: list[str]
    lasts: int | None
    expects: str


class Delete(NamedTuple):
    name: str | None
    tags: list[str]


class Wait(NamedTuple):
    sweep: bool


ACTS = st.one_of(
    st.builds(Set, NAMES, VALUES, TAGS, st.none() | st.integers(1, 3), st.sampled_from(["any", "right", "0", "wrong"])),
    st.builds(Delete, NAMES, st.just([])),
    st.builds(Delete, st.none(), TAGS.filter(bool)),
    st.builds(Wait, st.booleans()),
)


class Model:
    """Entries as a dictionary holds them: value, tags, version and the time at which they expire."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[str, set[str], int, int | None]] = {}
        self.newest = 0

    def alive(self, now: int) -> dict[str, tuple[str, set[str], int, int | None]]:
        return {name: it for name, it in self.entries.items() if it[3] is None or it[3] > now}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{migrated(tmp_path / 'symbiont.db')}"
    else:
        yield request.getfixturevalue("postgres_url")


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ACTS, max_size=12))
def test_the_store_holds_what_a_dictionary_would(url: str, acts: list[Set | Delete | Wait]) -> None:
    asyncio.run(_compare(url, acts))


async def _compare(url: str, acts: list[Set | Delete | Wait]) -> None:
    database = await Database.open(url, KEY)
    try:
        for table in (kv, user_storage):
            await database.transact(partial(_empty, table=table))
        clock, model = ManualClock(), Model()
        storage = storage_of(database, clock)
        store = KvStore(database, clock, storage, "owner")
        for act in acts:
            await _do(act, store, model, clock)
            if isinstance(act, Wait) and act.sweep:
                await Expiry(database, clock, storage, lambda: milliseconds(clock)).sweep()
            await _same(store, model, milliseconds(clock))
        async with database.read() as connection:
            sizes = [row.bytes for row in await connection.execute(select(kv.c.bytes))]
        assert (await storage.usage("owner")).kv_bytes == sum(sizes)
    finally:
        await database.close()


def _empty(connection: Connection, table: Table) -> None:
    connection.execute(delete(table))


async def _do(act: Set | Delete | Wait, store: KvStore, model: Model, clock: ManualClock) -> None:
    now = milliseconds(clock)
    alive = model.alive(now)
    if isinstance(act, Wait):
        clock.advance(0.001)
    elif isinstance(act, Delete):
        name = None if act.name is None else "é" if act.name == "e\u0301" else act.name
        chosen = [each for each, it in alive.items() if name in {None, each} and set(act.tags) <= it[1]]
        assert await store.delete(act.name, act.tags) == len(chosen)
        for each in chosen:
            del model.entries[each]
    else:
        name = "é" if act.name == "e\u0301" else act.name
        version = alive[name][2] if name in alive else 0
        expected = {"any": None, "right": version, "0": 0, "wrong": version + 1}[act.expects]
        expiry = None if act.lasts is None else now + act.lasts
        change = store.set(act.name, act.value, act.tags, expires_at=expiry, expected=expected)
        if expected not in {None, version}:
            with pytest.raises(VersionConflict) as conflict:
                await change
            assert conflict.value.version == version
            return
        done = await change
        assert done.version > model.newest
        model.newest = done.version
        model.entries[name] = (json.dumps(act.value), set(act.tags), done.version, expiry)


async def _same(store: KvStore, model: Model, now: int) -> None:
    alive = model.alive(now)
    found = {
        each.name: (json.dumps(each.value), set(each.tags), each.version, each.expires_at)
        for each in await everything(store, limit=2)
    }
    assert found == alive
    assert await store.count() == len(alive)
    for tag in "xyz":
        assert {each.name for each in await everything(store, tag)} == {n for n, it in alive.items() if tag in it[1]}
    for name in ("a", "b", "é"):
        entry = await store.get(name)
        assert (None if entry is None else entry.version) == (alive[name][2] if name in alive else None)
