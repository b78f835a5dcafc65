"""What a model is told about the form of its replies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.models.request import ToolSchema


def reply_instructions(tools: Sequence[ToolSchema]) -> str:
    """Return how to reply in JSON, with an example that calls one of `tools`."""
    if not tools:
        return 'Reply with one JSON object and nothing else:\n{"messages": ["your answer"]}'
    return (
        "Reply with one JSON object and nothing else, like this:\n"
        f"{json.dumps(_example(tools), ensure_ascii=False)}\n"
        "`messages`: what you say, one text each; [] to say nothing yet.\n"
        "`tool_calls`: the tools to call now, each by its name with its `args`; [] to call none. "
        "You receive their results and continue."
    )


def tool_list(tools: Sequence[ToolSchema]) -> str:
    """Return one line for each tool: its name, its parameters with their types, and the begin of its description.

    `?` marks a parameter that may be omitted.
    """
    return "\n".join(f"- {tool.name}({_parameters(tool.parameters)}): {_first_line(tool)}" for tool in tools)


def _first_line(tool: ToolSchema) -> str:
    return tool.description.strip().partition("\n")[0]


def _parameters(schema: Mapping[str, Any]) -> str:
    required = set(schema.get("required", ()))
    properties: Mapping[str, Any] = schema.get("properties", {})
    return ", ".join(
        f"{name}{'' if name in required else '?'}: {_type_name(each)}" for name, each in properties.items()
    )


def _type_name(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])
    if inner := [*schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        return " | ".join(dict.fromkeys(_type_name(each) for each in inner if each.get("type") != "null"))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type_name(schema.get('items', {}))}"
    return " | ".join(kind) if isinstance(kind, list) else str(kind)


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
