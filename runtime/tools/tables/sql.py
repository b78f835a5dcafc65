"""Tools on the SQL tables of the caller. No parameter names another user."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, JsonValue

from runtime.tables.errors import ReadOnlyStatement, TablesUnavailable
from runtime.tables.sql_database import LONGEST_STATEMENT, MOST_ROWS, Dialect, SqlDatabase
from runtime.tables.statement import seems_to_read
from runtime.tables.storage import UserStorage, used_percent
from runtime.tools.context import Context
from runtime.tools.result import Result
from runtime.tools.tool import LARGEST_ITEMS, tool


def tables_of(context: Context) -> tuple[SqlDatabase, UserStorage]:
    """Return the tables of all users, and what each may store. Raises TablesUnavailable."""
    if context.sql is None or context.limits.storage is None or context.no_tables is not None:
        raise TablesUnavailable("SQL tables are unavailable here", hint="`symbi readiness` has the reason")
    return context.sql, context.limits.storage


MOST_VALUES: Final = 999
"""Maximum number of values for a statement."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")

Query = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_STATEMENT,
        description="One SQL statement.",
        examples=["SELECT shop, amount FROM expenses WHERE amount > ?"],
    ),
]


def _check_values(values: Any) -> Any:
    """Return the values. Raises ValueError: the union below would name its own kinds for each of them."""
    if not isinstance(values, list | dict | None):
        raise ValueError("it is a list for ?, or an object for :name")
    if len(values or ()) > MOST_VALUES:
        raise ValueError(f"there are {len(values or ()):,} values, and at most {MOST_VALUES} may be given")
    if isinstance(values, dict) and not all(map(_NAME.fullmatch, values)):
        raise ValueError("a name has letters, digits and _, and at most 63 of them")
    return values


Values = Annotated[
    Annotated[list[JsonValue], Field(max_length=MOST_VALUES)]
    | Annotated[dict[str, JsonValue], Field(max_length=MOST_VALUES)]
    | None,
    BeforeValidator(_check_values),
    Field(
        description='Values: a list for `?`, an object for `:name`. A blob is `{"base64": "…"}`.',
        examples=[[20], {"least": 20}],
    ),
]


class SqlResult(Result):
    """The result of a statement."""

    ok: Literal[True] = Field(default=True, description="It was executed.")
    columns: list[str] = Field(description="The names of the columns, in order; empty if it returns no rows.")
    rows: list[dict[str, Any]] = Field(
        description=f"At most {MOST_ROWS:,} rows, by column. A blob is base64, a time ISO 8601, NULL null."
    )
    affected_rows: int = Field(description="The rows that an INSERT, UPDATE or DELETE changed.")
    truncated: bool = Field(description="There are more rows than these: use LIMIT and OFFSET, or WHERE.")


class TableColumn(Result):
    """A column of a table."""

    name: str
    type: str = Field(description="As declared.")
    nullable: bool


class UserTable(Result):
    """A table of the user."""

    name: str
    columns: list[TableColumn]
    row_count: int


class SqlSchema(Result):
    """The user's tables, and what they take."""

    dialect: Dialect = Field(description="The language of statements.")
    tables: list[UserTable]
    total_storage_bytes: int = Field(description="Bytes that the tables and the key-value store take.")
    quota_used_percent: float = Field(description="The same in percent of what the user may store.")


def only_reads(given: Mapping[str, Any]) -> bool:
    """Return True if a call of `agent_memory_sql` with these values changes nothing."""
    query = given.get("query")
    return isinstance(query, str) and seems_to_read(query)


@tool(
    "read",
    largest=LARGEST_ITEMS,
    read_only=False,
    destructive=True,
    reads=only_reads,
    example={"query": "SELECT shop, amount FROM expenses WHERE amount > ?", "params": [20]},
)
async def agent_memory_sql(context: Context, query: Query, params: Values = None) -> SqlResult:
    """Run one SQL statement on the user's tables; agent_memory_schema shows them.

    SELECT, INSERT, UPDATE, DELETE, CREATE TABLE or INDEX, ALTER TABLE, DROP TABLE or INDEX. Give values in `params`.
    """
    sql, storage = tables_of(context)
    caller, user_id = context.caller, context.caller.user_id
    storage.touch(user_id)
    quota = await storage.quota(user_id)
    may_change = caller.may("write") and not (caller.tools is not None and caller.tools.read_only)
    read_only = not may_change or only_reads({"query": query})
    try:
        done = await sql.run(user_id, query, () if params is None else params, quota, read_only=read_only)
    except ReadOnlyStatement:
        if not may_change:
            caller.need("write")
            caller.need_tool("tables", "this statement", read_only=False)
        raise
    return SqlResult(
        columns=list(done.columns),
        rows=[dict(zip(done.columns, row, strict=True)) for row in done.rows],
        affected_rows=done.affected_rows,
        truncated=done.truncated,
    )


@tool("read", example={})
async def agent_memory_schema(context: Context) -> SqlSchema:
    """Show the SQL dialect, and the user's tables with their columns and rows."""
    sql, storage = tables_of(context)
    user_id = context.caller.user_id
    storage.touch(user_id)
    tables = await sql.tables(user_id)
    quota, stored = await storage.quota(user_id), await storage.usage(user_id)
    return SqlSchema(
        dialect=sql.dialect,
        tables=[UserTable.of(table, columns=[TableColumn.of(each) for each in table.columns]) for table in tables],
        total_storage_bytes=stored.bytes,
        quota_used_percent=used_percent(stored, quota),
    )
