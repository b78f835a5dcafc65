"""The index in PostgreSQL if the server stops, has no free connection, or is shared: writes wait, searches report it,
and both continue by themselves."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import numpy as np
import pytest

from dslc.blocks.memory import Memory
from dslc.blocks.variant import Variant
from runtime.memory.item import Item
from runtime.search.errors import IndexFailed
from runtime.search.index import open_index
from runtime.search.index.index import Index
from runtime.search.index.postgres.index import PostgresIndex
from runtime.search.index.postgres.schema import lock_of
from runtime.search.question import Question
from tests.lanes import LONG
from tests.runtime.memory.opened import open_memory
from tests.runtime.search.index.entries import (
    DIMENSION,
    EVERYTHING,
    TOKEN_BITS,
    append,
    bits,
    embed,
    embed_with_tokens,
    said,
    talk,
    tokens,
    vector,
    vectors,
)
from tests.runtime.search.index.postgres import postgres_server
from tests.runtime.search.index.worker import content

pytestmark = LONG

Options = dict[str, Any]
T = TypeVar("T")
NOW = datetime(2026, 2, 14, tzinfo=UTC)


@pytest.fixture(scope="module")
def own() -> Iterator[postgres_server.OwnServer]:
    """A server that tests may stop; it runs at the start of each."""
    pytest.importorskip("pgserver")
    folder = Path(tempfile.mkdtemp(prefix="symbiont-own-"))
    started = postgres_server.OwnServer(folder)
    started.start()
    yield started
    started.stop("immediate")
    shutil.rmtree(folder)


async def opened(options: Options, **others: Any) -> Index:
    return await open_index(Variant(name="postgres"), None, {**options, **others})


@asynccontextmanager
async def held(options: Options, statement: str, *values: Any) -> AsyncIterator[Any]:
    """Keep a transaction with a statement open for this long: others wait for its lock."""
    connection = await asyncpg.connect(options["url"])
    try:
        async with connection.transaction():
            await connection.execute(statement, *values)
            yield connection
    finally:
        await connection.close()


async def waits(options: Options) -> int:
    """Wait until a connection of the index waits for a lock, and return its process."""
    sql = (
        "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'symbiont'"
        " AND datname = current_database()"
    )
    async with asyncio.timeout(30):
        while (pid := await postgres_server.execute(options["url"], sql)) is None:
            await asyncio.sleep(0.01)
    return int(pid)


async def until_it_works(call: Callable[[], Awaitable[T]]) -> T:
    """Return the result of a call as soon as it succeeds."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await call()
            except IndexFailed:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("how", ["fast", "immediate"])
async def test_a_server_that_stops_and_starts_again_is_used_again_and_has_all_that_was_put(
    own: postgres_server.OwnServer, how: str
) -> None:
    options = {"url": own.url, "schema": f"test_{how}", "pool": 6, "timeout": "5s"}
    index = await opened(options)
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await embed_with_tokens(index)
    before = await asyncio.gather(*(index.parts() for _ in range(6)))
    await asyncio.to_thread(own.stop, how)
    try:
        for call in (
            index.keyword(["one"], EVERYTHING, 1),
            index.put("log", "reviewer", "2", talk("three")),
            index.pending(1),
            index.tokens(np.array([1], np.int64)),
            index.reachable(),
        ):
            with pytest.raises(IndexFailed) as failed:
                await call
            assert "/postgres" in failed.value.line()
            assert "hunter2" not in failed.value.line()
            assert failed.value.hint
    finally:
        await asyncio.to_thread(own.start)
    assert await until_it_works(index.parts) == before[0] == {"log": "1"}
    assert await said(index, "two") == ["e1"]
    assert await tokens(index, "e0", "e1") == [bits("one"), bits("two")]
    assert await append(index, "log", "reviewer", "1", "2", talk("three", start=2))
    assert await index.pending(10) != []
    await index.close()


