"""A sealed SQLite file, opened so that the statements of a user can do no more than they may."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import apsw

from runtime.tables.sql_database import MOST_ROW_BYTES
from runtime.tables.sqlite.authorizer import Authorizer
from runtime.tables.sqlite.functions import add_functions
from runtime.tables.sqlite.messages import Failure
from runtime.tables.sqlite.statement import MOST_BYTES, MOST_PARAMETERS, Refusal

PAGE_BYTES: Final = 4096
_MOST_PAGES: Final = 0xFFFFFFFE
_SPARE_PAGES: Final = 64
_FREED_PAGES: Final = 2560
"""Pages that closing a file gives back to the disk, at most."""
_CACHE_KIB: Final = 1000
_LOG_BYTES: Final = 4 * 1024 * 1024
_GROWTH: Final = 64 * 1024
"""Bytes written to see whether a file can grow."""
_BUSY_MILLISECONDS: Final = 5000
"""Maximum wait of opening for a worker that is being killed, such as that of a daemon that was killed."""
_OPERATIONS: Final = 5000
"""Operations of SQLite between two looks at the clock."""

_LIMITS: Final = (
    (apsw.SQLITE_LIMIT_LENGTH, MOST_ROW_BYTES),
    (apsw.SQLITE_LIMIT_SQL_LENGTH, MOST_BYTES),
    (apsw.SQLITE_LIMIT_COLUMN, 200),
    (apsw.SQLITE_LIMIT_EXPR_DEPTH, 50),
    (apsw.SQLITE_LIMIT_PARSER_DEPTH, 250),
    (apsw.SQLITE_LIMIT_COMPOUND_SELECT, 10),
    (apsw.SQLITE_LIMIT_VDBE_OP, 50_000),
    (apsw.SQLITE_LIMIT_FUNCTION_ARG, 64),
    (apsw.SQLITE_LIMIT_ATTACHED, 0),
    (apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 500),
    (apsw.SQLITE_LIMIT_VARIABLE_NUMBER, MOST_PARAMETERS),
    (apsw.SQLITE_LIMIT_TRIGGER_DEPTH, 20),
    (apsw.SQLITE_LIMIT_WORKER_THREADS, 0),
)
"""https://sqlite.org/limits.html. The depth of triggers is that of foreign keys that delete or update rows."""
_CONFIGURATION: Final = (
    (apsw.SQLITE_DBCONFIG_DEFENSIVE, 1),
    (apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
    (apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0),
    (apsw.SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0),
    (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0),
    (apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0),
    (apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1),
    (apsw.SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, 0),
    (apsw.SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE, 0),
    (apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0),
    # "text" in double quotes is a column, never a text: a misspelt column is an error.
    (apsw.SQLITE_DBCONFIG_DQS_DML, 0),
    (apsw.SQLITE_DBCONFIG_DQS_DDL, 0),
)


class CommitUnknown(Exception):  # noqa: N818
    """The disk failed in a commit: only who opens the file anew sees whether it has the change. The process has to
    end."""


class SealedConnection:
    """The file of one user. `raw`: the connection. `allowed`: judges the statements of the user, and lets all others
    pass. `deadline`: `time.monotonic` at which a statement is given up."""

    def __init__(self, path: Path, key: bytes, *, known: bool) -> None:
        """Open the file; make it unless it is `known` to exist. On return it is on disk. Raises Refusal if the file is
        not what it should be, and apsw.Error."""
        _check(path, known=known)
        self.allowed = Authorizer()
        self.deadline = float("inf")
        self._path = path
        self.raw = apsw.Connection(str(path), statementcachesize=0)
        self.raw.set_busy_timeout(_BUSY_MILLISECONDS)
        # Without this, SQLite expects others to use the file, and shares memory with them through another file.
        self.raw.execute("PRAGMA locking_mode=EXCLUSIVE")
        self.raw.execute(_key(key))
        for pragma in ("auto_vacuum=INCREMENTAL", "temp_store=MEMORY", f"cache_size=-{_CACHE_KIB}"):
            self.raw.execute(f"PRAGMA {pragma}")
        if self.raw.execute("PRAGMA journal_mode=WAL").fetchall() != [("wal",)]:
            raise Refusal(Failure("file", "does not take a log of changes", "restore it from a backup"))
        self.raw.execute("PRAGMA synchronous=FULL")
        self.raw.execute(f"PRAGMA journal_size_limit={_LOG_BYTES}")
        for option, value in _CONFIGURATION:
            self.raw.config(option, value)
        self.raw.drop_modules(None)
        add_functions(self.raw, self._check_time)
        for limit, value in _LIMITS:
            self.raw.limit(limit, value)
        self.raw.authorizer = self.allowed
        self.raw.set_progress_handler(lambda: time.monotonic() > self.deadline, _OPERATIONS)
        _sync(path.parent)

    def _check_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise apsw.InterruptError

    def run_trusted(self, text: str, values: tuple[object, ...] = ()) -> list[Any]:
        """Run a statement of this program, and return its rows."""
        before, self.allowed.trusted = self.allowed.trusted, True
        try:
            return self.raw.execute(text, values, can_cache=False).fetchall()
        finally:
            self.allowed.trusted = before

    @contextmanager
    def user_statements(self) -> Iterator[None]:
        """Judge statements meanwhile: the user's."""
        self.allowed.trusted = False
        try:
            yield
        finally:
            self.allowed.trusted = True

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction. After an error nothing has changed. Raises CommitUnknown."""
        self.run_trusted("BEGIN IMMEDIATE")
        try:
            yield
            # A commit is never given up in the middle.
            self.deadline = float("inf")
            try:
                self.run_trusted("COMMIT")
            except apsw.IOError as error:
                raise CommitUnknown from error
        except BaseException:
            # Some errors have ended the transaction already.
            self.deadline = float("inf")
            if self.raw.in_transaction:
                self.run_trusted("ROLLBACK")
            raise

    def limit(self, size: int) -> None:
        """Let the file grow up to so many bytes, or what it has if that is more; and a little, because a change may
        take pages before it frees others."""
        ((pages,),) = self.run_trusted("PRAGMA page_count")
        self.run_trusted(f"PRAGMA max_page_count={min(max(size // PAGE_BYTES, pages) + _SPARE_PAGES, _MOST_PAGES)}")

    def used_bytes(self) -> int:
        """Return the bytes that are in use, with what the open transaction changed."""
        ((pages,),) = self.run_trusted("PRAGMA page_count")
        ((free,),) = self.run_trusted("PRAGMA freelist_count")
        return int(pages - free) * PAGE_BYTES

    def disk_is_full(self) -> bool:
        """True if the disk, not the limit of the user, has stopped a change: SQLite says the same of both."""
        try:
            with tempfile.TemporaryFile(dir=self._path.parent) as file:
                file.write(bytes(_GROWTH))
                os.fsync(file.fileno())
        except OSError:
            return True
        return False

    def copy(self, path: Path, key: bytes) -> None:
        """Copy the file to a new one that is sealed with this key, and is on disk on return."""
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            target = apsw.Connection(str(path), statementcachesize=0)
            try:
                target.execute(_key(key))
                with target.backup("main", self.raw, "main") as backup:
                    while not backup.done:
                        backup.step(1000)
            finally:
                target.close()
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _sync(path.parent)

    def close(self) -> None:
        """Close the file. What was deleted is given back to the disk, and the log of changes is merged."""
        self.deadline = float("inf")
        with suppress(apsw.Error):
            self.run_trusted(f"PRAGMA incremental_vacuum({_FREED_PAGES})")
        self.raw.close()


def _check(path: Path, *, known: bool) -> None:
    """Raise Refusal if the file is not one that this user of the system has made."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        if known:
            raise Refusal(Failure("file", "is missing", "restore it from a backup")) from None
        # A log without its file belongs to nothing.
        path.with_name(path.name + "-wal").unlink(missing_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        return
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise Refusal(Failure("file", "is a link or something else than a file", "restore it from a backup"))
    if found.st_uid != os.geteuid():
        raise Refusal(
            Failure("file", f"belongs to another user of the system (uid {found.st_uid})", "change its owner")
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o600)
    if known and found.st_size == 0:
        raise Refusal(Failure("file", "is empty", "restore it from a backup"))


def _key(key: bytes) -> str:
    # `raw:` needs no derivation from a passphrase, which would take a long time at each opening.
    return f"PRAGMA key='raw:{key.hex()}'"


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
