"""The tools on SQL tables: what they return, who may change something, and where there are none."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from runtime.database.connection import Database
from runtime.identity.caller import Caller, Forbidden, OutsideOfToken
from runtime.mcp.local_backend import LocalBackend
from runtime.mcp.server import McpClient
from runtime.tables.errors import QuotaExceeded, StatementError, TablesUnavailable
from runtime.tool_groups import ToolChoice
from runtime.tools.toolset import ALL_TOOLS
from tests.cases import each_case
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.databases import with_keys
from tests.runtime.api.app import App

READER = Caller("owner", frozenset({"read"}))
WRITER = Caller("owner", frozenset({"write"}))
LIMITED = Caller("owner", frozenset({"write"}), tools=ToolChoice.read("tables,read-only"))
INSERT = "INSERT INTO t VALUES (1)"
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000)"


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    database = await Database.open(with_keys(tmp_path / "symbiont.db", KEY), KEY)
    async with App(database, ManualClock()).remembering(tmp_path) as one:
        await sql(one, "CREATE TABLE t (a INTEGER)")
        yield one
    await database.close()


async def sql(app: App, query: str, params: Any = None, caller: Caller = WRITER) -> dict[str, Any]:
    """Return the result of a statement as JSON."""
    given = {"query": query, "params": params}
    return (await ALL_TOOLS.call("agent_memory_sql", app.context(caller), given)).model_dump(mode="json")


async def test_rows_are_objects_by_column_and_params_a_list_or_an_object(app: App) -> None:
    done = await sql(app, "INSERT INTO t VALUES (?), (?)", [1, 2**60])
    assert done == {"ok": True, "columns": [], "rows": [], "affected_rows": 2, "truncated": False}
    done = await sql(app, "SELECT a, NULL AS b, :text AS c FROM t WHERE a < :most", {"most": 5, "text": "é"})
    assert done["columns"] == ["a", "b", "c"]
    assert done["rows"] == [{"a": 1, "b": None, "c": "é"}]
    done = await sql(app, "SELECT a FROM t ORDER BY a DESC LIMIT 1")
    assert json.loads(json.dumps(done))["rows"] == [{"a": 2**60}]


async def test_the_schema_tells_dialect_tables_and_what_they_take(app: App) -> None:
    await sql(app, INSERT)
    told = (await ALL_TOOLS.call("agent_memory_schema", app.context(READER), {})).model_dump(mode="json")
    assert told["dialect"] == "sqlite"
    column = {"name": "a", "type": "INTEGER", "nullable": True}
    assert told["tables"] == [{"name": "t", "columns": [column], "row_count": 1}]
    assert 0 < told["total_storage_bytes"] < 100_000
    assert 0 <= told["quota_used_percent"] < 1


@each_case("caller", [READER, LIMITED])
async def test_who_may_only_read_selects_and_changes_nothing(app: App, caller: Caller) -> None:
    await sql(app, "DELETE FROM t")
    await sql(app, INSERT)
    for query in ("SELECT a FROM t", "WITH x AS (SELECT a FROM t) SELECT a FROM x", "VALUES (1)"):
        assert len((await sql(app, query, caller=caller))["rows"]) == 1
    for query in (
        INSERT,
        "WITH x AS (SELECT 1) DELETE FROM t",
        "DROP TABLE t",
        "CREATE TABLE u (a)",
        "SELECT 1; " + INSERT,
    ):
        with pytest.raises((Forbidden, StatementError)) as refused:
            await sql(app, query, caller=caller)
        if not query.startswith("SELECT"):
            assert isinstance(refused.value, Forbidden if caller is READER else OutsideOfToken)
    assert (await sql(app, "SELECT count(*) AS n FROM t"))["rows"] == [{"n": 1}]


async def test_a_full_quota_in_the_middle_of_a_statement_keeps_nothing_of_it(app: App) -> None:
    await sql(app, f"{NUMBERS} INSERT INTO t SELECT i FROM n")
    token = await app.token("owner", "write")
    answer = await app.ask(token, "POST", "/v1/tables/sql", {"query": f"{NUMBERS} INSERT INTO t SELECT i FROM n"})
    problem = json.loads(answer.body)
    assert (answer.status, problem["type"]) == (409, "urn:symbiont:problem:quota_exceeded")
    assert problem["code"] == "quota_exceeded"
    assert "10,000" in problem["detail"]
    assert (await sql(app, "SELECT count(*) AS n FROM t"))["rows"] == [{"n": 9000}]
    for number in range(4):
        await sql(app, f"CREATE TABLE more{number} (a INTEGER)")
    with pytest.raises(QuotaExceeded):
        await sql(app, "CREATE TABLE sixth (a INTEGER)")
    # Reading and deleting are always possible.
    assert (await sql(app, "DELETE FROM t WHERE a > 10"))["affected_rows"] == 8990


async def test_http_answers_with_the_problem_that_fits(app: App) -> None:
    reader, writer = await app.token("owner", "read"), await app.token("owner", "write")
    for token, query, status, kind in (
        (reader, "SELECT a FROM t", 200, None),
        (reader, INSERT, 403, "forbidden"),
        (writer, "SELEC", 422, "wrong_parameters"),
        (writer, "SELECT b FROM t", 422, "wrong_parameters"),
        (writer, "", 422, "wrong_parameters"),
    ):
        answer = await app.ask(token, "POST", "/v1/tables/sql", {"query": query})
        assert answer.status == status, answer
        assert kind is None or json.loads(answer.body)["type"].endswith(kind)
    answer = await app.ask(reader, "GET", "/v1/tables")
    assert [table["name"] for table in json.loads(answer.body)["tables"]] == ["t"]
    # Not even an administrator sees those of others.
    other = await app.token("ada", "admin")
    assert json.loads((await app.ask(other, "GET", "/v1/tables")).body)["tables"] == []
    assert b"no table is called" in (await app.ask(other, "POST", "/v1/tables/sql", {"query": "SELECT a FROM t"})).body


@each_case(
    ("params", "said"),
    [
        ("tea", "it is a list for ?, or an object for :name"),
        ([0] * 1000, "there are 1,000 values, and at most 999 may be given"),
        ({"a b": 1}, "a name has letters, digits and _, and at most 63 of them"),
    ],
)
async def test_wrong_params_are_one_problem(app: App, params: Any, said: str) -> None:
    answer = await app.ask(await app.token(), "POST", "/v1/tables/sql", {"query": "SELECT 1 AS a", "params": params})
    (problem,) = json.loads(answer.body)["errors"]
    assert (problem["pointer"], problem["detail"]) == ("/params", said)


class Absent:
    """Tables that cannot be used, as on a PostgreSQL without rights."""

    dialect = "postgresql"
    problem = "the role lacks CREATEROLE"


async def listed(app: App, tools: str) -> Mapping[str, Any]:
    client = McpClient(LocalBackend(app.open_context, WRITER), ToolChoice.read(tools))
    return {tool["name"]: tool for tool in await client.tool_definitions()}


async def test_where_there_are_no_tables_no_tool_for_them_is_listed(app: App) -> None:
    assert set(await listed(app, "tables")) == {"agent_memory_sql", "agent_memory_schema"}
    assert set(await listed(app, "tables,read-only")) == {"agent_memory_sql", "agent_memory_schema"}
    app.sql = Absent()  # type: ignore[assignment]
    assert await listed(app, "tables") == {}
    assert "search" in await listed(app, "tables,collections")
    assert app.context(WRITER).no_tables == "the role lacks CREATEROLE"
    with pytest.raises(TablesUnavailable):
        await sql(app, "SELECT 1")
    answer = await app.ask(await app.token(), "GET", "/v1/tables")
    assert answer.status == 503
    assert "symbi readiness" in json.loads(answer.body)["hint"]
    assert not {"agent_memory_sql", "agent_memory_schema"} & ALL_TOOLS.without_tables().keys()
