"""Runs a checked statement on a connection of its user, and reads what it returns."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NamedTuple

import asyncpg

from runtime.tables.errors import StatementError
from runtime.tables.postgres import usage
from runtime.tables.postgres.allowlist import RESULTS
from runtime.tables.postgres.connections import UserConnection
from runtime.tables.postgres.errors import no_table
from runtime.tables.postgres.statement import StatementPlan
from runtime.tables.postgres.values import from_postgres, to_postgres
from runtime.tables.sql_database import MOST_BYTES, MOST_ROW_BYTES, MOST_ROWS, StatementResult, TablePage, Value
from runtime.tables.statement import quoted

_FETCHED_BYTES: Final = 8_000_000
"""Bytes of rows that are fetched at a time."""
_FIRST_ROWS: Final = 50
_LONGEST_ROW: Final = 4 * MOST_BYTES
"""Maximum bytes of a row as PostgreSQL writes it; reading a longer one would take long, and it is in no result."""


class BoundStatement(NamedTuple):
    """A statement with its parameters, one list for each time that it runs."""

    plan: StatementPlan
    rows: Sequence[Sequence[Value]]


async def read(connection: UserConnection, statement: BoundStatement) -> StatementResult:
    """Run a statement that only reads."""
    if statement.plan.few:
        return await run(connection, statement)  # no statement that reads can change anything
    async with connection.raw.transaction(readonly=True):
        return await run(connection, statement)


async def read_page(connection: UserConnection, table: str, after: str | None, most: int) -> TablePage:
    """Return up to `most` rows of a table, fewer if they are large. `after`: the place of the last row before."""
    known = await usage.columns_of_tables(connection)
    if table not in known:
        raise no_table(table, list(known))
    names = [column.name for column in known[table]]
    # A row keeps its place until it is changed.
    chosen = ", ".join(["t.ctid::pg_catalog.text", *(f"t.{quoted(name)}" for name in names)])
    where = f" WHERE t.ctid > '{after}'::pg_catalog.tid" if after else ""
    sql = f"SELECT {chosen} FROM {quoted(table)} AS t{where} ORDER BY t.ctid LIMIT {most + 1}"  # noqa: S608
    rows: list[list[Value]] = []
    size, more = 0, False
    async with connection.raw.transaction(readonly=True):
        statement = await connection.raw.prepare(sql)
        kinds = [_type_name(each.type) for each in statement.get_attributes()]
        async for row in statement.cursor(prefetch=50):
            values = [_page_value(value, kind) for value, kind in zip(row, kinds, strict=True)]
            size += _json_bytes(values)
            if len(rows) == most or (rows and size > MOST_BYTES):
                more = True
                break
            rows.append(values)
    return TablePage(names, [row[1:] for row in rows], str(rows[-1][0]) if more else None)


async def run(connection: UserConnection, statement: BoundStatement) -> StatementResult:
    """Run the statement for all its parameters, and return the result of all together."""
    plan = statement.plan
    prepared = await connection.prepare(plan.sql)
    names, kinds = _columns(prepared, plan)
    types = [_type_name(each) for each in prepared.get_parameters()]
    rows: list[list[Value]] = []
    size = affected = 0
    truncated = False
    for position, parameters in enumerate(statement.rows):
        values = _convert_row(parameters, types, position)
        async for batch in _batches(connection, prepared, values, plan, position):
            for row in batch:
                if plan.counted:
                    check_row(row[-1], position)
                affected += 1
                if truncated or not names:
                    continue
                if sum(len(each) for each in row if isinstance(each, (str, bytes))) > _LONGEST_ROW:
                    truncated = True
                    continue
                converted = [from_postgres(row[at], kind) for at, kind in enumerate(kinds)]
                size += _json_bytes(converted)
                truncated = len(rows) == MOST_ROWS or size > MOST_BYTES
                if not truncated:
                    rows.append(converted)
            if truncated and plan.kind == "read":
                break
        if plan.kind == "delete" and not names:
            affected += _affected_rows(prepared.get_statusmsg())
    return StatementResult(names, rows, 0 if plan.kind in ("read", "define", "drop") else affected, truncated)


async def _batches(
    connection: UserConnection, prepared: Any, values: Sequence[Any], plan: StatementPlan, position: int
) -> AsyncIterator[Sequence[Any]]:
    """Yield the rows of a result, as many at a time as fit into _FETCHED_BYTES if they are like those before."""
    try:
        if plan.few or not prepared.get_attributes():
            connection.expect()
            yield await prepared.fetch(*values)
            return
        cursor, most = await prepared.cursor(*values), _FIRST_ROWS
        while True:
            connection.expect()
            batch = await cursor.fetch(most)
            yield batch
            if len(batch) < most:
                return
            most = max(1, min(MOST_ROWS + 1, _FETCHED_BYTES * most // max(1, connection.received)))
    except asyncpg.PostgresError as error:
        error.row = position
        raise


def _columns(prepared: Any, plan: StatementPlan) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names and the types of the columns of a result. Raises StatementError for names that are there twice,
    and for types that are no values."""
    attributes = prepared.get_attributes()
    if plan.counted:
        attributes = attributes[:-1]
    names = [each.name for each in attributes]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise StatementError(
            f"two columns of the result are called {repeated[0]}", hint=f"name them: {repeated[0]} AS other_name"
        )
    kinds = [_type_name(each.type) for each in attributes]
    for name, kind in zip(names, kinds, strict=True):
        if kind not in RESULTS:
            raise StatementError(f"the column {name} has the type {kind}, which is no value", hint="name its columns")
    return names, kinds


def too_large() -> StatementError:
    """Return the error of a result of which more was received than is kept in memory."""
    return StatementError("the rows of the result are too large", hint="choose fewer or shorter columns")


def _page_value(value: Any, kind: str) -> Value:
    """Return a value of a page, where a blob can be told from its base64."""
    converted = from_postgres(value, kind)
    return {"base64": converted} if isinstance(value, bytes) else converted


def _type_name(kind: Any) -> str:
    """Return the name of a type as in RESULTS."""
    if kind.schema != "pg_catalog":
        return "of a row"  # of a table, which may have the name of a type
    return f"{kind.name[:-2]}[]" if kind.name.endswith("[]") else str(kind.name)


def check_row(size: int | None, position: int) -> None:
    """Raise StatementError for a row of more than MOST_ROW_BYTES."""
    if size is not None and size > MOST_ROW_BYTES:
        hint = f"a row has at most {MOST_ROW_BYTES:,}; divide the text into rows"
        raise StatementError(f"a row would take {size:,} bytes", hint=hint).of_row(position)


def _convert_row(row: Sequence[Value], types: Sequence[str], position: int) -> Sequence[Any]:
    try:
        return [to_postgres(value, kind, at) for at, (value, kind) in enumerate(zip(row, types, strict=True), 1)]
    except StatementError as error:
        raise error.of_row(position) from None


def _json_bytes(values: Sequence[Value]) -> int:
    """Return the bytes of values as compact JSON, with what separates them from the next."""
    return len(json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")) + 1


def _affected_rows(status: str | None) -> int:
    number = (status or "").rpartition(" ")[2]
    return int(number) if number.isdigit() else 0
