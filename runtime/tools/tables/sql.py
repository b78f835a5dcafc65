"""Tools on the SQL tables of the caller. No parameter names another user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.tables.errors import ReadOnlyStatement
from runtime.tables.statement import seems_to_read
from runtime.tables.storage import used_percent
from runtime.tools.context import Context
from runtime.tools.tables.access import tables_of
from runtime.tools.tables.types import Query, SqlResult, SqlSchema, TableColumn, UserTable, Values
from runtime.tools.tool import LARGEST_ITEMS, tool


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
    quota, stored = await storage.quota(user_id), await storage.stored(user_id)
    return SqlSchema(
        dialect=sql.dialect,
        tables=[
            UserTable(
                name=table.name,
                columns=[TableColumn(name=each.name, type=each.type, nullable=each.nullable) for each in table.columns],
                row_count=table.row_count,
            )
            for table in tables
        ],
        total_storage_bytes=stored.bytes,
        quota_used_percent=used_percent(stored, quota),
    )
