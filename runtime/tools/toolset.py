"""A selection of tools for one caller: some parameters bound, some tools hidden, every call wrapped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from pydantic import BaseModel

from dslc.blocks.values.tool import matches
from runtime.errors import NotFound
from runtime.identity.caller import Caller
from runtime.suggestions import unknown_name
from runtime.tools import TOOLS
from runtime.tools.context import Context
from runtime.tools.tool import Tool

Call = Callable[[Context, Mapping[str, Any]], Awaitable[BaseModel]]
"""Calls a tool with JSON values by parameter name. Raises SymbiontError."""

Wrapper = Callable[[Tool, Call, Context, Mapping[str, Any]], Awaitable[BaseModel]]
"""Runs around a call: `wrapper(tool, call, context, given)` returns what `await call(context, given)` returns. It may
change the parameters or the result, or refuse the call by raising SymbiontError."""


class Toolset(Mapping[str, Tool]):
    """Tools by name. Immutable: every method returns another toolset."""

    def __init__(self, tools: Mapping[str, Tool], wrappers: tuple[Wrapper, ...] = ()) -> None:
        """`wrappers`: the first one is the outermost."""
        self._tools = dict(tools)
        self._wrappers = wrappers

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
        return self._with(tool for tool in self.values() if caller.may(tool.scope))

    def without_tables(self) -> Toolset:
        """Hide the tools that need the SQL tables of users."""
        return self._with(tool for tool in self.values() if tool.group != "tables")

    def only(self, patterns: Iterable[str]) -> Toolset:
        """Hide the tools that no name or pattern of the list matches, such as `memory_*`."""
        listed = tuple(patterns)
        return self._with(tool for tool in self.values() if any(matches(each, tool.name) for each in listed))

    def wrap(self, wrapper: Wrapper) -> Toolset:
        """Run `wrapper` around every call, outside the wrappers that are already in the set."""
        return Toolset(self._tools, (wrapper, *self._wrappers))

    async def call(self, name: str, context: Context, given: Mapping[str, Any]) -> BaseModel:
        """Call the tool with JSON values by parameter name. Raises NotFound with the nearest names for a tool that is
        not here, hidden ones included, and what `Tool.call` and the wrappers raise."""
        tool = self.get(name)
        if tool is None:
            raise unknown_name("tool", name[:200], self, NotFound)
        call: Call = tool.call
        for wrapper in reversed(self._wrappers):
            call = partial(wrapper, tool, call)
        return await call(context, given)

    def _with(self, tools: Iterable[Tool]) -> Toolset:
        return Toolset({tool.name: tool for tool in tools}, self._wrappers)


ALL_TOOLS: Final = Toolset(TOOLS)
"""All tools; MCP, HTTP and commands call tools through it."""
