"""Tools of MCP servers, as rows beside those of the table. Their parameters are a JSON Schema of the server, which
checks them, and a call goes to the server."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Any

from pydantic import BaseModel, Field

from runtime.tool_servers.definition import ToolDefinition
from runtime.tool_servers.server import ProgramServer
from runtime.tools.context import Context
from runtime.tools.tool import Tool, ToolProperties
from runtime.tools.toolset import ALL_TOOLS, Toolset


class ServerToolResult(BaseModel):
    """The result of a tool of a server."""

    text: str | None = Field(default=None, description="The texts of the result.")
    result: Any = Field(default=None, description="The structured result, if there is no text.")


class _None(BaseModel):
    """The parameters of a tool whose parameters are not known here."""


class ServerTool(Tool):
    """A tool of a server, called `server.tool`.

    Unless the program trusts what the server says about it, it counts as one that changes something and is not
    repeated. It is never bound to an agent or a user: what the server calls `agent` is its own.
    """

    def __init__(self, server: ProgramServer, definition: ToolDefinition) -> None:
        trusted, block = server.block.trust_hints, server.block
        reads = trusted and definition.read_only is True
        properties = ToolProperties(
            "read" if reads else "write",
            f"{block.name}.{definition.name}",
            # Only if it is said: by the protocol, a tool that says nothing may do so too, and no pattern would name it.
            destructive=trusted and not reads and definition.destructive is True,
            idempotent=reads or (trusted and definition.idempotent is True),
            # The block has a timeout of its own.
            long=True,
            quotes=False,
        )
        super().__init__(self._ask, properties)
        self._server = server
        self._definition = definition

    @property
    def doc(self) -> str:
        """The server's description."""
        return self._definition.description

    @property
    def parameters(self) -> type[BaseModel]:
        """No parameters: those in `schema` are the server's."""
        return _None

    @property
    def parameter_names(self) -> Collection[str]:
        """The names of the parameters."""
        names: Collection[str] = self.schema["properties"].keys()
        return names

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the parameters, as it was approved."""
        return self._definition.schema

    @property
    def exact(self) -> Mapping[str, Any]:
        """The same as `definition`: nothing is bound."""
        return self.definition

    @property
    def server(self) -> str:
        """The name of the server's block."""
        return self._server.block.name

    @property
    def definition(self) -> Mapping[str, Any]:
        """The definition of the tool, and the server itself."""
        return {"definition": self._definition.digest, "server": self._server.facts}

    def check(self, given: Mapping[str, Any]) -> None:
        """Do nothing: the server checks its parameters."""

    async def _run(self, context: Context, given: Mapping[str, Any]) -> BaseModel:
        return await self._ask(context, given)

    async def _ask(self, _context: Context, given: Mapping[str, Any]) -> ServerToolResult:
        # Language models send null for what they leave out.
        needed = self.schema.get("required", ())
        there = {name: value for name, value in given.items() if value is not None or name in needed}
        found = await self._server.call(self._definition.name, there)
        return ServerToolResult(text=found.text or None, result=found.structured)


def with_servers(servers: Iterable[ProgramServer]) -> Toolset:
    """Return the tools of the table and those of the servers."""
    tools = [ServerTool(server, each) for server in servers for each in server.offered]
    return Toolset({**ALL_TOOLS, **{tool.name: tool for tool in tools}}) if tools else ALL_TOOLS
