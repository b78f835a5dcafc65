"""Threads of an open index: one writes and another reads, each with a connection of its own.

The writer prepares its transaction beside the readers. Only its last step, the commit and the same change in memory,
excludes them, so a search always reads one state in the file and in memory. A damaged file is deleted and created
again, empty, and the operation is repeated.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from runtime.search.errors import IndexFailed
from runtime.search.index.embedded.errors import DamagedIndex, index_error
from runtime.search.index.embedded.in_memory import IndexInMemory
from runtime.search.index.embedded.index_file import IndexFile, delete_files, open_file
from runtime.search.index.embedded.sqlcipher import ERRORS

T = TypeVar("T")
Apply = Callable[[IndexInMemory], None]
Work = Callable[[IndexInMemory], tuple[T, Apply]]
"""Changes the file; returns its result, and the change to make in memory after the commit."""

SCRUB_SECONDS = 15.0
LONGEST_SCRUB_WAIT = 40.0
SCRUB_SHARE = 20
"""Deleted content is overwritten in the file after this many times the duration of the last overwriting. With
100,000 entries that takes about 0.2 s in a sealed file and 1 s in another; searches continue meanwhile, writes wait."""
_SOON_LOOKED_AT = 200_000  # number of rows that take less than a millisecond
_OPEN = contextlib.nullcontext()
_log = structlog.get_logger("symbiont.index")


class _Broken(Exception):  # noqa: N818 - named for what is the case
    """This index is unreadable; `loaded` None: it was not loaded."""

    def __init__(self, loaded: IndexInMemory | None, reason: str = "") -> None:
        super().__init__(reason)
        self.loaded = loaded


class Access:
    """The index in a file, sealed with `key` if given, or in memory if `path` is None: then one connection reads and
    writes in turn. One event loop uses it."""

    def __init__(self, path: Path | None, key: bytes | None = None) -> None:
        self.rebuilt = 0
        """Number of times that a damaged file was replaced by an empty one."""
        self._path = path
        self._key = key
        self._name = "in memory" if path is None else str(path)
        self._loaded: IndexInMemory | None = None
        self._closed = False
        self._needs_scrub = self._scrub_failed = False
        self._scrub_took = 0.0
        self._scrubbing: asyncio.TimerHandle | asyncio.Future[None] | None = None
        self._lock = threading.Lock()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="index writer")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="index reader")

    async def open(self) -> None:
        """Load the file. Raises IndexFailed."""
        await self._run(self._writer, self._ensure_loaded)
        self._scrub_later()

    async def read(self, work: Callable[[IndexInMemory], T]) -> T:
        """Run `work` beside the writer, on one state. Raises IndexFailed."""
        return await self._with_rebuild(lambda: self._run(self._reader, self._run_read, work))

    async def read_memory(self, work: Callable[[IndexInMemory], T]) -> T:
        """Run `work`, which reads only memory: without a thread if that is quick and the lock is free, because
        changing threads takes longer."""
        if self._lock.acquire(blocking=False):
            try:
                loaded = self._loaded
                if loaded is not None and loaded.rows.end < _SOON_LOOKED_AT:
                    return work(loaded)
            finally:
                self._lock.release()
        return await self.read(work)

    async def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction. Raises IndexFailed, and then nothing is changed."""
        try:
            return await self._with_rebuild(lambda: self._run(self._writer, self._run_write, work))
        finally:
            self._scrub_later()

    async def clear(self) -> None:
        """Delete the file and create it again, empty. Raises IndexFailed."""
        await self._run(self._writer, self._clear)

    async def reseal(self, key: bytes) -> None:
        """Seal the file with another key. Searches wait meanwhile, about 6 ms for each megabyte. Raises
        IndexFailed."""
        await self._run(self._writer, self._reseal, key)

    async def close(self) -> None:
        """Wait for running operations, then close the file and end the threads."""
        if not self._closed:
            self._closed = True
            if self._scrubbing is not None:
                # Running operations are awaited below.
                self._scrubbing.cancel()
            await asyncio.get_running_loop().run_in_executor(self._writer, self._close_file)
            self._writer.shutdown(wait=False)
            self._reader.shutdown(wait=False)

    async def _with_rebuild(self, attempt: Callable[[], Awaitable[T]]) -> T:
        reason = ""
        for _ in range(3):
            try:
                return await attempt()
            except _Broken as broken:
                reason = str(broken) or reason
                await self._run(self._writer, self._renew, broken)
        raise IndexFailed(
            f"the index {self._name} is damaged immediately after its creation: {reason}", hint="check the disk"
        )

    async def _run(self, thread: ThreadPoolExecutor, function: Callable[..., T], *arguments: object) -> T:
        if self._closed:
            raise IndexFailed(f"the index {self._name} is closed")
        return await asyncio.get_running_loop().run_in_executor(thread, partial(function, *arguments))

    def _run_read(self, work: Callable[[IndexInMemory], T]) -> T:
        with self._lock:
            loaded = self._loaded
            if loaded is None:
                raise _Broken(None)
            with self._translate_errors(loaded):
                return work(loaded)

    def _run_write(self, work: Work[T]) -> T:
        loaded = self._ensure_loaded()
        # In memory readers have the same connection, and would see uncommitted changes.
        all_along, at_last = (self._lock, _OPEN) if self._path is None else (_OPEN, self._lock)
        with self._translate_errors(loaded), all_along, loaded.file.transaction() as commit:
            if loaded.file.changed_by_others():
                with at_last:
                    loaded.load()
            result, apply = work(loaded)
            self._needs_scrub = loaded.file.needs_scrub()
            with at_last:
                commit()
                self._apply(loaded, apply)
        self._writer.submit(self._tidy, loaded)
        return result

    def _reseal(self, key: bytes) -> None:
        if self._path is None or self._key is None or self._key == key:
            return
        loaded = self._ensure_loaded()
        with self._translate_errors(loaded), self._lock:
            loaded.file.reseal(key)
            self._key = key

    def _tidy(self, loaded: IndexInMemory) -> None:
        """Do what can wait until the writer has continued."""
        if self._loaded is loaded:
            loaded.file.tidy()

    def _scrub_later(self) -> None:
        if self._needs_scrub and self._scrubbing is None and not self._closed:
            wait = min(max(SCRUB_SECONDS, SCRUB_SHARE * self._scrub_took), LONGEST_SCRUB_WAIT)
            self._scrubbing = asyncio.get_running_loop().call_later(wait, self._begin_scrub)

    def _begin_scrub(self) -> None:
        self._scrubbing = asyncio.get_running_loop().run_in_executor(self._writer, self._scrub)
        self._scrubbing.add_done_callback(self._finish_scrub)

    def _finish_scrub(self, _done: asyncio.Future[None]) -> None:
        self._scrubbing = None
        self._scrub_later()

    def _scrub(self) -> None:
        """Overwrite deleted content; a failure is retried."""
        loaded = self._loaded
        if loaded is None or not self._needs_scrub:
            return
        begun = time.monotonic()
        try:
            with self._translate_errors(loaded):
                self._needs_scrub, self._scrub_failed = not loaded.file.scrub(), False
        except (_Broken, IndexFailed) as error:
            if not self._scrub_failed:
                _log.warning("index_scrub_failed", file=self._name, reason=str(error))
            self._scrub_failed = True
        self._scrub_took = time.monotonic() - begun

    def _apply(self, loaded: IndexInMemory, apply: Apply) -> None:
        try:
            apply(loaded)
        except BaseException:
            # The file has the change: the next operation loads it from the file.
            self._forget()
            raise

    def _ensure_loaded(self) -> IndexInMemory:
        """Return the loaded index; open the file if needed."""
        if self._loaded is None:
            loaded = self._open_index()
            with self._lock:
                self._loaded = loaded
        return self._loaded

    def _open_index(self) -> IndexInMemory:
        file, damage = open_file(self._path, self._key)
        try:
            loaded = self._load(file)
        except _Broken as broken:
            damage = str(broken)
            file.close()
            delete_files(self._path)
            file, _ = open_file(self._path, self._key)
            loaded = self._load(file)
        except BaseException:
            file.close()
            raise
        if damage:
            self._note_rebuild(damage)
        return loaded

    def _load(self, file: IndexFile) -> IndexInMemory:
        with self._translate_errors(None):
            loaded = IndexInMemory(file)
            self._needs_scrub = file.needs_scrub()
            return loaded

    def _renew(self, broken: _Broken) -> None:
        """Rebuild the index, unless that was done since it was found broken."""
        if broken.loaded is not None and self._loaded is broken.loaded:
            self._clear_away()
            self._note_rebuild(str(broken))
        self._ensure_loaded()

    def _clear(self) -> None:
        self._ensure_loaded()
        self._clear_away()
        self._ensure_loaded()

    def _clear_away(self) -> None:
        with self._lock:
            self._forget()
            delete_files(self._path)

    def _close_file(self) -> None:
        self._scrub()
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            loaded.close()

    def _note_rebuild(self, reason: str) -> None:
        self.rebuilt += 1
        _log.warning("index_rebuilt", file=self._name, reason=reason)

    @contextlib.contextmanager
    def _translate_errors(self, loaded: IndexInMemory | None) -> Iterator[None]:
        try:
            yield
        except (DamagedIndex, msgspec.DecodeError) as damage:
            raise _Broken(loaded, str(damage)) from damage
        except ERRORS as error:
            verdict = index_error(error, self._name)
            raise (_Broken(loaded, str(verdict)) if isinstance(verdict, DamagedIndex) else verdict) from error
        except (UnicodeError, OverflowError) as error:
            raise IndexFailed(f"the index {self._name} cannot store an entry: {error}") from error
