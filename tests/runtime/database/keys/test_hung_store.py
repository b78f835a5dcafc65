"""A server that does not answer a question about keys holds up what asked, and nothing else in the event loop."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from runtime.database.connection import Database
from runtime.database.drivers import postgresql
from runtime.database.errors import Unavailable
from runtime.database.keys.ring import KeyRing
from tests.clocks import until
from tests.conftest import KEY
from tests.lanes import LONG
from tests.runtime.search.index.postgres.postgres_server import OwnServer

pytestmark = LONG

BODY = "bodies.body"


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    """A PostgreSQL server that these tests may freeze."""
    pytest.importorskip("pgserver")
    folder = Path(tempfile.mkdtemp(prefix="symbiont-keys-"))
    started = OwnServer(folder)
    started.start()
    yield started
    started.stop("immediate")
    shutil.rmtree(folder)


@asynccontextmanager
async def opened(server: OwnServer) -> AsyncIterator[Database]:
    database = await Database.open(server.url, KEY)
    try:
        yield database
    finally:
        await database.close()


def seal(ring: KeyRing, user_id: str) -> bytes:
    return ring.seal(b"plain", BODY, user_id=user_id, row="1")


def unseal(ring: KeyRing, user_id: str, value: bytes) -> bytes:
    return ring.unseal(value, BODY, user_id=user_id, row="1")


@pytest.mark.parametrize("what", ["a new user", "a user of another daemon"])
async def test_a_transaction_that_needs_a_key_waits_alone(server: OwnServer, what: str) -> None:
    async with opened(server) as database, opened(server) as other:
        ring, user_id = database.keys, what.replace(" ", "-")
        value = b"" if what == "a new user" else await asyncio.to_thread(seal, other.keys, user_id)
        steps: list[str] = []

        def transaction(_connection: Connection) -> None:
            steps.append("asked")
            if value:
                assert unseal(ring, user_id, value) == b"plain"
            else:
                seal(ring, user_id)
            steps.append("answered")

        with server.frozen():
            task = asyncio.create_task(database.transact(transaction))
            await until(lambda: bool(steps))
            assert steps == ["asked"]
        await task
        assert steps == ["asked", "answered"]


async def test_a_transaction_without_its_key_fails_in_time(server: OwnServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(server) as database:
        monkeypatch.setattr(postgresql, "ANSWER_SECONDS", 0.2)
        with server.frozen(), pytest.raises(Unavailable, match=r"no answer for 0.2 s"):
            await database.transact(lambda _: seal(database.keys, "late"))
        monkeypatch.undo()
        await until(lambda: database.outage.problem is None)
        await database.transact(lambda _: seal(database.keys, "late"))


async def test_keys_are_listed_while_all_of_them_are_read_again(server: OwnServer) -> None:
    async with opened(server) as database:
        ring = database.keys
        await asyncio.to_thread(seal, ring, "listed")
        indexes = await asyncio.to_thread(ring.index_keys, "index")
        with server.frozen():
            loading = asyncio.create_task(asyncio.to_thread(ring.load))
            await until(lambda: _is_held(ring))
            assert "listed" in {key.holder for key in ring.current}
            assert ring.retired == []
            assert ring.index_keys("index") == indexes
            assert not loading.done()
        await loading


def _is_held(ring: KeyRing) -> bool:
    """Return True if another thread has the lock of the ring."""
    if ring._lock.acquire(blocking=False):
        ring._lock.release()
        return False
    return True


async def test_a_store_that_is_closed_keeps_no_thread_that_asks_it(server: OwnServer) -> None:
    asked = threading.Event()

    def slowly(connection: Connection) -> None:
        asked.set()
        connection.execute(text("SELECT pg_sleep(300)"))

    async with opened(server) as database:
        store = database.keys.store
        waiting = asyncio.create_task(asyncio.to_thread(store.transact, slowly, seconds=300))
        await asyncio.to_thread(asked.wait)
    with pytest.raises(Unavailable):
        await asyncio.wait_for(waiting, 30)
    with pytest.raises(Unavailable, match="closed"):
        store.transact(slowly)
