"""Arguments of a call, converted to the types of the tool's parameters where that loses nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from runtime.agents.reply.relaxed_json import as_integer, number, read_whole
from runtime.memory.item import well_formed

_NUMBER: Final = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\Z", re.ASCII)
_NOTHING: Final = frozenset({"", "null", "none", "undefined"})
_BOOLEANS: Final = {"true": True, "false": False}


def convert(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a value as the type that a JSON Schema asks for; the value itself where that would change its meaning.

    `"5"` is 5 for an integer, `5` is "5" for a text, `"true"` is true, a JSON text is its list or object, and one value
    is a list of it. Members of objects and lists likewise.
    """
    types = _types(schema)
    if not types:
        return value
    kind = _type_of(value)
    if kind in types or (kind == "integer" and "number" in types):
        return _convert_members(value, _schema_of(kind, schema))
    return _cast(value, kind, types, schema)


def client_arguments(given: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an MCP client, converted by the whole schema of a tool's parameters: its model does not
    see how the client wrote them, and cannot correct it.

    An empty text is null where null is allowed and an empty text is not: clients send it for optional fields.
    """
    properties = schema["properties"]
    return {
        name: _empty_as_null(convert(value, part), part) if (part := properties.get(name)) else value
        for name, value in given.items()
    }


def _empty_as_null(value: Any, schema: Mapping[str, Any]) -> Any:
    if value != "" or "null" not in _types(schema):
        return value
    texts = (each for each in _alternatives(schema) if each.get("type") == "string")
    return (
        None if all(each.get("minLength") or {"pattern", "enum", "format"} & each.keys() for each in texts) else value
    )


def _cast(value: Any, kind: str, types: set[str], schema: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return _from_text(value, types, schema)
    if kind == "number" and "integer" in types and isinstance(found := as_integer(value), int):
        return found
    if "array" in types and kind != "null":
        items = _schema_of("array", schema).get("items")
        element = convert(value, items) if isinstance(items, Mapping) else value
        return [element] if not isinstance(items, Mapping) or _type_of(element) in (_types(items) or {kind}) else value
    if "string" in types and kind in ("integer", "number", "boolean"):
        return str(value).lower() if kind == "boolean" else str(value)
    return value


def _from_text(text: str, types: set[str], schema: Mapping[str, Any]) -> Any:
    """Return a text as a value of one of `types`, none of which is a text."""
    plain = text.strip()
    if "null" in types and plain.casefold() in _NOTHING:
        return None
    if "boolean" in types and plain.casefold() in _BOOLEANS:
        return _BOOLEANS[plain.casefold()]
    if types & {"integer", "number"} and _NUMBER.match(plain):
        found = number(plain.removeprefix("+"))
        if isinstance(found, float) and "number" not in types:
            found = as_integer(found)
        if isinstance(found, int) or (isinstance(found, float) and "number" in types):
            return found
    if types & {"array", "object"} and plain[:1] in ("[", "{"):
        value, exact = read_whole(plain)
        if exact and _type_of(value) in types:
            return convert(value, schema)
    if "array" in types and plain and not any(mark in plain for mark in ",;\n[{"):
        # Several values in one text could be separated in several ways.
        return _cast_element(text, schema)
    return text


def _cast_element(text: str, schema: Mapping[str, Any]) -> Any:
    items = _schema_of("array", schema).get("items")
    if not isinstance(items, Mapping) or not (types := _types(items)):
        return [text]
    element = convert(text, items)
    return [element] if _type_of(element) in types else text


def _convert_members(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
        return [convert(each, items) for each in value]
    if isinstance(value, dict) and isinstance(properties := schema.get("properties"), Mapping):
        return {key: convert(each, properties[key]) if key in properties else each for key, each in value.items()}
    return value


def _alternatives(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    inner = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return [deep for each in inner if isinstance(each, Mapping) for deep in _alternatives(each)] or [schema]


def _types(schema: Mapping[str, Any]) -> set[str]:
    """Return the types that a schema allows; empty if it does not say for each of its alternatives."""
    found: set[str] = set()
    for each in _alternatives(schema):
        types = each.get("type")
        if types is None:
            return set()
        found |= {types} if isinstance(types, str) else set(types)
    return found


def _schema_of(kind: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    for each in _alternatives(schema):
        types = each.get("type")
        if types == kind or (isinstance(types, list) and kind in types):
            return each
    return {}


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def well_formed_value(value: Any) -> Any:
    """Return a JSON value without lone surrogates."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [well_formed_value(each) for each in value]
    if isinstance(value, dict):
        return {well_formed(key): well_formed_value(each) for key, each in value.items()}
    return value
