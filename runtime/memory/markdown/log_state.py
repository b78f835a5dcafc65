"""What is known of one day's log without reading it again: whose deliveries are in it, and how often each text.

The knowledge holds as long as inode, size and time of change are those it was taken at. Of a log that has only grown,
by another process's entries, only what is new is read; of any other change, all of it.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import NamedTuple

from runtime.memory.files.folder import Folder, naming, read_all, revision, sync, write_all
from runtime.memory.item import OWNER, chunk_hash
from runtime.memory.markdown.text.annotation import delivery_keys
from runtime.memory.markdown.text.daily_log import DailyLog, header, mended

_WINDOW = 4096
_NEXT_ENTRY = (b"\n## ", b"\r\n## ")


class Step(NamedTuple):
    """The revision of a log before something was added at its end (None: there was nothing), and after."""

    before: str | None
    after: str


class LogState:
    """One log's ledger. Whoever uses it holds the folder's lock."""

    def __init__(self, day: date) -> None:
        self.day = day
        self.name = f"{day.isoformat()}.md"
        self._forget()

    def _forget(self) -> None:
        self.keys: set[str] = set()
        """The idempotency keys of the deliveries whose entries stand in the log whole."""
        self.occurrences: Counter[tuple[str, str]] = Counter()
        """How many entries there are of each chunk_hash and user."""
        self.newline = "\n"
        self._seen: tuple[int, int, int] | None = None
        self._window = b""

    def refresh(self, logs: Folder) -> None:
        """Know the log as it is now, or know that there is none."""
        with logs.opened(self.name) as descriptor:
            if descriptor is None:
                self._forget()
            else:
                with naming(logs.path / self.name, "read"):
                    self._learn(descriptor)

    def append(self, logs: Folder, entries: Callable[[], bytes]) -> Step | None:
        """Add what `entries` makes, from the ledger as it then is, to the end of the log; it is on disk on return.

        Says between which revisions that was all that happened; None when nothing was added, or when it may not be all.
        `entries` enters what it makes into `keys` and `occurrences`. An editor that replaces the file meanwhile takes
        no lock: then the same is done with the file that is there now.
        """
        path = logs.path / self.name
        while True:
            with logs.opened(self.name, os.O_RDWR | os.O_CREAT | os.O_APPEND) as descriptor:
                assert descriptor is not None
                with naming(path, "read"):
                    size = self._learn(descriptor, mend=True)
                data = entries()
                if not data:
                    return None
                mending = mended(self._window, self.newline) if size else header(self.day)
                learned, known = self._seen, os.fstat(descriptor)
                self._write(descriptor, size, mending + data, path)
                if not size:
                    sync(logs.descriptor, logs.path)
                found = logs.status(self.name)
                if found is not None and os.path.samestat(found, os.fstat(descriptor)):
                    alone = learned == _from_outside(known) and self._seen == _from_outside(found)
                    added_only = not size or not mending
                    return Step(revision(known) if size else None, revision(found)) if alone and added_only else None

    def _write(self, descriptor: int, size: int, data: bytes, path: Path) -> None:
        try:
            with naming(path, "write"):
                write_all(descriptor, data)
                written = os.fstat(descriptor)
        except BaseException:
            self._forget()
            _take_back(descriptor, size, data)
            raise
        sync(descriptor, path)
        self._window = (self._window + data)[-_WINDOW:]
        if self._look(descriptor) != size + len(data) or self._seen != _from_outside(written):
            self._forget()

    def _look(self, descriptor: int) -> int:
        """Remember what the log looks like from outside; its size."""
        status = os.fstat(descriptor)
        self._seen = _from_outside(status)
        return status.st_size

    def _learn(self, descriptor: int, *, mend: bool = False) -> int:
        """Know the log as it is, and its size."""
        status = os.fstat(descriptor)
        if self._seen == _from_outside(status):
            return status.st_size
        if mend:
            _cut_zeros(descriptor)
        if not self._learn_growth(descriptor, status):
            self._forget()
            data = read_all(descriptor)
            self.newline = "\r\n" if data.partition(b"\n")[0].endswith(b"\r") else "\n"
            self._enter(data)
        return self._look(descriptor)

    def _learn_growth(self, descriptor: int, status: os.stat_result) -> bool:
        """Whether the log is the one that was known, with more entries behind."""
        if self._seen is None or status.st_ino != self._seen[0] or status.st_size <= self._seen[1]:
            return False
        known = len(self._window)
        tail = read_all(descriptor, self._seen[1] - known)
        if tail[:known] != self._window or tail[known - 1 : known] != b"\n" or not tail[known:].startswith(_NEXT_ENTRY):
            return False
        self._enter(tail[known:])
        self._window = tail[-_WINDOW:]
        return True

    def _enter(self, data: bytes) -> None:
        self._window = data[-_WINDOW:]
        self.keys.update(delivery_keys(data.decode("utf-8", "replace")))
        entries = DailyLog.parse(self.day, data).entries
        users = (OWNER if entry.annotation.user is None else entry.annotation.user for entry in entries)
        self.occurrences.update(zip((chunk_hash(entry.text) for entry in entries), users, strict=True))


def _from_outside(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _take_back(descriptor: int, size: int, data: bytes) -> None:
    """After a write that failed half-way (a full disk), leave the log as it was, unless others have written too."""
    with contextlib.suppress(OSError):
        written = read_all(descriptor, size)
        if written and data.startswith(written):
            os.ftruncate(descriptor, size)


def _cut_zeros(descriptor: int) -> None:
    """Cut off the zeros that a crash leaves at the end of a file whose data never reached the disk."""
    size = os.fstat(descriptor).st_size
    while size:
        start = max(0, size - _WINDOW)
        piece = os.pread(descriptor, size - start, start)
        kept = len(piece.rstrip(b"\0"))
        if kept == len(piece):
            return
        size = start + kept
        os.ftruncate(descriptor, size)
