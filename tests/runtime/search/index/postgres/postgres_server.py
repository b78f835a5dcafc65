"""A real PostgreSQL with pgvector for tests of the index: a database for the tests of a process, a schema for each."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
import pytest

NAMED = "SYMBIONT_TEST_PGVECTOR"
"""The variable that names a server to use instead of the tests' own, for instance one with a later pgvector."""


def server(request: pytest.FixtureRequest) -> str:
    """The URL of the server; it must be called outside of an event loop."""
    return os.environ.get(NAMED) or str(request.getfixturevalue("postgres"))


_MADE: dict[str, str] = {}


async def database(url: str) -> str:
    """Return the URL of this process's database on that server."""
    if url not in _MADE:
        _MADE[url] = await fresh(url)
    return _MADE[url]


async def fresh(url: str) -> str:
    """Return the URL of a new, empty database on that server."""
    name = f"indexes_{uuid4().hex}"
    # In the default database, which no test uses.
    await execute(url, f"CREATE DATABASE {name} TEMPLATE template0")
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@asynccontextmanager
async def options(url: str) -> AsyncIterator[dict[str, Any]]:
    """Return the options of an index with its own schema on that server; it disappears with the server."""
    yield {"url": await database(url), "schema": f"test_{uuid4().hex}", "pool": 2}


async def execute(url: str, statement: str, *values: Any) -> Any:
    """Run a statement and return the first value of its first row."""
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement, *values)
    finally:
        await connection.close()


class OwnServer:
    """A PostgreSQL server of one test, which can be stopped, killed and started again; run by `pgserver`'s programs."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pgserver._commands import POSTGRES_BIN_PATH
            from pgserver.utils import ensure_user_exists

        self._programs = POSTGRES_BIN_PATH
        self._data, self._sockets = folder / "data", folder / "sockets"
        self._user: str | None = None
        for each in (folder, self._sockets):
            each.mkdir(exist_ok=True)
            each.chmod(0o755)
        self._data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root.
            self._user = "pgserver"
            ensure_user_exists(self._user)
            for each in (self._data, self._sockets):
                shutil.chown(each, self._user)
        self._run("initdb", "--auth=trust", "--encoding=utf8", "--no-sync", "-U", "postgres")
        self.url = f"postgresql://postgres:hunter2@/postgres?host={self._sockets}"

    def start(self) -> None:
        """Wait until it answers."""
        options = f"-h '' -k {self._sockets} -F -c max_connections=20 -c shared_buffers=16MB"
        self._run("pg_ctl", "-w", "-l", str(self._sockets / "log"), "-o", options, "start")

    def stop(self, how: str = "fast") -> None:
        """Stop the server. `fast`: cleanly, closing all connections; `immediate`: as if killed."""
        self._run("pg_ctl", "-w", "-m", how, "stop")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), "-D", str(self._data), *arguments]
        quiet = subprocess.DEVNULL
        subprocess.run(command, check=True, user=self._user, cwd="/", stdout=quiet, stderr=quiet)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop every process of the server while inside: its connections stay open and get no response."""
        first = int((self._data / "postmaster.pid").read_text().splitlines()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        processes = [first, *map(int, children)]
        for each in processes:
            os.kill(each, signal.SIGSTOP)
        try:
            yield
        finally:
            for each in processes:
                os.kill(each, signal.SIGCONT)
