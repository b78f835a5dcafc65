"""Tables of users on SQLite, opened for tests."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from runtime.clock import SYSTEM
from runtime.crypto import MasterKey
from runtime.database.connection import Database
from runtime.identity.user_settings import UserSettingsStore
from runtime.tables.quota import TIERS, Quota
from runtime.tables.sql_database import Parameters, StatementResult
from runtime.tables.sqlite.database import SqliteTables
from runtime.tables.sqlite.messages import Failure, Limits, Run, StatementRows
from runtime.tables.sqlite.statement import Refusal
from runtime.tables.sqlite.user_file import UserFile
from runtime.tables.storage import UserStorage
from tests.databases import migrated

KEY = bytes(range(32))
FREE = TIERS["free"]


class OpenFile:
    """The file of one user in this process: without a worker, a test takes milliseconds."""

    def __init__(self, folder: Path, limits: Limits = Limits(5, 10_000, 25_000_000)) -> None:  # noqa: B008 - frozen
        self.path = folder / "one.db"
        self.limits = limits
        self.sizes: list[tuple[int, bool]] = []
        self.file = UserFile(self.path, KEY, known=False)

    def run(
        self,
        statement: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        read_only: bool = False,
        **limits: Any,
    ) -> StatementRows:
        """Run a statement. Raises Refusal."""
        given = dict(parameters) if isinstance(parameters, Mapping) else list(parameters)
        allowed = Limits(*(limits.get(name, getattr(self.limits, name)) for name in ("tables", "rows", "bytes")))
        return self.file.run(
            Run(statement, [given], allowed, 5.0, read_only=read_only),
            lambda size, asks: self.sizes.append((size.bytes, asks)),
        )

    def refused(self, statement: str, parameters: Sequence[Any] | Mapping[str, Any] = (), **limits: Any) -> Failure:
        """Return why a statement is refused."""
        try:
            ran = self.run(statement, parameters, **limits)
        except Refusal as refusal:
            return refusal.failure
        raise AssertionError(f"{statement} returned {ran}")

    def value(self, statement: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Any:
        """Return the only value of a result."""
        ((value,),) = self.run(statement, parameters).rows
        return value


class OpenTables:
    """The tables of all users. `folder`: the state folder."""

    def __init__(self, folder: Path, database: Database, tables: SqliteTables, storage: UserStorage) -> None:
        self.folder = folder
        self.database = database
        self.tables = tables
        self.storage = storage
        self._others = templates()

    async def run(
        self, statement: str, parameters: Parameters = (), *, user_id: str = "owner", quota: Quota = FREE
    ) -> StatementResult:
        """Run a statement for a user."""
        return await self.tables.run(user_id, statement, parameters, quota)

    async def value(self, statement: str, parameters: Parameters = (), *, user_id: str = "owner") -> Any:
        """Return the only value of a result."""
        ((value,),) = (await self.run(statement, parameters, user_id=user_id)).rows
        return value

    def files(self) -> list[Path]:
        """Return the files of tables, without their logs."""
        return sorted((self.folder / "tables").glob("*.db"))

    def workers(self) -> list[int]:
        """Return the processes that serve users."""
        return [worker for template in self.templates() for worker in children(template)]

    def templates(self) -> list[int]:
        """Return the processes that these workers are forked from: one, if there is any."""
        return [each for each in templates() if each not in self._others]


def templates() -> list[int]:
    """Return the templates of workers that this process has started."""
    return [each for each in children(os.getpid()) if b"sqlite.template" in _command(each)]


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def children(process: int) -> list[int]:
    """Return the processes whose parent is this one, and which have not ended."""
    return [number for number in _processes() if _parent(number) == process]


SEES_WORKERS: Final = os.geteuid() == 0
"""Only the superuser sees what is in a worker, because its keys are in its memory."""


def open_files(process: int) -> list[Path]:
    """Return the files that a process has open."""
    found = []
    with suppress(OSError):
        found += [each.readlink() for each in Path(f"/proc/{process}/fd").iterdir()]
    return found


def _processes() -> list[int]:
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]


def _parent(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^PPid:\s*(\d+)", status, re.MULTILINE)
    return int(found[1]) if found and "State:\tZ" not in status else 0


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncIterator[OpenTables]:
    """Open a database and its tables in a folder, new or not."""
    path = folder / "symbiont.db"
    database = await Database.open(path if path.exists() else migrated(path), MasterKey(bytes(32)))
    try:
        storage = UserStorage(database, SYSTEM, UserSettingsStore(database, SYSTEM), TIERS, "free")
        tables = SqliteTables(database, folder, storage, **options)
        try:
            yield OpenTables(folder, database, tables, storage)
        finally:
            await tables.close()
    finally:
        await database.close()
