"""Facts that change, through a restart, a crash before the index, export, import, move, summaries and removal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.database.connection import Database
from runtime.memory import open_store
from runtime.memory.item import Item
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import with_keys
from tests.runtime.memory.texts import fact
from tests.runtime.tools.asking import HASHING, OWNER_CALLER, Asked, asking

STORES = ("markdown", "records", "collection")
PAIRS = (*zip(STORES, (*STORES[1:], STORES[0]), strict=True), ("records", "records"))
"""Each store exports and imports."""
CHAIN = ("Ada lives in Lyon", "Ada lives in Oslo", "Ada lives in Lyon", "Ada lives in Rome")


def block(store: str, name: str = "notes") -> Memory:
    kind = Variant(name=store)
    if store == "collection":
        return Memory(name=name, store=kind, embedding=HASHING)
    return Memory(name=name, store=kind, embedding=HASHING, path=f"files/{name}")


@asynccontextmanager
async def running(folder: Path, *blocks: Memory) -> AsyncIterator[Asked]:
    """Yield an app over the state of this folder, as after a restart."""
    folder.mkdir(exist_ok=True)
    url = f"sqlite:///{folder / 'symbiont.db'}" if (folder / "symbiont.db").exists() else None
    database = await Database.open(url or with_keys(folder / "symbiont.db", KEY), KEY)
    async with asking(folder, *blocks, database=database) as ask:
        yield ask
    await database.close()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def later(ask: Asked, seconds: float) -> None:
    """Let time pass."""
    assert isinstance(ask.app.clock, ManualClock)
    ask.app.clock.advance(seconds)


async def chain(ask: Asked) -> list[str]:
    """Have each text replace the one before; return the ids."""
    first = await ask("archival_insert", OWNER_CALLER, agent="reviewer", content=CHAIN[0])
    ids = [first["memory_id"]]
    for text in CHAIN[1:]:
        later(ask, 60)
        newer = await ask("archival_replace", OWNER_CALLER, agent="reviewer", memory_id=ids[-1], content=text)
        ids.append(newer["memory_id"])
    return ids


async def found(ask: Asked, **given: Any) -> list[str]:
    hits = (await ask("memory_search", OWNER_CALLER, agent="reviewer", query="Ada lives", **given))["hits"]
    return sorted(hit["item"]["text"] for hit in hits)


async def listed(ask: Asked, **given: Any) -> list[dict[str, Any]]:
    """Return all items, oldest first."""
    items = (await ask("memory_list", OWNER_CALLER, agent="reviewer", **given))["items"]
    return sorted(items, key=lambda each: str(each["timestamp"]))


def holds(items: list[dict[str, Any]]) -> None:
    """Assert that the items are the whole chain."""
    assert [each["text"] for each in items] == list(CHAIN)
    for older, newer in pairwise(items):
        assert newer["replaces"] == older["memory_id"]
        assert (older["replaced_by"], older["valid_until"]) == (newer["memory_id"], newer["timestamp"])
    assert items[-1]["valid_until"] is None


async def test_a_chain_holds_after_a_restart_and_after_reindexing(store: str, tmp_path: Path) -> None:
    async with running(tmp_path, block(store)) as ask:
        await chain(ask)
    async with running(tmp_path, block(store)) as ask:
        assert await found(ask) == [CHAIN[-1]]
        await ask("memory_reindex", OWNER_CALLER, memory="notes")
        assert await found(ask) == [CHAIN[-1]]
        holds(await listed(ask))


async def test_what_was_written_without_reaching_the_index_replaces_too(store: str, tmp_path: Path) -> None:
    async with running(tmp_path, block(store)) as ask:
        (old,) = [await ask("archival_insert", OWNER_CALLER, agent="reviewer", content=CHAIN[0])]
        assert await found(ask) == [CHAIN[0]]
    # A process that is killed after the append has not told the index.
    database = await Database.open(f"sqlite:///{tmp_path / 'symbiont.db'}", KEY)
    alone = await open_store(block(store), tmp_path, database=database)
    newer: Item = fact(CHAIN[1], replaces=old["memory_id"])
    await alone.append([newer])
    await alone.close()
    await database.close()
    async with running(tmp_path, block(store)) as ask:
        assert await found(ask) == [CHAIN[1]]


@pytest.mark.parametrize(("store", "into"), PAIRS)
async def test_export_and_import_keep_a_chain_and_may_be_repeated(store: str, into: str, tmp_path: Path) -> None:
    async with running(tmp_path / "one", block(store)) as ask:
        await chain(ask)
        exported = (await ask("memory_export", OWNER_CALLER))["items"]
    async with running(tmp_path / "two", block(into)) as ask:
        for stored in (len(CHAIN), 0):
            done = await ask("memory_import", OWNER_CALLER, items=exported[::-1])
            assert (done["stored"], done["refused"]) == (stored, 0)
            assert await found(ask) == [CHAIN[-1]]
            holds(await listed(ask))


@pytest.mark.parametrize(("store", "into"), PAIRS)
async def test_a_fact_that_was_stored_again_is_imported_and_moved_too(store: str, into: str, tmp_path: Path) -> None:
    expected = sorted([CHAIN[1], CHAIN[-1]])
    async with running(tmp_path / "one", block(store), block("collection", "archive")) as ask:
        await chain(ask)
        later(ask, 60)
        await ask("archival_insert", OWNER_CALLER, agent="reviewer", content=CHAIN[1])
        assert await found(ask, memory="notes") == expected
        assert (await ask("memory_move", OWNER_CALLER, source="notes", target="archive"))["good"]
        assert await found(ask, memory="archive") == expected
        exported = (await ask("memory_export", OWNER_CALLER, memory="notes"))["items"]
    async with running(tmp_path / "two", block(into)) as ask:
        for stored in (5, 0):
            assert (await ask("memory_import", OWNER_CALLER, items=exported[::-1]))["stored"] == stored
            assert await found(ask) == expected


async def test_an_export_without_the_new_fields_is_imported(store: str, tmp_path: Path) -> None:
    async with running(tmp_path / "one", block(store)) as ask:
        await chain(ask)
        exported = (await ask("memory_export", OWNER_CALLER))["items"]
    old = [
        {name: value for name, value in each.items() if name not in {"subject", "replaces", "retracts", "provenance"}}
        for each in exported
    ]
    async with running(tmp_path / "two", block(store)) as ask:
        assert (await ask("memory_import", OWNER_CALLER, items=old))["refused"] == 0
        assert await found(ask) == sorted(CHAIN if store == "records" else set(CHAIN))


async def test_a_move_keeps_a_chain(store: str, tmp_path: Path) -> None:
    async with running(tmp_path, block(store), block("collection", "archive")) as ask:
        await chain(ask)
        moved = await ask("memory_move", OWNER_CALLER, source="notes", target="archive")
        assert moved["good"], moved
        assert await found(ask, memory="archive") == [CHAIN[-1]]
        holds(await listed(ask, memory="archive"))


async def test_a_forgotten_item_leaves_the_rest_of_its_chain_as_it_was(store: str, tmp_path: Path) -> None:
    async with running(tmp_path, block(store)) as ask:
        await chain(ask)
        if store == "records":
            first = (await listed(ask))[0]
            refused = await ask.failure("memory_forget", OWNER_CALLER, memory_id=first["memory_id"])
            assert "append-only" in refused.message
            return
        for number, newest in ((2, CHAIN[3]), (1, CHAIN[3]), (1, CHAIN[0])):
            gone = (await listed(ask))[number]
            await ask("memory_forget", OWNER_CALLER, memory_id=gone["memory_id"])
            assert await found(ask) == [newest]


async def test_a_summary_is_of_current_items_only(tmp_path: Path) -> None:
    async with running(tmp_path, block("collection")) as ask:
        ids = await chain(ask)
        start = {"time_range": {"start": "2000-01-01T00:00:00Z", "end": "2100-01-01T00:00:00Z"}}
        given = {"memory_type": "semantic", "collection": "reviewer", "strategy": "extractive", **start}
        done = await ask("summarize", OWNER_CALLER, **given)
        assert done["source_memory_ids"] == ids[-1:]
        assert done["summary"] == CHAIN[-1]


async def test_a_user_who_is_removed_takes_a_chain_along_and_leaves_the_others(store: str, tmp_path: Path) -> None:
    async with running(tmp_path, block(store)) as ask:
        await chain(ask)
        for name in ("ada", "bob"):
            await ask.app.user(name)
            for text in CHAIN[:2]:
                await ask("memory_write", OWNER_CALLER, agent="reviewer", text=f"{text} says {name}", user=name)
        assert len(await listed(ask, user="bob")) == 2
        await ask("memory_purge", OWNER_CALLER, user="owner")
        assert sorted(each["text"] for each in await listed(ask)) == sorted(
            f"{text} says {name}" for name in ("ada", "bob") for text in CHAIN[:2]
        )
