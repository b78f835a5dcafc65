"""Tools of servers stand beside those of the table, as ones that change something unless the program trusts them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dslc.blocks.mcp import McpServer
from runtime.identity.caller import Caller, Scope
from runtime.tool_servers.approvals import Approval
from runtime.tool_servers.connection import ServerConnection
from runtime.tool_servers.definition import ToolDefinition, definition_of
from runtime.tool_servers.server import ProgramServer
from runtime.tool_servers.session import CallResult, ToolListing
from runtime.tools.model.agent_toolset import AgentIdentity, AgentTools
from runtime.tools.server_tool import ServerTool, with_servers
from tests.runtime.tool_servers.places import program
from tests.runtime.tools.bare_context import bare_context

FACTS = {"command": ["server"], "env": {}}
SCHEMA = {
    "type": "object",
    "properties": {"agent": {"type": "string"}, "user": {"type": ["string", "null"]}, "n": {"$ref": "#/$defs/n"}},
    "required": ["agent", "user"],
    "$defs": {"n": {"type": "integer", "description": "How many."}},
}


class _Answering(ServerConnection):
    """A connection that is open, to a server that answers what it is called with."""

    def __init__(self, tools: tuple[ToolDefinition, ...], folder: Path) -> None:
        async def no_login() -> Any:
            return None

        super().__init__(program(folder), start_seconds=1, authentication=no_login)
        self.listing = ToolListing(tools, ())
        self.asked: list[tuple[str, Mapping[str, Any], float]] = []

    async def call(self, name: str, arguments: Mapping[str, Any], seconds: float) -> CallResult:
        self.asked.append((name, arguments, seconds))
        return CallResult("done")


def server(
    folder: Path, *tools: ToolDefinition, live: tuple[ToolDefinition, ...] | None = None, **more: Any
) -> ProgramServer:
    """Return a server whose `tools` are approved, and which has `live` now."""
    block = McpServer(name="github", command=("server",), **more)
    connection = _Answering(tools if live is None else live, folder)
    return ProgramServer(block, FACTS, Approval(FACTS, tools, 1), connection, (), None)


def caller(scope: Scope = "write") -> Caller:
    return Caller("owner", frozenset({scope}))


def test_without_trust_no_hint_counts(tmp_path: Path) -> None:
    one = definition_of("look", "Looks.", SCHEMA, read_only=True, idempotent=True, destructive=False)
    tool = ServerTool(server(tmp_path, one), one)
    assert (tool.name, tool.scope, tool.read_only, tool.repeatable({}), tool.destructive) == (
        "github.look", "write", False, False, False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        ({}, ("write", False, False, False)),
        ({"read_only": True}, ("read", True, True, False)),
        ({"idempotent": True}, ("write", False, True, False)),
        ({"destructive": True}, ("write", False, False, True)),
        ({"read_only": True, "destructive": True}, ("read", True, True, False)),
        ({"read_only": False, "idempotent": False, "destructive": False}, ("write", False, False, False)),
    ],
)
def test_with_trust_hints_count(tmp_path: Path, hints: dict[str, bool], expected: tuple[object, ...]) -> None:
    one = definition_of("look", "Looks.", SCHEMA, **hints)
    tool = ServerTool(server(tmp_path, one, trust_hints=True), one)
    assert (tool.scope, tool.read_only, tool.repeatable({}), tool.destructive) == expected


async def test_an_agent_calls_it_by_a_name_without_a_dot_and_with_the_servers_own_parameters(tmp_path: Path) -> None:
    one = definition_of("create.issue", "Creates an issue.\n\nMore.", SCHEMA)
    servers = server(tmp_path, one, timeout=timedelta(seconds=7))
    tools = AgentTools(with_servers([servers])).of(["github.*"], caller(), AgentIdentity("reviewer"))
    [_done, schema] = tools.schemas
    assert (schema.name, schema.description) == ("github_create_issue", "Creates an issue.")
    assert schema.parameters["properties"] == {
        "agent": {"type": "string"},
        "user": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "n": {"type": "integer", "description": "How many."},
    }
    context = bare_context(caller())
    result = await tools.call("github_create_issue", context, {"agent": "ada", "user": None, "n": None})
    assert result.model_dump(exclude_none=True) == {"text": "done"}
    assert isinstance(servers.connection, _Answering)
    # The parameters `agent` and `user` are not this program's, and null is left out where nothing is required.
    assert servers.connection.asked == [("create.issue", {"agent": "ada", "user": None}, 7)]


def test_a_tool_that_is_not_as_it_was_approved_is_not_offered(tmp_path: Path) -> None:
    same, changes, gone = (definition_of(name, f"{name}.", SCHEMA) for name in ("same", "changes", "gone"))
    live = (same, definition_of("changes", "Now something else.", SCHEMA), definition_of("new", "New.", SCHEMA))
    one = server(tmp_path, same, changes, gone, live=live)
    assert [tool.name for tool in one.offered] == ["same"]
    assert one.changes is not None
    assert one.changes.lines == ["new: new", "changed: changes", "gone: gone"]
    assert [name for name in with_servers([one]) if "." in name] == ["github.same"]


def test_a_server_that_is_not_approved_or_has_no_connection_offers_nothing(tmp_path: Path) -> None:
    one = definition_of("look", "Looks.", SCHEMA)
    ready = server(tmp_path, one)
    assert ProgramServer(ready.block, FACTS, None, None, (), None).offered == ()
    assert ProgramServer(ready.block, FACTS, ready.approval, None, (), None).offered == ()
