"""The file of one user, and the statements that run on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import apsw
import msgspec

from runtime.tables.sql_database import MOST_SECONDS
from runtime.tables.sqlite import tables
from runtime.tables.sqlite.connection import SealedConnection
from runtime.tables.sqlite.failures import failure_of
from runtime.tables.sqlite.messages import Failure, Limits, Page, ReadPage, Run, Size, StatementRows
from runtime.tables.sqlite.messages import Tables as TablesAnswer
from runtime.tables.sqlite.statement import Refusal, Statement, read, refusal
from runtime.tables.sqlite.tables import ResultRows

_DESCRIBE_SECONDS: Final = 50.0

Values: TypeAlias = list[object] | dict[str, object]


class _TooManyRows(Exception):  # noqa: N818 - it becomes a refusal when the transaction has ended
    """A table would have more rows than it may."""

    def __init__(self, table: str) -> None:
        super().__init__()
        self.table = table


class UserFile:
    """The tables of one user. Every method raises `Refusal`, or an error of apsw that `failures` describes; then
    nothing has changed. `size`: what is in the file."""

    def __init__(self, path: Path, key: bytes, *, known: bool) -> None:
        """Open the file; make it if it is not `known` to exist. On return it is on disk."""
        self._file = SealedConnection(path, key, known=known)
        self._limit = 0
        self._rows: dict[str, int] = {}
        """Of each table that rows were added to: at least the number of its rows."""
        self._load_names()
        self.size = self._measure()

    def run(self, asked: Run, committing: Callable[[Size, bool], None]) -> StatementRows:
        """Run a statement with each of the parameters, in one transaction. `committing` is called with the size before
        a change may be on disk, and whether it is another one; what it raises ends the transaction."""
        statement = read(asked.statement)
        if asked.limits.bytes != self._limit:
            self._file.limit(asked.limits.bytes)
            self._limit = asked.limits.bytes
        self._begin(asked.seconds)
        if statement.reads or asked.read_only:
            ran = self._run_all(statement, asked, only_reads=True)
        else:
            ran = self._change(statement, asked, committing)
        return ran if asked.result else StatementRows([], [], ran.affected_rows, False)

    def describe(self) -> TablesAnswer:
        """Return all tables by name."""
        self._begin(_DESCRIBE_SECONDS)
        return TablesAnswer(tables.describe(self._file))

    def page(self, asked: ReadPage) -> Page:
        """Return rows of a table, in the order of its key."""
        self._begin(MOST_SECONDS)
        return tables.page(self._file, asked)

    def copy(self, path: Path, key: bytes) -> None:
        """Copy the file to a new one that is sealed with this key, and is on disk on return."""
        self._file.copy(path, key)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _begin(self, seconds: float) -> None:
        self._file.deadline = time.monotonic() + seconds

    def _change(self, statement: Statement, asked: Run, committing: Callable[[Size, bool], None]) -> StatementRows:
        try:
            with self._file.transaction():
                ran = self._run_all(statement, asked)
                if statement.defines:
                    self._rows.clear()
                    self._load_names()
                    tables.check_names(self._file)
                size = self._measure()
                self._check_size(size, asked.limits)
                committing(size, size != self.size)
        except BaseException as error:
            self._rows.clear()
            with suppress(apsw.Error):
                self._load_names()
            if isinstance(error, _TooManyRows):
                raise Refusal(Failure("rows", error.table, count=tables.count(self._file, error.table))) from None
            raise
        self.size = size
        return ran

    def _run_all(self, statement: Statement, asked: Run, *, only_reads: bool = False) -> StatementRows:
        """Run a statement with each of the values; the result has the rows of the first. `only_reads`: refuse one that
        may change something."""
        first = StatementRows([], [], 0, False)
        affected = 0
        for number, each in enumerate(asked.parameters):
            try:
                ran = self._run(statement, statement.bound(each), asked.limits, only_reads=only_reads)
            except Refusal as refusal:
                refusal.failure = msgspec.structs.replace(refusal.failure, row=number)
                raise
            affected += ran.affected_rows
            if number == 0:
                first = ran
        return StatementRows(first.columns, first.rows, affected, first.truncated)

    def _run(self, statement: Statement, values: Values, limits: Limits, *, only_reads: bool) -> StatementRows:
        """Run a statement once."""
        allowed = self._file.allowed
        columns: list[list[str]] = []
        before: dict[str, int] = {}

        def begin(cursor: apsw.Cursor, *_: object) -> bool:
            """Look at the compiled statement before it runs."""
            # A comment after the statement is compiled to nothing.
            if cursor.has_vdbe:
                if columns:
                    raise refusal("only one statement may be given", "call once for each")
                if cursor.is_explain:
                    raise refusal("EXPLAIN is not allowed")
                if only_reads and not cursor.is_readonly:
                    raise Refusal(Failure("changes", "the statement may change something"))
                columns.append(_columns(cursor))
                before.update(self._row_counts(limits))
            return True

        cursor = self._file.raw.cursor()
        cursor.exec_trace = begin
        allowed.begin(statement.verb)
        found = ResultRows()
        try:
            with self._file.user_statements():
                for row in cursor.execute(statement.text, values, can_cache=False):
                    if not found.add(row) and only_reads:
                        break
        except (apsw.Error, UnicodeDecodeError, ValueError, OverflowError, TypeError, MemoryError) as error:
            raise Refusal(self._failure(error)) from None
        finally:
            cursor.close(True)
        if not columns:
            raise refusal("the statement is empty")
        affected = self._file.raw.changes() if allowed.changes else 0
        self._check_rows(before, affected, limits)
        return StatementRows(columns[0], found.rows, affected, found.truncated)

    def _failure(self, error: Exception) -> Failure:
        if isinstance(error, apsw.FullError) and not self._file.disk_is_full():
            return Failure("bytes", "")
        return failure_of(error, self._file.allowed.reason, lambda what: tables.names_of_kind(self._file, what))

    # Limits

    def _row_counts(self, limits: Limits) -> dict[str, int]:
        """Return of each table that the statement adds rows to at least how many it has; exactly, if that may be as
        many as it may have. Counting all rows each time would make each INSERT slower than the one before."""
        if limits.rows is None:
            return {}
        inserts = self._file.allowed.inserts
        for table in inserts:
            if self._rows.get(table, limits.rows) >= limits.rows:
                self._rows[table] = tables.count(self._file, table)
        return {table: self._rows[table] for table in inserts}

    def _check_rows(self, before: dict[str, int], added: int, limits: Limits) -> None:
        """Raise _TooManyRows if a table has more rows than it may, and more than before."""
        for table, count in before.items():
            self._rows[table] = count + added
            if limits.rows is not None and self._rows[table] > limits.rows:
                self._rows[table] = tables.count(self._file, table)
                if self._rows[table] > max(limits.rows, count):
                    raise _TooManyRows(table)
        if limits.rows is None:
            self._rows.clear()

    def _check_size(self, size: Size, limits: Limits) -> None:
        """Raise Refusal if there is more than there may be, and more than before."""
        if limits.tables is not None and size.tables > max(limits.tables, self.size.tables):
            raise Refusal(Failure("tables", "", count=self.size.tables))
        if size.bytes > max(limits.bytes, self.size.bytes):
            raise Refusal(Failure("bytes", ""))

    def _measure(self) -> Size:
        return Size(len(self._file.allowed.tables), self._file.used_bytes())

    def _load_names(self) -> None:
        """Note which tables there are."""
        self._file.allowed.set_tables(tables.names(self._file))


def _columns(cursor: apsw.Cursor) -> list[str]:
    """Return the names of the result's columns. Raises Refusal if two are the same."""
    columns = [each[0] for each in cursor.description or ()]
    twice = next((name for at, name in enumerate(columns) if name in columns[:at]), None)
    if twice is not None:
        raise refusal(f"two columns of the result are called {twice!r}", "use AS: SELECT a.id AS a_id, b.id AS b_id")
    return columns
