"""SQL tables on SQLite: a sealed file for each user, and a worker process for each file that is open."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec
import structlog

from runtime.crypto import KeyForgotten, Unsealable
from runtime.database.connection import Database
from runtime.database.drivers.sqlite import are_unchanged, identities
from runtime.database.keys.tables import VERSION
from runtime.errors import SymbiontError
from runtime.suggestions import unknown_name
from runtime.tables.errors import QuotaExceeded, ReadOnlyStatement, StatementError, TablesUnavailable
from runtime.tables.quota import Quota, rows_exceeded, storage_exceeded, tables_exceeded
from runtime.tables.sql_database import (
    MOST_IMPORT_SECONDS,
    MOST_ROWS,
    MOST_SECONDS,
    Dialect,
    Parameters,
    StatementResult,
    TableInfo,
    TablePage,
    Value,
)
from runtime.tables.sqlite import messages
from runtime.tables.sqlite.files import TableFile, TableFiles
from runtime.tables.sqlite.messages import Answer, Blob, Bound, Failure, Scalar, ToWorker
from runtime.tables.sqlite.parameters import bound, checked_text
from runtime.tables.sqlite.processes import NotReceived, Template, Worker, WorkerTimeout
from runtime.tables.storage import UserStorage
from runtime.workers.frames import TooLong

Result = TypeVar("Result")

log = structlog.get_logger("symbiont.tables")

FOLDER: Final = "tables"
"""Folder of the state folder with the files."""
MOST_OPEN: Final = 256
"""Maximum number of open files. Each needs a process."""
IDLE_SECONDS: Final = 300.0
MARGIN_SECONDS: Final = 0.7
"""Seconds after the end of a statement's time in which the worker may still answer by itself."""
_OPEN_SECONDS: Final = 60.0
_WAIT_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 5.0
_COPY_SECONDS: Final = 900.0
_LONGEST_MESSAGE: Final = 500
_SHORT: Final = 1000
"""Rows of parameters that are read in the event loop, in a millisecond or two."""
_KEPT_SECONDS: Final = 7 * 86_400


