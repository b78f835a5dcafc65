"""The table that a command names, and what its columns take."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from runtime.suggestions import unknown_name

Kind = Literal["integer", "real", "number", "text", "blob", "boolean", "json", "any"]
"""Kind of the values of a column. `number`: integers and others. `any`: the value says what it is."""

_POSTGRESQL: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("smallint", "integer", "bigint", "int2", "int4", "int8"), "integer"),
    **dict.fromkeys(("real", "double precision", "float4", "float8"), "real"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("json", "jsonb"), "json"),
    "bytea": "blob",
}
TYPES: Final[Mapping[str, Mapping[Kind, str]]] = {
    "sqlite": {
        "integer": "INTEGER",
        "real": "REAL",
        "number": "NUMERIC",
        "text": "TEXT",
        "blob": "BLOB",
        "boolean": "INTEGER",
        "json": "TEXT",
    },
    "postgresql": {
        "integer": "BIGINT",
        "real": "DOUBLE PRECISION",
        "number": "NUMERIC",
        "text": "TEXT",
        "blob": "BYTEA",
        "boolean": "BOOLEAN",
        "json": "JSONB",
    },
}
"""The types of columns that an import creates, by dialect."""


def find_table(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the table of this name, whose upper and lower case may differ if only one is meant. Raises UsageError with
    the nearest names."""
    tables: Sequence[Mapping[str, Any]] = schema["tables"]
    named = _matching_name(name, [table["name"] for table in tables])
    if named is None:
        raise unknown_name("table", name, (table["name"] for table in tables))
    return next(table for table in tables if table["name"] == named)


def find_columns(table: Mapping[str, Any], names: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    """Return the columns of these names, in this order, like `find_table`."""
    known = {column["name"]: column for column in table["columns"]}
    found = []
    for name in names:
        named = _matching_name(name, list(known))
        if named is None:
            raise unknown_name("column", name, known)
        found.append(known[named])
    return found


def _matching_name(name: str, known: Sequence[str]) -> str | None:
    if name in known:
        return name
    alike = [each for each in known if each.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def kind_of(dialect: str, declared: str) -> Kind:
    """Return what a column of a declared type takes; in SQLite, by the rules of column affinity
    (https://www.sqlite.org/datatype3.html, 3.1)."""
    if dialect == "postgresql":
        if declared.endswith("[]"):
            return "json"
        return _POSTGRESQL.get(re.sub(r"\(.*?\)", "", declared).strip().lower(), "text")
    name = declared.upper()
    if "INT" in name:
        return "integer"
    if any(part in name for part in ("CHAR", "CLOB", "TEXT")):
        return "text"
    if not name or "BLOB" in name or name == "ANY":
        return "any"
    return "real"
