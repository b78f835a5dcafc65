"""The JSON Schema of replies, for services that hold a model to one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from runtime.models.request import ToolSchema

MAX_ARGUMENTS: Final = 24_000
"""Maximum size of all arguments' schemas, in characters. Services refuse large schemas or are slow with them."""

_KEPT: Final = frozenset({"type", "enum", "const", "required", "additionalProperties"})
"""Keywords that services turn into a grammar. The tools check the rest."""


@lru_cache(maxsize=64)
def reply_schema(tools: tuple[ToolSchema, ...], max_arguments: int = MAX_ARGUMENTS) -> Mapping[str, Any]:
    """Return the schema of a reply with calls of `tools`; without tools, of messages only.

    Messages come before calls, and a name before its arguments: the model writes in this order. If the arguments'
    schemas are larger than `max_arguments` characters together, those of the largest tools are any object.
    """
    properties: dict[str, Any] = {"messages": {"type": "array", "items": {"type": "string"}}}
    if tools:
        properties["tool_calls"] = {"type": "array", "items": _call(tools, max_arguments)}
    return _object(properties)


@lru_cache(maxsize=64)
def short_reply_schema(tools: tuple[ToolSchema, ...]) -> Mapping[str, Any]:
    """Return `reply_schema` for a service that reads it as a part of the prompt.

    That objects have no other properties is said only if all parameters are required: otherwise OpenAI does not hold
    the model to the schema anyway.
    """
    schema = reply_schema(tools)
    is_strict = all(
        set(each.parameters.get("properties", ())) == set(each.parameters.get("required", ())) for each in tools
    )
    return schema if is_strict else _open(schema)


def _open(schema: Any) -> Any:
    if isinstance(schema, list):
        return list(map(_open, schema))
    if not isinstance(schema, dict):
        return schema
    return {name: _open(each) for name, each in schema.items() if name != "additionalProperties" or each is not False}


def _call(tools: Sequence[ToolSchema], max_arguments: int) -> dict[str, Any]:
    arguments = {tool.name: _reduced_schema(tool.parameters) for tool in tools}
    sizes = {name: len(json.dumps(schema)) for name, schema in arguments.items()}
    total = sum(sizes.values())
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        if total <= max_arguments:
            break
        total -= sizes[name]
        del arguments[name]
    alternatives = [_tool_call([name], schema) for name, schema in arguments.items()]
    if rest := [tool.name for tool in tools if tool.name not in arguments]:
        alternatives.append(_tool_call(rest, {"type": "object"}))
    return alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}


def _tool_call(names: list[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    return _object({"name": {"type": "string", "enum": names}, "args": arguments})


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _reduced_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with its structure and types only."""
    found = {key: value for key, value in schema.items() if key in _KEPT}
    if isinstance(properties := schema.get("properties"), Mapping):
        found["properties"] = {name: _reduced_schema(each) for name, each in properties.items()}
    if isinstance(items := schema.get("items"), Mapping):
        found["items"] = _reduced_schema(items)
    if isinstance(more := schema.get("additionalProperties"), Mapping):
        found["additionalProperties"] = _reduced_schema(more)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            found["anyOf"] = [_reduced_schema(each) for each in schema[key]]
    return found
