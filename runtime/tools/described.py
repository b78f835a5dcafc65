"""A tool as clients of the Model Context Protocol see it in a list, in plain JSON (MCP 2025-11-25, `Tool`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from runtime.tools.tool import Tool

_ERROR: Final = {
    "title": "Error",
    "description": "Instead of a result, when the call failed.",
    "type": "object",
    "properties": {
        "code": {"type": "string"},
        "message": {"type": "string"},
        "field": {"type": "string"},
        "hint": {"type": "string"},
        "example": {"type": "object"},
    },
    "required": ["code", "message"],
}


def described(tool: Tool) -> dict[str, Any]:
    """What `tools/list` says of `tool`: name, title, description, both schemas, annotations."""
    told = tool.annotations
    return {
        "name": tool.name,
        "title": told.title,
        "description": tool.doc,
        "inputSchema": dict(tool.schema),
        "outputSchema": _with_error(tool.result_schema),
        "annotations": {
            "title": told.title,
            "readOnlyHint": told.read_only,
            "destructiveHint": told.destructive,
            "idempotentHint": told.idempotent,
            # Nothing outside the root is reached but what its owner configured.
            "openWorldHint": False,
        },
    }


def _with_error(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`schema`, or an error: clients in TypeScript hold an error's structured content against the schema too, and would
    show the model their own complaint in place of ours."""
    needed = schema.get("required", [])
    properties = {**schema.get("properties", {}), "error": _ERROR}
    rest = {key: value for key, value in schema.items() if key not in {"required", "properties"}}
    return {**rest, "properties": properties, "anyOf": [{"required": needed}, {"required": ["error"]}]}
