"""Cached list of record files in one agent's folder. Listed again only after another process wrote there.

Every writer leaves a stamp in the lock file before it publishes a record; a reader that finds another stamp, or another
time of the folder, lists it again. Several threads may use it. A record never changes its name, so the sums below
change only when a record is added or removed.
"""

from __future__ import annotations

import hashlib
import os
import time
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from threading import RLock

from runtime.memory.files import lock
from runtime.memory.files.folder import Folder
from runtime.memory.records.files.record import read_name
from runtime.memory.store_types import Part

_SETTLED = 100_000_000  # nanoseconds after which a change gets another timestamp: a folder's timestamps are coarse
_SURE = 1_000_000_000  # the same after our own write, which hides concurrent changes of others
_SUM = 1 << 128
STAMP = 16
"""Bytes of a stamp."""


class RecordNameIndex:
    """The names in one folder."""

    def __init__(self) -> None:
        self.lock = RLock()
        """Held while the collections are used."""
        self.ids: dict[str, str] = {}
        """The name of each record, by its id."""
        self.days: dict[date, list[str]] = {}
        """The names of each day, sorted by their time, to the second."""
        self.sizes: dict[str, int] = {}
        """The bytes of each record, by name."""
        self.damaged: dict[str, str] = {}
        """Reasons why records could not be read, by name."""
        self.digest = 0
        """A sum over all names, which identifies the records of an index."""
        self._damaged_at: dict[str, tuple[int, int]] = {}
        self._marks: dict[str, int] = {}
        self._revisions: dict[date, int] = defaultdict(int)
        self._state: tuple[int, int, bytes] | None = None
        self._unsure = False
        self.indexed: int | None = None
        """The `digest` of the records in `index.json`; None while unknown."""

    @property
    def behind(self) -> bool:
        """True if `index.json` was built from other records."""
        return self.indexed not in {None, self.digest}

    def revision(self, day: date) -> str | None:
        """Return a value that changes with the names and sizes of this day; None if it has no records."""
        names = self.days.get(day)
        return f"{len(names)}-{self._revisions[day]:032x}" if names else None

    def ends_with(self, day: date, names: Sequence[str]) -> bool:
        """True if these are the last records of their day."""
        with self.lock:
            return self.days.get(day, [])[-len(names) :] == sorted(names)

    def refresh(self, folder: Folder, *, again: bool = False) -> None:
        """List the folder if it changed; always if `again`."""
        with self.lock:
            seen, now = _folder_state(folder), time.time_ns()
            if seen != self._state or again or (self._unsure and now - seen[1] > _SURE):
                found = {name for name in folder.names() if read_name(name) is not None}
                for name in self.sizes.keys() - found:
                    self.remove(name)
                for name in found - self.sizes.keys():
                    status = folder.status(name)
                    if status is not None:
                        self.put(name, status.st_size)
                self._state = seen if now - seen[1] > _SETTLED else None
                self._unsure = False
            for name in list(self.damaged):
                self._recheck(folder, name)

    def report(self, folder: Folder, name: str, why: str) -> bool:
        """Note that a record could not be read; True if that is new. It is checked again when the file changes."""
        status = folder.status(name)
        with self.lock:
            if name not in self.sizes or status is None:
                return False
            new = self.damaged.get(name) != why
            self.damaged[name] = why
            self._damaged_at[name] = status.st_size, status.st_mtime_ns
            return new

    def _recheck(self, folder: Folder, name: str) -> None:
        """Accept a damaged record that was repaired in place; the revision of its day changes."""
        status = folder.status(name)
        if status is not None and (status.st_size, status.st_mtime_ns) != self._damaged_at[name]:
            del self.damaged[name]
            self.put(name, status.st_size, f"{status.st_mtime_ns}")

    def note_written(self, folder: Folder) -> None:
        """Note that all written records are known; called before the folder's lock is released. Another process may
        have written at the same moment, so the folder is listed once more a second later."""
        with self.lock:
            self._state, self._unsure = _folder_state(folder), True

    def clear(self) -> None:
        """Forget everything: the folder is gone."""
        with self.lock:
            for name in list(self.sizes):
                self.remove(name)
            self._state = None

    def put(self, name: str, size: int, seen: str = "") -> None:
        """Add a record of this name and size. `seen`: a value that distinguishes it from an earlier content."""
        known = read_name(name)
        if known is None:
            return
        with self.lock:
            if name not in self.sizes:
                self.ids[known.id] = name
                insort(self.days.setdefault(known.day, []), name)
                self.digest = (self.digest + _hash(name)) % _SUM
            self.sizes[name] = size
            new = _hash(f"{name}:{size}{seen}")
            self._revisions[known.day] = (self._revisions[known.day] - self._marks.get(name, 0) + new) % _SUM
            self._marks[name] = new

    def remove(self, name: str) -> None:
        """Remove a record whose file was deleted."""
        known = read_name(name)
        if known is None or name not in self.sizes:
            return
        del self.sizes[name]
        names = self.days[known.day]
        names.pop(bisect_left(names, name))
        if not names:
            del self.days[known.day]
        self.ids.pop(known.id, None)
        self.damaged.pop(name, None)
        self.digest = (self.digest - _hash(name)) % _SUM
        self._revisions[known.day] = (self._revisions[known.day] - self._marks.pop(name)) % _SUM


def part_of(agent_id: str, day: date, revision: str) -> Part:
    """Return the part of a day's records."""
    return Part(f"{agent_id}/{day.isoformat()}", agent_id, revision)


def _read_stamp(folder: Folder) -> bytes:
    """Return the stamp of the last writer."""
    with folder.open_file(lock.NAME) as descriptor:
        return b"" if descriptor is None else os.pread(descriptor, STAMP, 0)


def _folder_state(folder: Folder) -> tuple[int, int, bytes]:
    stamp = _read_stamp(folder)
    status = os.fstat(folder.descriptor)
    return status.st_ino, status.st_mtime_ns, stamp


def digest_of(names: frozenset[str] | set[str]) -> int:
    """Return the `digest` of a folder with these names."""
    return sum(map(_hash, names)) % _SUM


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big")
