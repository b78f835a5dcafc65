"""`python -m runtime.generate.mcp_listing` writes `listing.json`: tools and resources in the form of the Model Context
Protocol (MCP 2025-11-25, `Tool`, `Resource`, `ResourceTemplate`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from runtime.mcp.listing import FILE
from runtime.tools import TOOLS
from runtime.tools.model.schema import model_schema
from runtime.tools.resources import RESOURCES, Resource
from runtime.tools.tool import Tool

_ERROR: Final = {
    "title": "Error",
    "description": "The error, in place of a result, if the call failed.",
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


def render() -> str:
    """Return the content of the committed file."""
    tools = [_row(tool) for tool in TOOLS.values()]
    resources = [_resource(row) for row in RESOURCES.values()]
    return json.dumps({"tools": tools, "resources": resources}, indent=1, ensure_ascii=False) + "\n"


def _row(tool: Tool) -> dict[str, Any]:
    return {
        "scope": tool.scope,
        "group": tool.group,
        "mayRead": tool.may_read,
        "tool": _tool(tool),
        "outputSchema": _with_error(tool.result_schema),
    }


def _tool(tool: Tool) -> dict[str, Any]:
    """Return the tool as short as for an agent: a client has all of them in its context all the time."""
    short = model_schema(tool, tool.name)
    return {
        "name": tool.name,
        "title": tool.title,
        "description": short.description,
        "inputSchema": _open(short.parameters) if tool.aliases else short.parameters,
        "annotations": {
            "readOnlyHint": tool.read_only,
            "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent,
            # Tools reach nothing outside the root except services that its owner configured.
            "openWorldHint": False,
        },
    }


def _open(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that does not refuse the other names of parameters, which are accepted and not listed."""
    return {key: value for key, value in schema.items() if key != "additionalProperties"}


def _with_error(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that accepts `schema` or an error. Clients in TypeScript validate the structured content of
    errors too, and would otherwise show the model a validation error instead of ours."""
    needed = schema.get("required", [])
    own = schema.get("properties", {})
    # A result may say itself why something failed.
    properties = {**own, "error": {"anyOf": [own["error"], _ERROR]} if "error" in own else _ERROR}
    rest = {key: value for key, value in schema.items() if key not in {"required", "properties"}}
    return {**rest, "properties": properties, "anyOf": [{"required": needed}, {"required": ["error"]}]}


def _resource(row: Resource) -> dict[str, Any]:
    return {
        "uriTemplate" if row.parameters else "uri": row.uri,
        "name": row.name,
        "title": row.title,
        "description": row.doc,
        "mimeType": "application/json",
    }


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")
