"""Fixtures for all tests: a real database of each kind, and a clock that tests move."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import hypothesis
import pytest
import structlog
from cryptography.hazmat.primitives import serialization

from runtime.crypto import MasterKey
from runtime.database import connection
from runtime.database.connection import Database
from runtime.database.drivers import postgresql
from runtime.database.group_commit import GroupCommit
from runtime.memory import open_memory
from tests.clocks import ManualClock
from tests.databases import with_keys
from tests.lanes import LONG, examples
from tests.statements import share_statements

# Daemons and commands are started by the hundred: without bytecode each would compile every module again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Thousands of roots and databases are created, and each commit of one waits for its disk: in memory none does.
# Tests of durability look at the calls of the system, not at the disk.
_MEMORY, _ROOM = Path("/dev/shm"), 4 << 30
if "PYTEST_DEBUG_TEMPROOT" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM:
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(_MEMORY)

# The registry of roots is in the user's state folder. Each worker has its own, so the user's is unchanged.
_STATE_HOME = tempfile.TemporaryDirectory(prefix="symbiont-tests-")
os.environ["XDG_STATE_HOME"] = _STATE_HOME.name

# A shell makes background processes ignore interrupts, and the processes that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: a busy machine is not a defect. The examples are always the same, so that a failure is caused by the
# change that is tested; `SYMBIONT_SEARCH=1` generates new ones.
hypothesis.settings.register_profile(
    "patient",
    max_examples=examples(100),
    deadline=None,
    derandomize="SYMBIONT_SEARCH" not in os.environ,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("patient")

# Prefixes of tests that take long. They start first, so that no long test is left alone at the end.
_FIRST = (
    "tests/stories/",
    "tests/bench/test_calls.py",
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

# Tests that `make test` runs on PostgreSQL too: their SQL differs there, or their transactions meet. The others with a
# database run there in `make test-long`.
_ON_BOTH = (
    "tests/contracts/test_stores.py",
    "tests/runtime/database/",
    "tests/runtime/memory/collection/test_upsert.py",
    "tests/runtime/models/budgets/",
    "tests/runtime/search/",
    "tests/runtime/tables/kv/",
    "tests/runtime/tables/test_storage.py",
    "tests/runtime/tasks/test_store.py",
    "tests/runtime/threads/events/test_log.py",
    "tests/runtime/threads/test_change_log.py",
    "tests/runtime/threads/test_run_log.py",
    "tests/runtime/threads/turns/",
    "tests/runtime/webhooks/deliveries/test_concurrency.py",
    "tests/runtime/webhooks/deliveries/test_inbox.py",
    "tests/runtime/webhooks/deliveries/test_redelivery.py",
    "tests/runtime/webhooks/receiving/test_admission.py",
)

# OpenSSL checks a private key slowly, and thousands of tests sign with the same few keys.
setattr(  # noqa: B010 - a function of a library
    serialization, "load_pem_private_key", lru_cache(maxsize=500)(serialization.load_pem_private_key)
)

# A command that runs in the process of tests configures its log, which loggers that keep it would show in later tests.
_configure = structlog.configure
setattr(  # noqa: B010 - a function of a library
    structlog, "configure", lambda **given: _configure(**{**given, "cache_logger_on_first_use": False})
)

# Without a configuration, the traceback of an exception that is logged would be coloured, which takes long.
for processor in structlog.get_config()["processors"]:
    if isinstance(processor, structlog.dev.ConsoleRenderer):
        processor.exception_formatter = structlog.dev.plain_traceback

share_statements()

# A search waits no longer than this for the index; on a busy machine that is too short for what was just written.
setattr(open_memory, "CATCH_UP_SECONDS", 60.0)  # noqa: B010 - declared Final

# Nor does a database that is slow because the machine is busy begin an outage.
setattr(postgresql, "ANSWER_SECONDS", 60)  # noqa: B010 - declared in its module
setattr(connection, "GroupCommit", partial(GroupCommit, answer_seconds=60))  # noqa: B010 - as above

# Objects that are created during collection live until the end.
gc.disable()

KEY_BYTES = bytes(range(32))
KEY = MasterKey(KEY_BYTES)
TEMPLATE = "symbiont_template"

_DURABLE = ("fsync", "full_page_writes")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Return two more than the number of processors: many tests wait for a daemon, a disk or a database."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return len(os.sched_getaffinity(0)) + 2 if hasattr(os, "sched_getaffinity") else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import all modules of tests, where all are collected: each worker begins with a part of its own. So the first run
    in a checkout rewrites and compiles a module once for all of them. An error shows when the module is collected."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args != session.config.getini("testpaths"):
        return
    files = sorted(Path(__file__).parent.rglob("test_*.py"))
    begin = int(worker["workerid"].removeprefix("gw")) * len(files) // worker["workercount"]
    for file in files[begin:] + files[:begin]:
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(file.relative_to(session.config.rootpath).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Exclude the collected tests, about a million objects, from garbage collection."""
    gc.enable()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests on PostgreSQL that only `make test-long` runs."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if parameters.get("database_url") == "postgresql" and not item.nodeid.startswith(_ON_BOTH):
        item.add_marker(LONG)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests that take long to the front; otherwise keep the order, which is random by module."""

    def rank(item: pytest.Item) -> int:
        return next((number for number, begin in enumerate(_FIRST) if item.nodeid.startswith(begin)), len(_FIRST))

    items.sort(key=rank)


@pytest.fixture
def clock() -> ManualClock:
    """A clock that shows 2026-02-14T10:30:00Z until the test moves it."""
    return ManualClock()


@pytest.fixture
def master_key() -> MasterKey:
    """The key of every database in the tests."""
    return KEY


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh, migrated database without rows: once SQLite, once PostgreSQL."""
    if request.param == "sqlite":
        yield f"sqlite:///{with_keys(tmp_path / 'symbiont.db', KEY, indexes=False)}"
        return
    yield from fresh(request.getfixturevalue("postgres"))


@pytest.fixture
def postgres_url(postgres: str) -> Iterator[str]:
    """The URL of a fresh, migrated PostgreSQL database without rows."""
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
    url = own_server(testrun_uid)
    if url is not None:
        # The data need not survive a crash of the machine; a killed server loses nothing by this.
        for statement in (*(f"ALTER SYSTEM SET {name} = off" for name in _DURABLE), "SELECT pg_reload_conf()"):
            asyncio.run(_statement(url, statement))
    url = url or os.environ.get("SYMBIONT_TEST_POSTGRES")
    if url is None:
        pytest.skip("no PostgreSQL: pgserver has no wheel here; name a server in SYMBIONT_TEST_POSTGRES")
    asyncio.run(_make_template(url))
    return url


def own_server(name: str, tries: int = 6) -> str | None:
    """Start the packaged server, or join the one of that name that another worker of this run started.

    The last of the processes that joined it stops it when it ends.
    """
    # Not below pytest's folder: each run removes other users' rights there, and the server runs as another user.
    folder = Path(os.environ.get("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())) / f"symbiont-postgres-{name}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pgserver import get_server  # type: ignore[attr-defined]

            return str(get_server(folder, cleanup_mode="delete").get_uri())
    except ImportError:
        return None
    except subprocess.TimeoutExpired:
        # The package waits ten seconds for the server, which starts nevertheless on a busy machine.
        if tries == 1:
            raise
        return own_server(name, tries - 1)


async def _make_template(url: str) -> None:
    """Create the migrated database of which each test's database is a copy, once per server."""
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
    """Yield the URL of a new migrated database on that server, and drop it afterwards."""
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
