"""A selection of tools for one caller: some parameters bound, some tools hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from runtime.errors import NotFound
from runtime.identity.caller import Caller
from runtime.suggestions import unknown_name
from runtime.tools import TOOLS
from runtime.tools.context import Context
from runtime.tools.tool import Tool


class Toolset(Mapping[str, Tool]):
    """Tools by name. Immutable: every method returns another toolset."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = dict(tools)

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def bind(self, **values: Any) -> Toolset:
        """Fix parameters, such as `agent="reviewer"`, of every tool that has them by this or another name, see
        `Tool.bind`."""
        return self._with(
            tool.bind(
                **{
                    name: value
                    for name, value in values.items()
                    if tool.aliases.get(name, name) in tool.parameters.model_fields
                }
            )
            for tool in self.values()
        )

    def allowed_to(self, caller: Caller) -> Toolset:
        """Hide the tools whose scope the caller does not have."""
        return self.where(lambda tool: caller.may(tool.scope))

    def without_tables(self) -> Toolset:
        """Hide the tools that need the SQL tables of users."""
        return self.where(lambda tool: tool.group != "tables")

    def where(self, shown: Callable[[Tool], bool]) -> Toolset:
        """Hide the tools for which `shown` returns False."""
        return self._with(filter(shown, self.values()))

    async def call(self, name: str, context: Context, given: Mapping[str, Any]) -> BaseModel:
        """Call the tool with JSON values by parameter name. Raises NotFound with the nearest names for a tool that is
        not here, hidden ones included, and what `Tool.call` raises."""
        tool = self.get(name)
        if tool is None:
            raise unknown_name("tool", name[:200], self, NotFound)
        return await tool.call(context, given)

    def _with(self, tools: Iterable[Tool]) -> Toolset:
        return Toolset({tool.name: tool for tool in tools})


ALL_TOOLS: Final = Toolset(TOOLS)
"""All tools; MCP, HTTP and commands call tools through it."""