async def test_a_server_that_crashes_in_the_middle_of_writes_leaves_whole_parts_only(
    own: postgres_server.OwnServer,
) -> None:
    options = {"url": own.url, "schema": "test_crash", "pool": 2, "timeout": "5s"}
    index = await opened(options)
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    stopped = asyncio.Event()
    acknowledged: dict[str, str] = {}

    async def write(part: str) -> None:
        for number in range(20):
            revision = f"{number}.{20 + number % 7}"
            await until_it_works(partial(index.put, part, "reviewer", revision, content(part, revision)))
            acknowledged[part] = revision
            await until_it_works(partial(embed_with_tokens, index, 10))
            if number == 5:
                stopped.set()

    async def crash() -> None:
        await stopped.wait()
        await asyncio.to_thread(own.stop, "immediate")
        await asyncio.to_thread(own.start)

    await asyncio.gather(write("a"), write("b"), crash())
    parts = await until_it_works(index.parts)
    assert parts == acknowledged
    found = await index.keyword(["may"], EVERYTHING, 1000)
    there = {one.id for one in (await index.entries(found.keys.tolist())).values()}
    assert there == {one.id for part, revision in parts.items() for one in content(part, revision)}
    stats = await index.stats()
    assert stats.entries == len(there)
    assert stats.entries - stats.embedded == len(await index.pending(1000))
    assert stats.embedded == stats.tokenized
    await index.close()


async def test_a_memory_whose_index_is_away_remembers_and_has_it_found_when_it_is_back(
    own: postgres_server.OwnServer, tmp_path: Path
) -> None:
    await asyncio.to_thread(own.stop)
    index = Variant(name="postgres", options={"url": own.url, "schema": "test_memory", "timeout": "5s"})
    block = Memory(name="m", path="m", index=index, embedding=Variant(name="hashing"))
    memory = await open_memory(block, tmp_path, index_folder=tmp_path / "index")
    try:
        try:
            item = Item(agent_id="a", memory_type="episodic", timestamp=NOW, text="the red house")
            await memory.store.append([item])
            report = await memory.sync()
            assert any("/postgres" in line for line in report.problems)
            with pytest.raises(IndexFailed, match="/postgres"):
                await memory.search(Question(text="house", now=NOW))
        finally:
            await asyncio.to_thread(own.start)
        assert (await memory.sync()).problems == ()
        assert await memory.embed() == 1
        found = await memory.search(Question(text="house", now=NOW))
        assert [hit.item.text for hit in found.hits] == ["the red house"]
    finally:
        await memory.close()


async def test_a_connection_that_is_cut_off_in_the_middle_of_a_put_is_made_again_and_the_part_is_put_whole(
    options: Options,
) -> None:
    index = await opened(options)
    await index.put("log", "reviewer", "1", talk("one", "two"))
    async with held(options, f"LOCK TABLE {options['schema']}.entry_facts IN ACCESS EXCLUSIVE MODE"):
        putting = asyncio.create_task(index.put("log", "reviewer", "2", talk("one", "zwei", "drei")))
        pid = await waits(options)
        await postgres_server.execute(options["url"], "SELECT pg_terminate_backend($1, 5000)", pid)
        assert await postgres_server.execute(options["url"], f"SELECT revision FROM {options['schema']}.parts") == "1"
    assert await putting == (2, 1, 0)
    assert await index.parts() == {"log": "2"}
    assert await said(index, "zwei") == ["e1"]
    await index.close()


async def test_a_pool_that_is_full_says_so(options: Options) -> None:
    index = await opened(options, pool=1, timeout="1s")
    assert isinstance(index, PostgresIndex)
    await index.put("log", "reviewer", "1", talk("one"))
    begun, going_on = asyncio.Event(), asyncio.Event()

    async def slow(_connection: Any) -> None:
        begun.set()
        await going_on.wait()

    holding = asyncio.create_task(index.server.query(slow))
    await begun.wait()
    with pytest.raises(IndexFailed, match="all 1 connections are busy") as failed:
        await index.parts()
    assert "pool" in str(failed.value.hint)
    going_on.set()
    await holding
    assert await index.parts() == {"log": "1"}
    await index.close()


