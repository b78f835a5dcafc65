"""Instructions for a model about the form of its replies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.models.request import ToolSchema
from runtime.tools.model.signature import signature


def reply_instructions(tools: Sequence[ToolSchema]) -> str:
    """Return the instructions for a reply in JSON, with an example that calls one of `tools`."""
    if not tools:
        return 'Reply with one JSON object only:\n{"messages": ["your answer"]}'
    return (
        "Reply with one JSON object only, like this:\n"
        f"{json.dumps(_example(tools), ensure_ascii=False)}\n"
        "`messages`: what you say; [] to say nothing yet.\n"
        "`tool_calls`: the tools to call now; [] for none. You receive their results and continue."
    )


def tool_list(tools: Sequence[ToolSchema]) -> str:
    """Return one line for each tool: its signature, and the begin of its description."""
    return "\n".join(f"- {signature(tool)}: {_first_line(tool)}" for tool in tools)


def _first_line(tool: ToolSchema) -> str:
    return tool.description.strip().partition("\n")[0]


def _example(tools: Sequence[ToolSchema]) -> dict[str, Any]:
    """Return a reply that calls the first tool that has a required parameter, else the first tool."""
    tool = next((tool for tool in tools if tool.parameters.get("required")), tools[0])
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    arguments = {name: _value(properties.get(name, {})) for name in tool.parameters.get("required", ())}
    return {"messages": ["a short text"], "tool_calls": [{"name": tool.name, "args": arguments}]}


def _value(schema: Mapping[str, Any]) -> Any:
    """Return a value that a schema allows, short and without a meaning."""
    if examples := schema.get("examples"):
        return examples[0]
    if "enum" in schema:
        return schema["enum"][0]
    if inner := [*schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        return _value(inner[0])
    kind = schema.get("type")
    if kind == "array":
        return [_value(schema.get("items", {}))]
    if kind == "object":
        properties: Mapping[str, Any] = schema.get("properties", {})
        return {name: _value(properties.get(name, {})) for name in schema.get("required", ())}
    values: dict[Any, Any] = {"integer": 1, "number": 1.5, "boolean": True, "null": None}
    return values.get(kind, "…")
