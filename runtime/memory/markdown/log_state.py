"""The known content of one day's log: the idempotency keys in it, and how often each text occurs.

The state is valid while inode, size and time of change are the same. Of a log that another process has only appended
to, only the new part is read; after any other change, all of it.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import NamedTuple

from runtime.memory.files.folder import Folder, file_errors, read_all, revision, sync, write_all
from runtime.memory.item import Twins, chunk_hash
from runtime.memory.markdown.text.annotation import idempotency_keys
from runtime.memory.markdown.text.daily_log import DailyLog, closing_of, header

_WINDOW = 4096
_NEXT_ENTRY = (b"\n## ", b"\r\n## ")


class Step(NamedTuple):
    """The revision of a log before an append (None: it did not exist), and after."""

    before: str | None
    after: str


class LogState:
    """The state of one log. Requires the folder's lock."""

    def __init__(self, day: date) -> None:
        self.day = day
        self.name = f"{day.isoformat()}.md"
        self._forget()

    def _forget(self) -> None:
        self.keys: set[str] = set()
        """The idempotency keys of complete entries in the log."""
        self.occurrences: Counter[Twins] = Counter()
        """The number of equal entries."""
        self.newline = "\n"
        self._signature: tuple[int, int, int] | None = None
        self._window = b""

    def refresh(self, logs: Folder) -> None:
        """Read what has changed since the last time; the log may be absent."""
        with logs.open_file(self.name) as descriptor:
            if descriptor is None:
                self._forget()
            else:
                with file_errors(logs.path / self.name, "read"):
                    self._learn(descriptor)

    def append(self, logs: Folder, entries: Callable[[], bytes]) -> Step | None:
        """Append the bytes that `entries` makes from the current state; they are on disk on return.

        Returns the revisions before and after, or None if nothing was added or if something else may have changed the
        log. `entries` updates `keys` and `occurrences`. If an editor, which takes no lock, replaces the file at the
        same time, the append is repeated on the new file.
        """
        path = logs.path / self.name
        while True:
            with logs.open_file(self.name, os.O_RDWR | os.O_CREAT | os.O_APPEND) as descriptor:
                assert descriptor is not None
                with file_errors(path, "read"):
                    size = self._learn(descriptor, repair=True)
                data = entries()
                if not data:
                    return None
                closing = closing_of(self._window, self.newline) if size else header(self.day)
                learned, known = self._signature, os.fstat(descriptor)
                self._write(descriptor, size, closing + data, path)
                if not size:
                    sync(logs.descriptor, logs.path)
                found = logs.status(self.name)
                if found is not None and os.path.samestat(found, os.fstat(descriptor)):
                    alone = learned == _signature(known) and self._signature == _signature(found)
                    added_only = not size or not closing
                    return Step(revision(known) if size else None, revision(found)) if alone and added_only else None

    def _write(self, descriptor: int, size: int, data: bytes, path: Path) -> None:
        try:
            with file_errors(path, "write"):
                write_all(descriptor, data)
                written = os.fstat(descriptor)
        except BaseException:
            self._forget()
            _undo_write(descriptor, size, data)
            raise
        sync(descriptor, path)
        self._window = (self._window + data)[-_WINDOW:]
        if self._look(descriptor) != size + len(data) or self._signature != _signature(written):
            self._forget()

    def _look(self, descriptor: int) -> int:
        """Note the log's status; return its size."""
        status = os.fstat(descriptor)
        self._signature = _signature(status)
        return status.st_size

    def _learn(self, descriptor: int, *, repair: bool = False) -> int:
        """Read what has changed since the last time; return the log's size."""
        status = os.fstat(descriptor)
        if self._signature == _signature(status):
            return status.st_size
        if repair:
            _cut_zeros(descriptor)
        if not self._learn_growth(descriptor, status):
            self._forget()
            data = read_all(descriptor)
            self.newline = "\r\n" if data.partition(b"\n")[0].endswith(b"\r") else "\n"
            self._enter(data)
        return self._look(descriptor)

    def _learn_growth(self, descriptor: int, status: os.stat_result) -> bool:
        """True if the log is the known one with more entries at its end."""
        if self._signature is None or status.st_ino != self._signature[0] or status.st_size <= self._signature[1]:
            return False
        known = len(self._window)
        tail = read_all(descriptor, self._signature[1] - known)
        if tail[:known] != self._window or tail[known - 1 : known] != b"\n" or not tail[known:].startswith(_NEXT_ENTRY):
            return False
        self._enter(tail[known:])
        self._window = tail[-_WINDOW:]
        return True

    def _enter(self, data: bytes) -> None:
        self._window = data[-_WINDOW:]
        self.keys.update(idempotency_keys(data.decode("utf-8", "replace")))
        entries = DailyLog.parse(self.day, data).entries
        self.occurrences.update(entry.annotation.twins(chunk_hash(entry.text)) for entry in entries)


def _signature(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _undo_write(descriptor: int, size: int, data: bytes) -> None:
    """Undo a write that failed half-way (a full disk), unless another process has written too."""
    with contextlib.suppress(OSError):
        written = read_all(descriptor, size)
        if written and data.startswith(written):
            os.ftruncate(descriptor, size)


def _cut_zeros(descriptor: int) -> None:
    """Cut off zeros that a crash leaves at the end of a file whose data never reached the disk."""
    size = os.fstat(descriptor).st_size
    while size:
        start = max(0, size - _WINDOW)
        piece = os.pread(descriptor, size - start, start)
        kept = len(piece.rstrip(b"\0"))
        if kept == len(piece):
            return
        size = start + kept
        os.ftruncate(descriptor, size)