async def test_what_takes_too_long_is_given_up_and_nothing_is_half_written(options: Options) -> None:
    index = await opened(options, timeout="1s")
    await index.put("log", "reviewer", "1", talk("one"))
    async with held(options, "SELECT pg_advisory_xact_lock($1)", lock_of(options["schema"])):
        with pytest.raises(IndexFailed, match="statement timeout") as failed:
            await index.put("log", "reviewer", "2", talk("two"))
        assert "timeout" in str(failed.value.hint)
        assert await said(index, "one") == ["e0"]
    await index.put("log", "reviewer", "2", talk("two"))
    assert await said(index, "two") == ["e0"]
    await index.close()


async def test_bits_that_take_too_long_leave_no_vector_without_them(options: Options) -> None:
    index = await opened(options, timeout="1s")
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    await index.put("log", "reviewer", "1", talk("one"))
    async with held(options, f"LOCK TABLE {options['schema']}.tokens IN ACCESS EXCLUSIVE MODE"):
        with pytest.raises(IndexFailed, match="statement timeout"):
            await embed_with_tokens(index)
        with pytest.raises(IndexFailed, match="statement timeout"):
            await index.tokens(np.array([1], np.int64))
    assert (await index.stats())[:2] == (1, 0)
    assert await embed_with_tokens(index) == 1
    assert await tokens(index, "e0") == [bits("one")]
    await index.close()


async def test_several_daemons_on_one_schema_make_it_once_and_write_at_the_same_time(options: Options) -> None:
    daemons = [await opened(options) for _ in range(4)]
    for each in daemons:
        await each.use_model("m", DIMENSION, TOKEN_BITS)

    async def work(number: int, index: Index) -> None:
        part = f"p{number % 2}"
        for step in range(8):
            await index.put(part, "reviewer", str(step), content(part, f"{step}.12"))
            await embed_with_tokens(index, 10)
            await index.put(f"own{number}", "reviewer", str(step), content(f"own{number}", f"{step}.6"))
            await index.keyword(["alpha"], EVERYTHING, 10)
            if step == 5:
                await index.drop([f"own{number}"])
        await index.put(f"own{number}", "reviewer", "7", content(f"own{number}", "7.6"))

    await asyncio.gather(*(work(number, each) for number, each in enumerate(daemons)))
    parts = await daemons[0].parts()
    assert parts == {"p0": "7", "p1": "7", "own0": "7", "own1": "7", "own2": "7", "own3": "7"}
    while await embed_with_tokens(daemons[1]):
        pass
    for each in daemons:
        stats = await each.stats()
        assert (*stats[:4], stats.tokenized) == (48, 48, "m", DIMENSION, 48)
        assert len(await said(each, "may", limit=1000)) == 48
    await asyncio.gather(daemons[0].clear(), *(each.keyword(["alpha"], EVERYTHING, 10) for each in daemons))
    assert (await daemons[3].stats()).entries == 0
    for each in daemons:
        await each.close()


async def test_a_daemon_with_another_model_takes_nobodys_vectors_for_its_own(options: Options) -> None:
    first, second = await opened(options), await opened(options)
    await first.use_model("m", DIMENSION)
    await first.put("log", "reviewer", "1", talk("one", "two"))
    await second.use_model("other", DIMENSION)
    waiting = await second.pending(10)
    assert await embed(first) == 2
    assert await second.embed(vectors(waiting)) == 0
    assert (await second.nearest(vector("one"), EVERYTHING, 5)).keys.size == 0
    assert (await first.nearest(vector("one"), EVERYTHING, 5)).keys.size == 2
    await first.close()
    await second.close()


async def test_a_daemon_that_stands_still_in_the_middle_of_a_write_holds_nobody_up_for_ever(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.search.index.postgres.connections._IDLE_SECONDS", 1)
    first, second = await opened(options), await opened(options)
    await first.parts()
    go_on = asyncio.Event()

    async def stand_still(_connection: Any, *_: Any) -> Any:
        await go_on.wait()

    monkeypatch.setattr("runtime.search.index.postgres.writes.drop", stand_still)
    stuck = asyncio.create_task(first.drop(["log"]))
    await second.put("log", "reviewer", "1", talk("one"))
    assert await said(second, "one") == ["e0"]
    go_on.set()
    await asyncio.gather(stuck, return_exceptions=True)
    await first.close()
    await second.close()
