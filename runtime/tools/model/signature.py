"""The parameters of a tool in one line, for a model that reads them in its prompt: shorter than a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from runtime.models.request import ToolSchema


def signature(tool: ToolSchema) -> str:
    """Return a tool's name, and its parameters with their types: `name(query, limit?: integer = 10)`. `?` marks one
    that may be omitted; one without a type is a text."""
    required = set(tool.parameters.get("required", ()))
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    return f"{tool.name}({', '.join(_parameter(name, each, required) for name, each in properties.items())})"


def descriptions(tools: Iterable[ToolSchema]) -> str:
    """Return the descriptions of tools: the signature of each, what it does, and what its parameters are, unless the
    last parameter of the same name had the same description."""
    lines: list[str] = []
    last: dict[str, str] = {}
    for tool in tools:
        lines.append(f"- {signature(tool)}: {tool.description}")
        for name, each in tool.parameters.get("properties", {}).items():
            text = str(each.get("description", ""))
            if text != last.get(name, ""):
                lines.append(f"  {name}: {text or 'see its name.'}")
            last[name] = text
    return "\n".join(lines)


def _parameter(name: str, schema: Mapping[str, Any], required: set[str]) -> str:
    default = f" = {_text(schema['default'])}" if "default" in schema else ""
    kind = _type_name(schema)
    return f"{name}{'' if name in required else '?'}{'' if kind == 'string' else f': {kind}'}{default}"


def _type_name(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(_text, schema["enum"]))
    if inner := [*schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        return " | ".join(dict.fromkeys(_type_name(each) for each in inner if each.get("type") != "null"))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type_name(schema.get('items', {}))}"
    if kind == "object" and (properties := schema.get("properties")):
        required = set(schema.get("required", ()))
        return f"{{{', '.join(_parameter(name, each, required) for name, each in properties.items())}}}"
    bounds = [f"{word} {schema[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in schema]
    return " ".join([" | ".join(kind) if isinstance(kind, list) else str(kind), *bounds])


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
