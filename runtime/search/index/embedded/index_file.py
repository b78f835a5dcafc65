"""The file of an embedded index: opens, creates, checks and deletes it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from runtime.search.index.embedded import schema
from runtime.search.index.embedded.errors import DamagedIndex, file_error, index_error
from runtime.search.index.embedded.sqlcipher import ERRORS, change_key, connect

_BUSY_SECONDS = 10
_LONGEST_LOG = 8 * 1024 * 1024
"""Size in bytes at which the write-ahead log is copied into the file."""
_ASIDE = ("-wal", "-shm", "-journal")


class IndexFile:
    """An open file with one connection that writes and one that reads beside it; without a path one for both, in
    memory.

    `key`: seals the file, 32 bytes; None: not sealed. Raises DamagedIndex for a file that is not an index of this
    version or is sealed with another key, IndexFailed for a problem that a person must fix.
    """

    def __init__(self, path: Path | None, key: bytes | None = None) -> None:
        self.path = path
        self.name = "in memory" if path is None else str(path)
        self._key = key
        # The log of a killed process may contain data that has been deleted since.
        self._old_log = path is not None and _size(Path(f"{path}-wal")) > 0
        self._open: list[sqlite3.Connection] = []
        try:
            self.writing = self._connect()
            with self.transaction() as commit:
                if self._prepare():
                    commit()
            self.reading = self.writing if path is None else self._connect()
            self.seen = self._version()
        except ERRORS as error:
            self.close()
            if key is not None and getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
                raise DamagedIndex("it is sealed with another key, or damaged") from error
            raise index_error(error, self.name) from error
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Callable[[], object]]:
        """Begin a transaction that writes. It yields the function that commits; without a call it is rolled back."""
        self.writing.execute("BEGIN IMMEDIATE")
        try:
            yield partial(self.writing.execute, "COMMIT")
        finally:
            # On a full disk SQLite rolls back by itself.
            with contextlib.suppress(*ERRORS):
                if self.writing.in_transaction:
                    self.writing.execute("ROLLBACK")

    def changed_by_others(self) -> bool:
        """True if another process has written since the last call. Requires a transaction."""
        before, self.seen = self.seen, self._version()
        return before != self.seen

    def tidy(self) -> None:
        """Copy a long log into the file, while others read."""
        if self.path is None:
            return
        # Pages that cannot be copied stay in the log, and are copied later.
        with contextlib.suppress(*ERRORS):
            if _size(Path(f"{self.path}-wal")) > _LONGEST_LOG:
                self.writing.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def needs_scrub(self) -> bool:
        """True if deleted content may still be in the file or its log."""
        if self.path is None:
            return False
        return self._old_log or bool(self.writing.execute(schema.UNSCRUBBED).fetchone()[0])

    def scrub(self) -> bool:
        """Overwrite remains of deleted and changed entries; False if the log is being read.

        FTS5 does not delete: the words of an entry stay in its segments until those are merged. SQLite overwrites what
        it deletes (`secure_delete`), but not what it copied between pages before (`balance_nonroot` in its btree.c): an
        unsealed file is therefore rewritten completely.
        """
        schema.merge_words(self.writing)
        if self._key is None:
            self.writing.execute("VACUUM")
        schema.mark_scrubbed(self.writing)
        self._old_log = True
        busy, _, _ = self.writing.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._old_log = bool(busy)
        return not busy

    def reseal(self, key: bytes) -> None:
        """Seal the file with another key, in one transaction. There must be no other user of the file."""
        self.reading.close()
        self._open.remove(self.reading)
        change_key(self.writing, key)
        self._key = key
        self.reading = self._connect()

    def bytes(self) -> int:
        """Return its size on disk, or in memory."""
        if self.path is None:
            pages, size = (self.writing.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
            return int(pages * size)
        return sum(_size(Path(f"{self.path}{suffix}")) for suffix in ("", "-wal"))

    def close(self) -> None:
        """Close the connections."""
        for connection in self._open:
            with contextlib.suppress(*ERRORS):
                connection.close()
        self._open.clear()

    def _connect(self) -> sqlite3.Connection:
        connection = connect(self.path, self._key, _BUSY_SECONDS)
        self._open.append(connection)
        # `tidy` copies the log after the write has returned. Deleted content is overwritten.
        for pragma in (
            *("journal_mode = WAL", "synchronous = NORMAL", "wal_autocheckpoint = 0", "temp_store = MEMORY"),
            *("cache_size = -16384", "cell_size_check = ON", "secure_delete = ON"),
            f"journal_size_limit = {_LONGEST_LOG}",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        return connection

    def _prepare(self) -> bool:
        """Create the tables in an empty file; True if it did."""
        found = {name for (name,) in self.writing.execute("SELECT name FROM sqlite_master WHERE sql IS NOT NULL")}
        version = self.writing.execute("PRAGMA user_version").fetchone()[0]
        if not found and not version:
            schema.make(self.writing)
            return True
        if version != schema.VERSION:
            raise DamagedIndex(f"its schema version is {version}, not {schema.VERSION}")
        if not found.issuperset(schema.NAMES):
            raise DamagedIndex("tables are missing")
        return False

    def _version(self) -> int:
        return int(self.writing.execute("PRAGMA data_version").fetchone()[0])


def open_file(path: Path | None, key: bytes | None = None) -> tuple[IndexFile, str | None]:
    """Return the open file, and why it had to be replaced by an empty one, if so. Raises IndexFailed."""
    if path is None:
        return IndexFile(None), None
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise file_error(error, str(path)) from error
    try:
        return IndexFile(path, key), None
    except DamagedIndex as damage:
        delete_files(path)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return IndexFile(path, key), str(damage)


def reseal(path: Path, keys: Sequence[bytes]) -> bool:
    """Seal a closed file with the first of `keys` if it is sealed with one of the others; True if it was. A file that
    none of them opens is left as it is."""
    if not _size(path) and not _size(Path(f"{path}-wal")):
        return False
    for place, key in enumerate(keys):
        connection = connect(path, key, _BUSY_SECONDS)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
            if place:
                change_key(connection, keys[0])
        except ERRORS:
            continue
        finally:
            connection.close()
        return place > 0
    return False


def _size(path: Path) -> int:
    """Return the size in bytes; 0 if the file cannot be inspected."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def delete_files(path: Path | None) -> None:
    """Delete a closed file, with the files that SQLite keeps beside it. Raises IndexFailed."""
    if path is None:
        return
    try:
        for suffix in ("", *_ASIDE):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    except OSError as error:
        raise file_error(error, str(path)) from error
