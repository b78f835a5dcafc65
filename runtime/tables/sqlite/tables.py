"""The tables in a file: their names, columns and rows, and the rows of a result."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from runtime.tables.sql_database import MOST_BYTES, MOST_ROWS, ColumnInfo, TableInfo
from runtime.tables.sqlite.authorizer import RESERVED_NAMES, is_reserved
from runtime.tables.sqlite.connection import SealedConnection
from runtime.tables.sqlite.messages import Blob, Failure, Page, ReadPage, Scalar
from runtime.tables.sqlite.statement import Refusal, refusal
from runtime.tables.statement import quoted

_OF_SQLITE: Final = "sqlite_"
_STORED: Final = str | int | float | bytes | None
"""Values of a key."""
_json: Final = msgspec.json.Encoder()


class ResultRows:
    """The first rows of a result. `truncated`: there were more."""

    def __init__(self, limit: int = MOST_ROWS, *, blobs: bool = False) -> None:
        """`blobs`: keep them as they are, instead of their base64."""
        self.rows: list[list[Scalar]] = []
        self.truncated = False
        self._blobs = blobs
        self._limit = min(limit, MOST_ROWS)
        self._bytes = 2

    def add(self, row: Sequence[Any]) -> bool:
        """Add a row; False if it does not fit any more. Raises Refusal if it does not fit alone."""
        if self.truncated or len(self.rows) == self._limit:
            self.truncated = True
            return False
        self._bytes += len(_json.encode(values := [json_value(each) for each in row])) + 1
        if self._blobs:
            values = [Blob(each) if isinstance(each, bytes) else value for each, value in zip(row, values, strict=True)]
        if self._bytes > MOST_BYTES:
            if not self.rows:
                raise refusal(f"one row has more than {MOST_BYTES:,} bytes", "select fewer columns")
            self.truncated = True
            return False
        self.rows.append(values)
        return True


def json_value(value: Any) -> Scalar:
    """Return a value of SQLite as JSON has it: blobs in base64, and infinities as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and value - value != 0:
        return "Infinity" if value > 0 else "-Infinity"
    assert value is None or isinstance(value, str | int | float)
    return value


def names(file: SealedConnection) -> list[str]:
    """Return the names of all tables."""
    found = file.run_trusted("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    return [name for (name,) in found if not name.startswith(_OF_SQLITE)]


def names_of_kind(file: SealedConnection, what: str) -> list[str]:
    """Return the names of all tables, or of all columns."""
    found = names(file)
    return found if what == "table" else sorted({row[1] for table in found for row in _columns(file, table)})


def count(file: SealedConnection, table: str) -> int:
    """Return the number of rows of a table."""
    ((found,),) = file.run_trusted(f"SELECT count(*) FROM {quoted(table)}")  # noqa: S608 - a quoted name
    return int(found)


def check_names(file: SealedConnection) -> None:
    """Raise Refusal if there is something else than tables and indexes, or a reserved name: the authorizer does not see
    the new name of ALTER TABLE … RENAME."""
    for kind, name, root, sql in file.run_trusted("SELECT type, name, rootpage, sql FROM sqlite_schema"):
        if kind not in ("table", "index") or not root:
            raise refusal(f"a {kind} is not allowed", "there are only tables and indexes")
        made_by_sqlite = name == "sqlite_sequence" or (kind == "index" and sql is None)
        if not made_by_sqlite and is_reserved(name):
            raise refusal(f"the name {name} is reserved", RESERVED_NAMES)


def describe(file: SealedConnection) -> list[TableInfo]:
    """Return all tables by name."""
    found = []
    for name in names(file):
        keyed = _is_keyed(file, name)
        columns = [
            # The number of a row is never null.
            ColumnInfo(column, kind, not (not_null or (key and (keyed or kind.upper() == "INTEGER"))))
            for _, column, kind, not_null, _, key, _ in _columns(file, name)
        ]
        found.append(TableInfo(name, columns, count(file, name)))
    return found


def page(file: SealedConnection, asked: ReadPage) -> Page:
    """Return rows of a table, in the order of its key. Raises Refusal."""
    found = names(file)
    same = [name for name in found if name.lower() == asked.table.lower()]
    table = asked.table if asked.table in found else same[0] if same else None
    if table is None:
        raise Refusal(Failure("table", asked.table, known=found))
    keys = _keys(file, table)
    listed = ", ".join(keys)
    after = _read_place(asked.after, len(keys))
    where = f" WHERE ({listed}) > ({', '.join('?' * len(keys))})" if after else ""
    columns: list[str] = []

    def begin(cursor: Any, *_: object) -> bool:
        columns.extend(each[0] for each in cursor.description)
        return True

    cursor = file.raw.cursor()
    cursor.exec_trace = begin
    rows = ResultRows(asked.limit, blobs=True)
    last: tuple[Any, ...] = ()
    query = f"SELECT {listed}, * FROM {quoted(table)}{where} ORDER BY {listed}"  # noqa: S608 - quoted names
    for row in cursor.execute(query, after):
        if not rows.add(row[len(keys) :]):
            break
        last = row[: len(keys)]
    cursor.close(True)
    return Page(columns[len(keys) :], rows.rows, _written_place(last) if rows.truncated else None)


def _columns(file: SealedConnection, table: str) -> list[Any]:
    """Return number, name, type, not null, default, place in the key, and kind of each column."""
    return file.run_trusted(f"PRAGMA table_xinfo({quoted(table)})")


def _keys(file: SealedConnection, table: str) -> list[str]:
    """Return what orders the rows of a table: the columns of its key, or the number of a row."""
    columns = _columns(file, table)
    if _is_keyed(file, table):
        return [quoted(each[1]) for each in sorted(columns, key=lambda each: int(each[5])) if each[5]]
    taken = {each[1].lower() for each in columns}
    free = next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)
    if free is None:
        raise refusal(f"{table} has columns called rowid, _rowid_ and oid", "rename one of them")
    return [free]


def _is_keyed(file: SealedConnection, table: str) -> bool:
    """True for a table WITHOUT ROWID."""
    return any(row[4] for row in file.run_trusted(f"PRAGMA table_list({quoted(table)})") if row[0] == "main")


def _read_place(after: str | None, keys: int) -> list[Any]:
    if after is None:
        return []
    try:
        place = msgspec.msgpack.decode(base64.urlsafe_b64decode(after))
    except (ValueError, msgspec.DecodeError):
        place = None
    if not isinstance(place, list) or len(place) != keys or not all(isinstance(each, _STORED) for each in place):
        raise refusal("`after` is not from a page of this table", "begin without it")
    return place


def _written_place(last: tuple[Any, ...]) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(last)).decode()