class _OpenFile:
    """The file of one user: its worker, and its identity at its path, if it is open. `calls`: that wait for it or use
    it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.calls = 0
        self.worker: Worker | None = None
        self.files: Mapping[Path, tuple[int, int]] = {}
        self.idle: asyncio.TimerHandle | None = None


class SqliteTables:
    """Runs statements on the tables of users. It implements `runtime.tables.sql_database.SqlDatabase`."""

    dialect: Dialect = "sqlite"

    def __init__(
        self,
        database: Database,
        state: Path,
        storage: UserStorage,
        *,
        most_open: int = MOST_OPEN,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`state`: the state folder of the root. Nothing is opened before the first call."""
        self._folder = state / FOLDER
        self._storage = storage
        self._files = TableFiles(database, storage)
        self._keys = database.keys
        self._template = Template()
        self._most_open = most_open
        self._idle_seconds = idle_seconds
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()
        self._slots = 0
        self._freed = asyncio.Event()
        self._preparing = asyncio.Lock()
        self._is_prepared = False
        self._renewed: str | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def problem(self) -> str | None:
        """None: there are always tables."""
        return None

    @property
    def connections(self) -> int:
        """See `SqlDatabase.connections`."""
        return self._slots

    async def run(
        self, user_id: str, statement: str, parameters: Parameters, quota: Quota, *, read_only: bool = False
    ) -> StatementResult:
        """See `SqlDatabase`."""
        return await self._run(user_id, statement, [parameters], quota, MOST_SECONDS, read_only=read_only)

    async def run_for_each(
        self, user_id: str, statement: str, rows: Sequence[Parameters], quota: Quota
    ) -> StatementResult:
        """Run one statement with each of these parameters, in one transaction; for imports."""
        return await self._run(user_id, statement, rows, quota, MOST_IMPORT_SECONDS, result=False)

    async def tables(self, user_id: str) -> Sequence[TableInfo]:
        """Return the user's tables by name; none if the user has none."""
        if await self._find_file(user_id) is None:
            return []
        answer = await self._ask(user_id, messages.Describe(), _OPEN_SECONDS)
        assert isinstance(answer, messages.Tables)
        return answer.tables

    async def page(self, user_id: str, table: str, *, after: str | None = None, limit: int = MOST_ROWS) -> TablePage:
        """Return rows of a table, for exports: a row that does not change meanwhile is on exactly one page."""
        if await self._find_file(user_id) is None:
            raise unknown_name("table", table, [], StatementError)
        asked = messages.ReadPage(checked_text(table, "the name of the table"), after, max(1, min(limit, MOST_ROWS)))
        answer = await self._ask(user_id, asked, MOST_SECONDS + MARGIN_SECONDS)
        assert isinstance(answer, messages.Page)
        rows = [[_json_value(each) for each in row] for row in answer.rows]
        return TablePage(answer.columns, rows, answer.after)

    async def missing_files(self) -> Sequence[str]:
        """See `SqlDatabase.missing_files`. What is open is stored again first."""
        for user_id in [each for each, file in self._open.items() if file.worker and not are_unchanged(file.files)]:
            with suppress(SymbiontError):
                await self._shield(self._close_idle(user_id))
        named = await self._files.names(filled=True)
        return await asyncio.to_thread(lambda: [str(path) for path in map(self._path, named) if not path.exists()])

    async def drop(self, user_id: str) -> None:
        """Delete all tables of a user, and what belongs to them. Nothing happens if there are none."""
        await self._shield(self._drop(user_id))

    async def renew_keys(self) -> None:
        """Give a new key to each file whose user's key was rotated since it was made."""
        version = self._keys.facts.get(VERSION, "")
        if version == self._renewed:
            return
        problems = 0
        for user_id in await self._files.of_earlier_keys():
            try:
                await self._shield(self._renew(user_id))
            except SymbiontError as error:
                problems += 1
                log.warning("tables_keep_their_key", user_id=user_id, reason=error.line())
        if not problems:
            self._renewed = version

    async def close(self) -> None:
        """Close everything that is open. The last call."""
        self._closed = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=MOST_SECONDS + MARGIN_SECONDS)
        files = [(user_id, file) for user_id, file in self._open.items() if file.worker is not None]
        await asyncio.gather(*(self._close(*each) for each in files), return_exceptions=True)
        await self._template.close()

    # Calls

    async def _run(
        self,
        user_id: str,
        statement: str,
        rows: Sequence[Parameters],
        quota: Quota,
        seconds: float,
        *,
        result: bool = True,
        read_only: bool = False,
    ) -> StatementResult:
        limits = messages.Limits(quota.tables, quota.rows, quota.storage)
        parameters = _bound(rows) if len(rows) <= _SHORT else await asyncio.to_thread(_bound, rows)
        asked = messages.Run(
            checked_text(statement, "the statement"),
            parameters,
            limits,
            seconds,
            result=result,
            read_only=read_only,
        )
        answer = await self._ask(user_id, asked, seconds + MARGIN_SECONDS, quota)
        assert isinstance(answer, messages.StatementRows)
        self._storage.touch(user_id)
        rows = cast("list[list[Value]]", answer.rows)
        return StatementResult(answer.columns, rows, answer.affected_rows, answer.truncated)

    async def _ask(self, user_id: str, message: ToWorker, seconds: float, quota: Quota | None = None) -> Answer:
        """Return the answer of the user's worker. Raises what its failures mean."""
        try:
            answer = await self._shield(self._exchange(user_id, message, seconds, quota))
        except TooLong:
            raise StatementError("the parameters are too long together", hint="pass fewer at once") from None
        except WorkerTimeout as late:
            if late.maybe_done:
                raise
            answer = Failure("time", "")
        if isinstance(answer, Failure):
            if answer.reason == "time":
                limit = seconds - MARGIN_SECONDS
                raise StatementError(
                    f"the statement took longer than {limit:.0f} seconds; nothing was changed",
                    hint="insert fewer rows at once" if limit > MOST_SECONDS else "add an index, a WHERE or a LIMIT",
                )
            failure = await self._failure(user_id, answer, quota)
            if isinstance(failure, StatementError | QuotaExceeded):
                failure.row = answer.row
            raise failure
        return answer

    async def _shield(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do the work, also if its caller is cancelled: nobody else could say in what state the worker is."""
        if self._closed:
            work.close()
            raise TablesUnavailable("the program stops")
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _exchange(self, user_id: str, message: ToWorker, seconds: float, quota: Quota | None) -> Answer:
        noted: list[messages.Size] = []

        async def note(size: messages.Size) -> None:
            await self._storage.note_tables(user_id, size.tables, size.bytes, quota)
            noted.append(size)

        async with self._lock_file(user_id) as file:
            worker = await self._worker(user_id, file)
            try:
                answer = await worker.ask(message, seconds, note)
            except NotReceived:
                # It had ended since the last call.
                worker = await self._worker(user_id, file)
                answer = await worker.ask(message, seconds, note)
            if noted and isinstance(answer, Failure):
                # The commit failed: the size is noted anew when the file is opened.
                await worker.kill()
            return answer

    @asynccontextmanager
    async def _lock_file(self, user_id: str) -> AsyncIterator[_OpenFile]:
        """Hold the file of a user: nobody else uses, opens or closes it."""
        file = self._open.setdefault(user_id, _OpenFile())
        self._open.move_to_end(user_id)
        file.calls += 1
        try:
            try:
                async with asyncio.timeout(_WAIT_SECONDS):
                    await file.lock.acquire()
            except TimeoutError:
                raise TablesUnavailable("your tables are busy with other statements", hint="try again") from None
            try:
                if file.idle is not None:
                    file.idle.cancel()
                yield file
            finally:
                file.lock.release()
        finally:
            file.calls -= 1
            self._settle(user_id, file)

    def _settle(self, user_id: str, file: _OpenFile) -> None:
        """Note that a call has ended."""
        if file.worker is not None and not file.worker.alive:
            file.worker = None
            self._slots -= 1
        if file.calls == 0:
            if file.worker is None:
                self._open.pop(user_id, None)
            elif not self._closed:
                loop = asyncio.get_running_loop()
                file.idle = loop.call_later(self._idle_seconds, self._close_soon, user_id)
        self._freed.set()

    def _close_soon(self, user_id: str) -> None:
        task = asyncio.create_task(self._close_idle(user_id), name="tables: close an idle file")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close_idle(self, user_id: str) -> None:
        file = self._open.get(user_id)
        if file is None or file.calls:
            return
        async with self._lock_file(user_id) as held:
            await self._close(user_id, held)

    async def _close(self, user_id: str, file: _OpenFile) -> None:
        """Close a file that is held. What is in it is stored, also if it was removed while it was open."""
        if file.worker is not None and file.worker.alive and not are_unchanged(file.files):
            await self._restore(user_id, file, file.worker)
        worker, file.worker = file.worker, None
        if file.idle is not None:
            file.idle.cancel()
        if worker is not None:
            self._slots -= 1
            await worker.close(_CLOSE_SECONDS)

    # Opening

    async def _worker(self, user_id: str, file: _OpenFile) -> Worker:
        """Return the worker of a file that is held; it is opened if it is not open."""
        if file.worker is not None and file.worker.alive and not are_unchanged(file.files):
            await self._close(user_id, file)
        if file.worker is not None and file.worker.alive:
            return file.worker
        if file.worker is not None:
            await file.worker.kill()
            file.worker = None
            self._slots -= 1
        await self._prepare()
        stored = await self._find_file(user_id) or await self._files.add(user_id)
        await self._take_slot()
        try:
            worker = await self._template.fork()
            try:
                opening = messages.OpenRequest(os.fsencode(self._path(stored.name)), stored.key, stored.size.tables > 0)
                answer = await worker.ask(opening, _OPEN_SECONDS)
                if isinstance(answer, Failure):
                    raise await self._failure(user_id, answer, None)
                assert isinstance(answer, messages.FileReady)
                if answer.size != stored.size:
                    # The process was killed between the note of a change and its commit.
                    await self._storage.note_tables(user_id, answer.size.tables, answer.size.bytes)
            except BaseException:
                await worker.kill()
                raise
        except BaseException:
            self._slots -= 1
            raise
        file.worker, file.files = worker, identities(self._path(stored.name))
        return worker

    async def _find_file(self, user_id: str) -> TableFile | None:
        try:
            return await self._files.find(user_id)
        except (Unsealable, KeyForgotten) as error:
            raise TablesUnavailable(f"the key of your tables cannot be read: {error}") from None

    async def _take_slot(self) -> None:
        """Wait until another file may be open. The one that was used longest ago is closed for it."""
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                while self._slots >= self._most_open:
                    self._freed.clear()
                    oldest = next(
                        (each for each, file in self._open.items() if file.worker is not None and not file.calls), None
                    )
                    if oldest is not None:
                        await self._close_idle(oldest)
                    elif self._slots >= self._most_open:
                        await self._freed.wait()
        except TimeoutError:
            raise TablesUnavailable("too many users work with their tables at once", hint="try again") from None
        self._slots += 1

    async def _prepare(self) -> None:
        """Make the folder, and delete files that belong to nobody: once."""
        async with self._preparing:
            if not self._is_prepared:
                names = await self._files.names()
                try:
                    await asyncio.to_thread(_clear, self._folder, names)
                except OSError as error:
                    raise TablesUnavailable(f"the folder {FOLDER} cannot be used: {error.strerror}") from None
                self._is_prepared = True

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.db"

    # Changes of files

    async def _drop(self, user_id: str) -> None:
        async with self._lock_file(user_id) as file:
            if file.worker is not None:
                await file.worker.kill()
            # Without the name in the row, nobody would know after a kill what is left to delete.
            name = await self._files.name(user_id)
            if name is not None:
                await self._delete(name)
                await self._files.forget(user_id)

    async def _renew(self, user_id: str) -> None:
        """Copy the file of a user to one with a new key, and use that."""
        async with self._lock_file(user_id) as file:
            old = await self._find_file(user_id)
            if old is None:
                return
            worker = await self._worker(user_id, file)
            # The worker may have restored it.
            old = await self._find_file(user_id) or old
            unused = await self._copy(user_id, old, worker)
            await self._close(user_id, file)
            await self._delete(unused)

    async def _restore(self, user_id: str, file: _OpenFile, worker: Worker) -> None:
        """Store what is in an open file that was removed, or replaced, in a new one."""
        await asyncio.to_thread(self._folder.mkdir, mode=0o700, exist_ok=True)
        old = await self._find_file(user_id)
        if old is not None:
            await self._copy(user_id, old, worker)
            log.warning("tables_restored", user_id=user_id, reason="their file was removed while it was open")

    async def _copy(self, user_id: str, old: TableFile, worker: Worker) -> str:
        """Copy the open file of a user to one with a new key, and make that the file of the user. Returns the name of
        the one that is not."""
        new = self._files.new(user_id)
        try:
            answer = await worker.ask(messages.Copy(os.fsencode(self._path(new.name)), new.key), _COPY_SECONDS)
            if isinstance(answer, Failure):
                raise await self._failure(user_id, answer, None)
            is_new = await self._files.replace(user_id, old, new)
        except BaseException:
            # If the name was stored nevertheless, the file must stay.
            if await self._is_unnamed(user_id, new):
                await self._delete(new.name)
            raise
        return old.name if is_new else new.name

    async def _is_unnamed(self, user_id: str, file: TableFile) -> bool:
        try:
            return file.name not in await self._files.names()
        except SymbiontError:
            return False

    async def _delete(self, name: str) -> None:
        try:
            await asyncio.to_thread(_remove, self._path(name))
        except OSError as error:
            raise TablesUnavailable(f"the file of tables cannot be deleted: {error.strerror}") from None

    # Failures

    async def _failure(self, user_id: str, failed: Failure, quota: Quota | None) -> SymbiontError:
        failed = msgspec.structs.replace(failed, message=_one_line(failed.message))
        match failed.reason:
            case "changes":
                return ReadOnlyStatement(failed.message, hint=failed.hint)
            case "statement":
                return StatementError(failed.message, hint=failed.hint)
            case "table" | "column":
                return unknown_name(failed.reason, failed.message, map(_one_line, failed.known), StatementError)
            case "tables" if quota is not None:
                return tables_exceeded(quota, failed.count)
            case "rows" if quota is not None:
                return rows_exceeded(quota, failed.message, failed.count)
            case "bytes" if quota is not None:
                return storage_exceeded(quota, (await self._storage.usage(user_id)).bytes)
            case "file":
                log.error("tables_unusable", user_id=user_id, reason=failed.message)
                return TablesUnavailable(f"the file of your tables {failed.message}", hint=failed.hint)
        return TablesUnavailable(f"{failed.message}; nothing was changed", hint=failed.hint)


def _one_line(text: str) -> str:
    """Return a text as one short line: names in it may have any characters."""
    return "".join(each if each.isprintable() else " " for each in text[:_LONGEST_MESSAGE])


def _bound(rows: Sequence[Parameters]) -> list[Bound]:
    return [bound(each) for each in rows]


def _json_value(value: Scalar) -> Value:
    return {"base64": base64.b64encode(value.content).decode()} if isinstance(value, Blob) else value


def _clear(folder: Path, names: set[str]) -> None:
    """Make the folder if there is none. Delete its files that are of none of these names and were not changed for long:
    a kill during a renewal of keys leaves one. Others stay, in case that the database is of another time."""
    folder.mkdir(mode=0o700, exist_ok=True)
    changed_before = time.time() - _KEPT_SECONDS
    for path in folder.iterdir():
        name, _, kind = path.name.partition(".")
        if name not in names and kind.startswith("db") and path.lstat().st_mtime < changed_before:
            path.unlink(missing_ok=True)


def _remove(path: Path) -> None:
    for each in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-journal")):
        each.unlink(missing_ok=True)
