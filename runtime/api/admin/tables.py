"""Operations on SQL tables: pages for exports, rows of imports, and what an administrator of PostgreSQL allows."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, JsonValue

from runtime.api.admin.operation import operation
from runtime.api.admin.parameters import Text
from runtime.api.admin.state import AdminContext
from runtime.errors import UsageError
from runtime.tables.errors import QuotaExceeded, StatementError
from runtime.tables.statement import quoted
from runtime.tools.tables.sql import tables_of

LARGEST = 64 * 1024 * 1024
"""Maximum bytes of the rows of one call."""


@operation()
async def table_status(context: AdminContext) -> dict[str, Any]:
    """Return why users have no SQL tables in `problem`; null if they have."""
    return {"problem": context.no_tables}


@operation()
async def table_page(context: AdminContext, table: Text, after: Text | None = None) -> dict[str, Any]:
    """Return rows of a table of the user, from where the page before says in `after`. Blobs are objects with
    `base64`."""
    sql, _ = tables_of(context)
    done = await sql.page(context.caller.user_id, table, after=after)
    return {"columns": list(done.columns), "rows": [list(row) for row in done.rows], "after": done.after}


@operation(changes=True, largest=LARGEST)
async def table_insert(
    context: AdminContext,
    table: Text,
    columns: Annotated[list[str], Field(min_length=1)],
    rows: list[list[JsonValue]],
) -> dict[str, Any]:
    """Insert `rows`, each a list of values of `columns`, into a table of the user: all, or none. `failed`: the reason,
    and the position of the row that cannot be inserted, from 0."""
    sql, storage = tables_of(context)
    user_id = context.caller.user_id
    if any(len(row) != len(columns) for row in rows):
        raise UsageError("each of the rows needs a value for each column")
    names, places = ", ".join(map(quoted, columns)), ", ".join("?" * len(columns))
    statement = f"INSERT INTO {quoted(table)} ({names}) VALUES ({places})"  # noqa: S608 - names are quoted
    storage.touch(user_id)
    try:
        await sql.run_for_each(user_id, statement, rows, await storage.quota(user_id))
    except (StatementError, QuotaExceeded) as error:
        if error.row is None:
            raise
        return {"inserted": 0, "failed": {"row": error.row, "reason": str(error), "hint": error.hint}}
    return {"inserted": len(rows), "failed": None}


@operation()
async def database_grants(
    context: AdminContext,
    pool: Annotated[int, Field(ge=0, le=10_000, description="Prepare so many roles in advance.")] = 0,
    strict: Annotated[bool, Field(description="Also take rights that users' statements never need.")] = False,
) -> dict[str, Any]:
    """Return in `sql` the statements for a superuser. `pool`: number of roles to prepare; `strict`: with those that are
    optional."""
    if context.database.kind != "postgresql":
        raise UsageError("the database is a file: its users' tables need no rights", hint="set SYMBIONT_DATABASE")
    from runtime.tables.postgres.grants import grants as statements

    return {"sql": await statements(context.database, pool=pool, strict=strict)}
