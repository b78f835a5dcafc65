"""The allow-list that SQLite asks while it compiles a statement."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

import apsw

_FUNCTIONS: Final = frozenset(
    """
    -> ->> abs acos acosh asin asinh atan atan2 atanh avg ceil ceiling changes char coalesce concat concat_ws
    cos cosh count cume_dist current_date current_time current_timestamp date datetime decode degrees dense_rank
    encode exp first_value floor format glob group_concat hex if ifnull iif instr json json_array
    json_array_insert json_array_length json_error_position json_extract json_group_array json_group_object
    json_insert json_object json_patch json_pretty json_quote json_remove json_replace json_set json_type
    json_valid jsonb jsonb_array jsonb_extract jsonb_group_array jsonb_group_object jsonb_insert jsonb_object
    jsonb_patch jsonb_remove jsonb_replace jsonb_set julianday lag last_insert_rowid last_value lead length like
    likelihood likely ln log log10 log2 lower ltrim max median min mod nth_value ntile nullif octet_length
    percent_rank percentile percentile_cont percentile_disc pi pow power printf quote radians random randomblob
    rank replace round row_number rtrim sign sin sinh sqlite_version sqrt strftime string_agg substr substring
    sum tan tanh time timediff total trim trunc typeof unhex unicode unistr unixepoch unlikely upper zeroblob
    """.split()  # noqa: SIM905 - one word a line would be long
)
_ALTERS_WITH: Final = frozenset(
    """
    glob length like printf sqlite_add_constraint sqlite_drop_column sqlite_drop_constraint sqlite_fail
    sqlite_find_constraint sqlite_rename_column sqlite_rename_quotefix sqlite_rename_table sqlite_rename_test
    substr
    """.split()  # noqa: SIM905 - one word a line would be long
)
"""Functions that SQLite itself calls for ALTER TABLE; no statement can name those that begin with `sqlite_`."""
_SCHEMA: Final = frozenset({"sqlite_master", "sqlite_schema"})
_TEMPORARY_SCHEMA: Final = frozenset({"sqlite_temp_master", "sqlite_temp_schema"})
_VIRTUAL: Final = frozenset({"json_each", "json_tree", "jsonb_each", "jsonb_tree", "carray", "dbstat", "bytecode"})
"""Tables that exist without being created; others of this kind are removed with their modules or begin with
`RESERVED`."""
RESERVED: Final = ("sqlite_", "pragma_", "fts", "rtree", "_")
"""Beginnings of names that users cannot give to tables and indexes."""
RESERVED_NAMES: Final = "names cannot begin with sqlite_, pragma_, fts, rtree or _"
_LOWER: Final = {each: each + 32 for each in range(ord("A"), ord("Z") + 1)}


def is_reserved(name: str) -> bool:
    """True if a user cannot give this name to a table or an index."""
    return _folded(name).startswith(RESERVED) or _folded(name) in _VIRTUAL


def _folded(name: str) -> str:
    """Return a name as SQLite compares names: only letters of ASCII have no case."""
    return name.translate(_LOWER)


class Authorizer:
    """Judges what one statement does, and notes it.

    `trusted`: the worker's own statements run, which may do everything. `tables`: the names of the user's tables,
    without case. `inserts`: the tables that the statement adds rows to. `changes`: it changes rows. `reason`: of a
    refusal.
    """

    def __init__(self) -> None:
        self.trusted = True
        self.tables: Set[str] = frozenset()
        self.begin("")

    def set_tables(self, tables: Iterable[str]) -> None:
        """Note which tables the user has."""
        self.tables = frozenset(map(_folded, tables))

    def begin(self, verb: str) -> None:
        """Begin a statement with this first word."""
        self._verb = verb
        self.inserts: set[str] = set()
        self.changes = False
        self.reason: str | None = None

    def __call__(self, action: int, one: str | None, two: str | None, database: str | None, _by: str | None) -> int:
        """The callback of SQLite: https://sqlite.org/c3ref/set_authorizer.html."""
        if self.trusted or self._allows(action, one or "", two or "", database):
            return apsw.SQLITE_OK
        if self.reason is None:
            self.reason = _reason(action, one, two)
        return apsw.SQLITE_DENY

    def _allows(self, action: int, one: str, two: str, database: str | None) -> bool:
        if action == apsw.SQLITE_SELECT:
            return self._verb != "CREATE"
        if action == apsw.SQLITE_RECURSIVE:
            return True
        if action == apsw.SQLITE_READ:
            return self._reads(_folded(one), two, database)
        if action == apsw.SQLITE_FUNCTION:
            return two.lower() in _FUNCTIONS or (self._verb == "ALTER" and two.lower() in _ALTERS_WITH)
        if action in (apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE):
            return self._writes(action, one, database)
        return self._defines(action, one, two, database)

    def _reads(self, table: str, column: str, database: str | None) -> bool:
        if database is None:
            # No column is read: of a table, or of a common table expression, which has no database.
            return column == "" and (table in self.tables or table in _SCHEMA or not is_reserved(table))
        if database == "main":
            return (
                table in self.tables
                or table in _SCHEMA
                # A table that the statement creates or renames is not known yet.
                or (self._verb in ("CREATE", "ALTER") and not is_reserved(table))
                or (self._verb == "ALTER" and table in ("sqlite_sequence", "pragma_quick_check"))
                or (self._verb == "DROP" and table == "sqlite_sequence")
            )
        return database == "temp" and self._verb == "ALTER" and table in _TEMPORARY_SCHEMA

    def _writes(self, action: int, name: str, database: str | None) -> bool:
        table = _folded(name)
        if self._verb in ("CREATE", "ALTER", "DROP"):
            if database == "temp":
                return self._verb == "ALTER" and table in _TEMPORARY_SCHEMA
            return database == "main" and (table in self.tables or table in _SCHEMA or table == "sqlite_sequence")
        if database != "main" or table not in self.tables:
            return False
        self.changes = True
        if action == apsw.SQLITE_INSERT:
            self.inserts.add(name)
        return True

    def _defines(self, action: int, one: str, two: str, database: str | None) -> bool:
        if self._verb == "CREATE":
            if action == apsw.SQLITE_CREATE_TABLE:
                return database == "main" and (one == "sqlite_sequence" or not is_reserved(one))
            if action == apsw.SQLITE_CREATE_INDEX:
                return database == "main" and (one.startswith("sqlite_autoindex_") or not is_reserved(one))
            return action == apsw.SQLITE_REINDEX
        if self._verb == "DROP":
            return action in (apsw.SQLITE_DROP_TABLE, apsw.SQLITE_DROP_INDEX) and database == "main"
        if self._verb == "ALTER":
            if action == apsw.SQLITE_PRAGMA:
                return one == "quick_check"
            return (action == apsw.SQLITE_ALTER_TABLE and one == "main") or action == apsw.SQLITE_REINDEX
        return False


def _reason(action: int, one: str | None, two: str | None) -> str:
    if action == apsw.SQLITE_FUNCTION:
        return f"the function {two}() is not allowed"
    if action == apsw.SQLITE_SELECT:
        return "CREATE TABLE … AS is not allowed: create the table with its columns, then INSERT INTO … SELECT"
    if action == apsw.SQLITE_READ:
        return f"{one} cannot be read"
    if action in (apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE):
        return f"{one} cannot be changed"
    if action in (apsw.SQLITE_CREATE_TABLE, apsw.SQLITE_CREATE_INDEX) and one and is_reserved(one):
        return f"the name {one} is reserved: {RESERVED_NAMES}"
    name = str(apsw.mapping_authorizer_function.get(action, "this")).removeprefix("SQLITE_").replace("_", " ")
    return f"{name} is not allowed"
