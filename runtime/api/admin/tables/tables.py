"""Operations on the SQL tables of the user that a command names: what the tools do, and exports and imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runtime.api.admin.agents.lookup import user_of
from runtime.api.admin.parameters import optional_text, text, unicode
from runtime.api.admin.state import AdminContext
from runtime.errors import UsageError
from runtime.identity.caller import Caller
from runtime.tables.errors import QuotaExceeded, StatementError
from runtime.tables.statement import quoted
from runtime.tools.tables.access import tables_of
from runtime.tools.toolset import ALL_TOOLS


async def run(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Run the statement `query` with `params` for `user`, see the tool `agent_memory_sql`."""
    return await _called(context, "agent_memory_sql", parameters)


async def schema(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of `user`, see the tool `agent_memory_schema`."""
    return await _called(context, "agent_memory_schema", parameters)


async def status(context: AdminContext, _parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return why users have no SQL tables in `problem`; null if they have."""
    return {"problem": context.no_tables}


async def page(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return rows of `table` of `user`, from where the page before says in `after`. Blobs are objects with `base64`."""
    sql, _ = tables_of(context)
    user_id = await user_of(context, parameters)
    done = await sql.page(user_id, text(parameters, "table"), after=optional_text(parameters, "after"))
    return {"columns": list(done.columns), "rows": [list(row) for row in done.rows], "after": done.after}


async def insert(context: AdminContext, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Insert `rows`, each a list of values of `columns`, into `table` of `user`: all, or none. `failed`: the reason,
    and the position of the row that cannot be inserted, from 0."""
    sql, storage = tables_of(context)
    user_id, table, columns = await user_of(context, parameters), text(parameters, "table"), _names(parameters)
    rows = parameters.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == len(columns) for row in rows):
        raise UsageError("the parameter rows is not a list of lists with a value for each column")
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


async def _called(context: AdminContext, tool: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    caller = Caller(await user_of(context, parameters), frozenset({"write"}))
    given = {name: value for name, value in parameters.items() if name != "user"}
    return (await ALL_TOOLS.call(tool, replace(context, caller=caller), given)).model_dump(mode="json")


def _names(parameters: Mapping[str, Any]) -> Sequence[str]:
    names = parameters.get("columns")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise UsageError("the parameter columns is not a list of names")
    return [unicode(name, "columns") for name in names]
