"""Fixtures for everybody: a real database of each kind, and a clock that tests move."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import hypothesis
import pytest
from cryptography.hazmat.primitives import serialization

from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.memory import open_memory
from tests.clocks import ManualClock
from tests.databases import migrated
from tests.lanes import examples

# Daemons and commands are started by the hundred: without bytecode each would compile every module again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Roots are noted in the user's own folder; those of tests are nobody's, and each worker has its own list.
_STATE_HOME = tempfile.TemporaryDirectory(prefix="symbiont-tests-")
os.environ["XDG_STATE_HOME"] = _STATE_HOME.name

# Whoever runs the tests in the background of a shell has them ignore interrupts, and so would all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A machine that is busy is no mistake in the program. The examples are always the same, so that a change answers for
# itself alone; `SYMBIONT_SEARCH=1` looks for new ones.
hypothesis.settings.register_profile(
    "patient",
    max_examples=examples(100),
    deadline=None,
    derandomize="SYMBIONT_SEARCH" not in os.environ,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("patient")

# Begun first, by the beginning of the name: tests that take long, so that the last to end is a short one.
_FIRST = (
    "tests/stories/",
    "tests/runtime/daemon/process/test_secret_leaks.py",
    "tests/runtime/secrets/test_openbao.py",
    "tests/runtime/memory/markdown/test_crash.py",
    "tests/runtime/memory/records/test_crash.py",
    "tests/runtime/mcp/",
    "tests/docs/memory/",
    "tests/runtime/daemon/",
    "tests/runtime/cli/",
    "tests/runtime/attacks/",
)

# OpenSSL takes its time to see that a private key is one, and thousands of tests sign with the same few.
setattr(  # noqa: B010 - it is no method of ours
    serialization, "load_pem_private_key", lru_cache(maxsize=500)(serialization.load_pem_private_key)
)

# A search waits no longer than this for the index; on a busy machine that is too short for what was just written.
setattr(open_memory, "CATCH_UP_SECONDS", 60.0)  # noqa: B010 - it is final for everybody else

# Until all tests are known, what is made is here to stay.
gc.disable()

KEY_BYTES = bytes(range(32))
KEY = MasterKey(KEY_BYTES)
TEMPLATE = "symbiont_template"

_DURABLE = ("fsync", "full_page_writes")


def pytest_xdist_auto_num_workers() -> int | None:
    """Two more than there are processors: many tests wait for a daemon, a disk or a database now and then."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return len(os.sched_getaffinity(0)) + 2 if hasattr(os, "sched_getaffinity") else None


def pytest_collection_finish() -> None:
    """Look for garbage in what tests make only: the tests themselves are a million objects that stay."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long; otherwise keep the order, which is a random one of modules."""

    def rank(item: pytest.Item) -> int:
        return next((number for number, begin in enumerate(_FIRST) if item.nodeid.startswith(begin)), len(_FIRST))

    items.sort(key=rank)


@pytest.fixture
def clock() -> ManualClock:
    """Time stands still at 2026-02-14T10:30:00Z until the test moves it."""
    return ManualClock()


@pytest.fixture
def master_key() -> MasterKey:
    """The key of every database in the tests."""
    return KEY


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a fresh, empty but migrated database is: once SQLite, once PostgreSQL."""
    if request.param == "sqlite":
        yield f"sqlite:///{migrated(tmp_path / 'symbiont.db')}"
        return
    yield from fresh(request.getfixturevalue("postgres"))


@pytest.fixture
def postgres_url(postgres: str) -> Iterator[str]:
    """Where a fresh, empty but migrated PostgreSQL database is."""
    yield from fresh(postgres)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A fresh open database: the test runs once on SQLite and once on PostgreSQL."""
    opened = await Database.open(database_url, KEY)
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
def postgres(testrun_uid: str) -> str:
    """The URL of a real PostgreSQL server, one for the whole run, with a migrated template database.

    The `pgserver` package's own server where it has a wheel, else what SYMBIONT_TEST_POSTGRES names, else a skip.
    """
    # Not below pytest's own folder: each run takes other users' rights on that away, and the server is one of them.
    folder = Path(tempfile.gettempdir()) / f"symbiont-postgres-{testrun_uid}"
    url = _own_server(folder)
    if url is not None:
        # What it holds need not outlive the machine: a server that is killed loses nothing by this.
        for statement in (*(f"ALTER SYSTEM SET {name} = off" for name in _DURABLE), "SELECT pg_reload_conf()"):
            asyncio.run(_statement(url, statement))
    url = url or os.environ.get("SYMBIONT_TEST_POSTGRES")
    if url is None:
        pytest.skip("no PostgreSQL: pgserver has no wheel here; name a server in SYMBIONT_TEST_POSTGRES")
    asyncio.run(_make_template(url))
    return url


def _own_server(folder: Path) -> str | None:
    """Start the packaged server, or join the one that another worker of this run started.

    The last of the processes that joined it stops it when it ends.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pgserver import get_server  # type: ignore[attr-defined]

            server = get_server(folder, cleanup_mode="delete")
    except ImportError:
        return None
    return str(server.get_uri())


async def _make_template(url: str) -> None:
    """Once per server: a database with the whole schema, which each test's database is a copy of."""
    import asyncpg

    admin = await asyncpg.connect(url)
    try:
        await admin.execute("SELECT pg_advisory_lock(4)")
        if not await admin.fetchval("SELECT count(*) FROM pg_database WHERE datname = $1", TEMPLATE):
            await admin.execute(f"CREATE DATABASE {TEMPLATE}")
            await (await Database.open(_named(url, TEMPLATE), KEY)).close()
    finally:
        await admin.close()


def fresh(server: str) -> Iterator[str]:
    """Where a migrated database of its own is on that server; it is gone afterwards."""
    name = f"test_{uuid4().hex}"
    asyncio.run(_statement(server, f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}"))
    yield _named(server, name)
    asyncio.run(_statement(server, f"DROP DATABASE {name} WITH (FORCE)"))


async def _statement(url: str, statement: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _named(server: str, database: str) -> str:
    return urlunsplit(urlsplit(server)._replace(path=f"/{database}"))
