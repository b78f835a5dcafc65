"""The file of an embedded index: how it is opened, made, checked and thrown away."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from runtime.search.index import schema
from runtime.search.index.faults import Damaged, judged, os_failed

_BUSY_SECONDS = 10
_LONGEST_LOG = 8 * 1024 * 1024
"""Bytes of the write-ahead log from which on it is copied into the file."""
_ASIDE = ("-wal", "-shm", "-journal")


class IndexFile:
    """An open file: a connection that writes, and one that reads beside it; without a path one for both, in memory.

    Damaged is raised for what is no index of this version, IndexFailed for what a person must mend.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.name = "in memory" if path is None else str(path)
        self._open: list[sqlite3.Connection] = []
        try:
            self.writing = self._connect()
            with self.transaction() as commit:
                if not self._check():
                    schema.make(self.writing)
                    commit()
            self.reading = self.writing if path is None else self._connect()
            self.seen = self._version()
        except sqlite3.Error as error:
            self.close()
            raise judged(error, self.name) from error
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Callable[[], object]]:
        """A transaction that writes. It yields what commits it; it is rolled back when that was not called."""
        self.writing.execute("BEGIN IMMEDIATE")
        try:
            yield partial(self.writing.execute, "COMMIT")
        finally:
            # A full disk has SQLite roll back by itself.
            with contextlib.suppress(sqlite3.Error):
                if self.writing.in_transaction:
                    self.writing.execute("ROLLBACK")

    def changed_by_others(self) -> bool:
        """Whether another process wrote since this was last asked; asked in a transaction."""
        before, self.seen = self.seen, self._version()
        return before != self.seen

    def tidy(self) -> None:
        """Copy a long log into the file, while others read."""
        if self.path is None:
            return
        # What cannot be copied stays in the log, and is copied another time.
        with contextlib.suppress(OSError, sqlite3.OperationalError):
            if Path(f"{self.path}-wal").stat().st_size > _LONGEST_LOG:
                self.writing.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def bytes(self) -> int:
        """On disk; in memory, if that is where it is."""
        if self.path is None:
            pages, size = (self.writing.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
            return int(pages * size)
        total = 0
        for suffix in ("", "-wal"):
            with contextlib.suppress(OSError):
                total += Path(f"{self.path}{suffix}").stat().st_size
        return total

    def close(self) -> None:
        """Let go of the connections."""
        for connection in self._open:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        self._open.clear()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            ":memory:" if self.path is None else self.path,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        self._open.append(connection)
        # In pages of 8 KiB there is room for five vectors of 384 numbers, in those of 4 KiB for two.
        # The log is copied by `tidy`, when nobody waits for it. What is deleted is overwritten.
        for pragma in (
            *(
                "page_size = 8192",
                "journal_mode = WAL",
                "synchronous = NORMAL",
                "wal_autocheckpoint = 0",
                "temp_store = MEMORY",
            ),
            *("cache_size = -16384", "cell_size_check = ON", "secure_delete = ON"),
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        return connection

    def _check(self) -> bool:
        """Whether the tables are there; False for an empty file."""
        found = {name for (name,) in self.writing.execute("SELECT name FROM sqlite_master WHERE sql IS NOT NULL")}
        version = self.writing.execute("PRAGMA user_version").fetchone()[0]
        if not found and not version:
            return False
        if version != schema.VERSION:
            raise Damaged(f"its schema is {version}, that of this program {schema.VERSION}")
        if not found.issuperset(schema.NAMES):
            raise Damaged("tables are missing")
        return True

    def _version(self) -> int:
        return int(self.writing.execute("PRAGMA data_version").fetchone()[0])


def open_file(path: Path | None) -> tuple[IndexFile, str | None]:
    """The open file, and why it had to be thrown away and made anew, if it had to be. Raises IndexFailed."""
    if path is None:
        return IndexFile(None), None
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise os_failed(error, str(path)) from error
    try:
        return IndexFile(path), None
    except Damaged as damage:
        throw_away(path)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return IndexFile(path), str(damage)


def throw_away(path: Path | None) -> None:
    """Delete a file that nobody has open, with what SQLite keeps beside it. Raises IndexFailed."""
    if path is None:
        return
    try:
        for suffix in ("", *_ASIDE):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    except OSError as error:
        raise os_failed(error, str(path)) from error
