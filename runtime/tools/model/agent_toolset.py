"""The tools of one agent for one turn: selected by the program, bound to agent, user and subject, named for its
model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from dslc.blocks.values.tool import matches
from runtime.errors import NotFound
from runtime.identity.caller import Caller
from runtime.models.request import ToolSchema
from runtime.suggestions import unknown_name
from runtime.tools.context import Context
from runtime.tools.model.names import model_names
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
    "Stop. Call it when the task is finished and there is nothing left to do or to say.",
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


class AgentIdentity(NamedTuple):
    """The agent that the tools are bound to, and the subject of its keyed thread, None without a memory of its own."""

    agent: str
    subject: str | None = None


class AgentToolset(Mapping[str, Tool]):
    """Tools by the names that the model uses. Immutable. `DONE` is not among them, but among the schemas."""

    def __init__(self, tools: Toolset) -> None:
        self._tools = tools
        # What the loop handles keeps its name.
        names = model_names([*tools, *_RESERVED])
        self._names = {model: name for model, name in names.items() if name in tools and model not in _RESERVED}

    @classmethod
    def for_agent(
        cls, patterns: Iterable[str] | None, caller: Caller, identity: AgentIdentity, tools: Toolset = ALL_TOOLS
    ) -> AgentToolset:
        """Return the tools of `tools` that the agent may use: those named by `patterns` (None: `DEFAULT_TOOLS`) and
        allowed to the caller. A destructive tool must be named in full; tools for people are never selected.

        The parameters `agent`, `subject` and `user` are bound: the model neither sees nor sets them.
        """
        listed = tuple(DEFAULT_TOOLS if patterns is None else patterns)
        chosen = tools.allowed_to(caller)
        named = [name for name, tool in chosen.items() if _selects(listed, tool)]
        bound = chosen.only(named).bind(agent=identity.agent, subject=identity.subject, user=f"id:{caller.user_id}")
        return cls(bound)

    def __getitem__(self, name: str) -> Tool:
        return self._tools[self._names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def schemas(self) -> Sequence[ToolSchema]:
        """The schemas for the model in the order of the table, `DONE` last."""
        order = {name: place for place, name in enumerate(self._tools)}
        names = sorted(self._names.items(), key=lambda pair: order[pair[1]])
        return [*(model_schema(self._tools[name], model) for model, name in names), DONE]

    async def call(self, name: str, context: Context, given: Mapping[str, Any]) -> BaseModel:
        """Call the tool that the model calls `name`. Raises NotFound with the nearest names, and what `Toolset.call`
        raises."""
        tool = self._names.get(name)
        if tool is None:
            raise unknown_name("tool", name[:200], (*self._names, DONE.name), NotFound)
        return await self._tools.call(tool, context, given)


def _selects(patterns: Iterable[str], tool: Tool) -> bool:
    if tool.people:
        return False
    return any(each == tool.name or (not tool.destructive and matches(each, tool.name)) for each in patterns)
