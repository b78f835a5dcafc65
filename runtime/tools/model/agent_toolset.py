"""The tools of one agent for one turn: selected by the program, bound to agent, user and subject, named for its
model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from dslc.blocks.values.tool import matches
from runtime.errors import NotFound
from runtime.identity.caller import Caller, Scope
from runtime.models.request import ToolSchema
from runtime.suggestions import unknown_name
from runtime.tools.context import Context
from runtime.tools.model.names import model_name, model_names
from runtime.tools.model.schema import model_schema
from runtime.tools.tool import Tool
from runtime.tools.toolset import ALL_TOOLS, Toolset

DEFAULT_TOOLS: Final = (
    "memory_replace", "memory_append", "memory_insert",
    "archival_insert", "archival_search", "archival_replace",
    "conversation_search",
)  # fmt: skip
"""The tools of an agent whose program names none."""

DONE: Final = ToolSchema(
    "done",
    "Stop, when nothing is left to do or say.",
    {"type": "object", "properties": {}, "additionalProperties": False},
)
"""The call that ends a turn. The loop handles it; it does nothing and has no row in the table of tools."""

FIND_TOOL: Final = ToolSchema(
    "find_tool",
    "Find tools that are not listed here, by words of what they do. You can call them afterwards.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What the tool should do."}},
        "required": ["query"],
        "additionalProperties": False,
    },
)
"""The call by which a model reaches tools that its context has no room for. The loop handles it, too."""

_RESERVED: Final = (DONE.name, FIND_TOOL.name)

QUOTING: Final = frozenset({FIND_TOOL.name, *(model_name(name) for name, tool in ALL_TOOLS.items() if tool.quotes)})
"""Names, as models call them, of the tools whose outputs repeat what is stored here."""


class AgentIdentity(NamedTuple):
    """The agent that the tools are bound to, and the subject of its keyed thread, None without a memory of its own."""

    agent: str
    subject: str | None = None


class AgentToolset(Mapping[str, Tool]):
    """Tools by the names that the model uses. Immutable."""

    def __init__(self, tools: Toolset, names: Mapping[str, str], schemas: tuple[ToolSchema, ...]) -> None:
        """`names`: of tools, by those that the model uses. `schemas`: as a context takes them, `DONE` first."""
        self._tools = tools
        self._names = names
        self.schemas = schemas

    def __getitem__(self, name: str) -> Tool:
        return self._tools[self._names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    async def call(self, name: str, context: Context, given: Mapping[str, Any]) -> BaseModel:
        """Call the tool that the model calls `name`. Raises NotFound with the nearest names, and what `Toolset.call`
        raises."""
        tool = self._names.get(name)
        if tool is None:
            raise unknown_name("tool", name[:200], (*self._names, DONE.name), NotFound)
        return await self._tools.call(tool, context, given)


class _Selection(NamedTuple):
    """Tools that are not bound, with the names and schemas that they have for a model when they are."""

    tools: Toolset
    names: Mapping[str, str]
    schemas: tuple[ToolSchema, ...]


class AgentTools:
    """The tools of a program for its agents. They are selected once for the same patterns and scopes, and bound in each
    turn."""

    def __init__(self, tools: Toolset = ALL_TOOLS) -> None:
        self._tools = tools
        self._selections: dict[tuple[tuple[str, ...], frozenset[Scope], bool], _Selection] = {}

    def of(
        self, patterns: Iterable[str] | None, caller: Caller, identity: AgentIdentity, *, tables: bool = True
    ) -> AgentToolset:
        """Return the tools that the agent may use: those named by `patterns` (None: `DEFAULT_TOOLS`) and allowed to the
        caller; with those on SQL tables only if `tables`. A destructive tool must be named in full; tools for people
        are never selected.

        The parameters `agent`, `subject` and `user` are bound: the model neither sees nor sets them.
        """
        listed = tuple(DEFAULT_TOOLS if patterns is None else patterns)
        key = listed, caller.scopes, tables
        bound = {"agent": identity.agent, "subject": identity.subject, "user": f"id:{caller.user_id}"}
        if key not in self._selections:
            allowed = self._tools.allowed_to(caller)
            allowed = allowed if tables else allowed.without_tables()
            self._selections[key] = _selection(allowed.where(lambda tool: _selects(listed, tool)), bound)
        tools, names, schemas = self._selections[key]
        return AgentToolset(tools.bind(**bound), names, schemas)


def _selection(tools: Toolset, bound: Mapping[str, str | None]) -> _Selection:
    # What the loop handles keeps its name.
    every = model_names([*tools, *_RESERVED])
    names = {model: name for model, name in every.items() if name in tools and model not in _RESERVED}
    models = {name: model for model, name in names.items()}
    schemas = [model_schema(tool, models[name]) for name, tool in tools.bind(**bound).items() if name in models]
    return _Selection(tools, names, (DONE, *schemas))


def _selects(patterns: Iterable[str], tool: Tool) -> bool:
    if tool.people:
        return False
    return any(each == tool.name or (not tool.destructive and matches(each, tool.name)) for each in patterns)
