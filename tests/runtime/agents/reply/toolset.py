"""Tools of the tests of replies, with parameters of every type."""

from __future__ import annotations

from typing import Any, Final

from runtime.models.request import ToolSchema


def _tool(name: str, description: str, required: list[str], **properties: Any) -> ToolSchema:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return ToolSchema(name, description, schema)


_TEXT: Final = {"type": "string"}
_TAGS: Final = {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}

TOOLS: Final = (
    _tool("memory_append", "Append to a block.", ["label", "content"], label=_TEXT, content=_TEXT),
    _tool(
        "memory_insert", "Insert a line.", ["label", "content"], label=_TEXT, content=_TEXT, line={"type": "integer"}
    ),
    _tool("archival_insert", "Remember a text.", ["content"], content=_TEXT, tags=_TAGS),
    _tool("archival_search", "Search.", ["query"], query=_TEXT, tags=_TAGS, limit={"type": "integer"}),
    _tool("web-fetch", "Fetch a page.", ["url"], url=_TEXT),
    _tool(
        "set_lights",
        "Switch the lights.",
        ["on"],
        on={"type": "boolean"},
        level={"type": "number"},
        rooms={"type": "object", "properties": {"kitchen": {"type": "integer"}}},
    ),
    _tool("done", "Stop.", []),
)
READS: Final = frozenset({"archival_search", "done"})
