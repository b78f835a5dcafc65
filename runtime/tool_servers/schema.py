"""JSON Schemas of a server's tools: bounded, without references, in the shapes that `runtime.tools.model.schema`
reads. They are not used to validate anything: a pattern of a server would be run against a model's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

MOST_PARTS: Final = 5000
"""Maximum parts of a schema after its references are replaced."""
DEEPEST: Final = 32
"""Maximum depth of a schema."""

_LEFT_OUT: Final = frozenset(
    {"$ref", "$defs", "definitions", "$schema", "$id", "$anchor", "$comment", "oneOf", "allOf"}
)


def plain_schema(given: Any) -> dict[str, Any]:
    """Return the schema of a tool's parameters as an object without references.

    A reference that is circular, or leads nowhere or elsewhere, accepts anything. Raises ValueError, with the end of a
    sentence, for what is no schema of an object, and for one that is too large.
    """
    if not isinstance(given, Mapping):
        raise ValueError("is not an object")
    found = _Reader(given).part(given, (), 0)
    if found.get("type", "object") != "object":
        raise ValueError("is not one of an object")
    found["type"] = "object"
    found.setdefault("properties", {})
    return found


class _Reader:
    """Reads one schema. `parts` counts what was read."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self._whole = whole
        self._parts = 0

    def part(self, part: Any, inside: tuple[str, ...], depth: int) -> dict[str, Any]:
        """Return a part without references. `inside`: the references that led here."""
        self._parts += 1
        if self._parts > MOST_PARTS or depth > DEEPEST:
            raise ValueError("is too large or nested too deep")
        if isinstance(part, bool):
            return {}
        if not isinstance(part, Mapping):
            raise ValueError("is not valid")
        found = self._referred(part, inside, depth)
        for key, value in part.items():
            if key not in _LEFT_OUT:
                found[key] = self._keyword(key, value, inside, depth)
        for one in _list(part.get("allOf", ())):
            found = _merged(found, self.part(one, inside, depth + 1))
        kinds = found.get("type")
        if isinstance(kinds, list):
            found |= _alternatives(found, [{"type": each} for each in kinds if isinstance(each, str)])
        if "oneOf" in part:
            choices = [self.part(each, inside, depth + 1) for each in _list(part["oneOf"])]
            found.setdefault("anyOf", choices)
        return found

    def _referred(self, part: Mapping[str, Any], inside: tuple[str, ...], depth: int) -> dict[str, Any]:
        reference = part.get("$ref")
        if not isinstance(reference, str) or reference in inside:
            return {}
        target = self._target(reference)
        return {} if target is None else self.part(target, (*inside, reference), depth + 1)

    def _target(self, reference: str) -> Any:
        """Return what a reference (RFC 6901, in a fragment) of this schema leads to; None if it leads nowhere."""
        if reference != "#" and not reference.startswith("#/"):
            return None
        place: Any = self._whole
        for step in reference.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(place, Mapping) or name not in place:
                return None
            place = place[name]
        return place

    def _keyword(self, key: str, value: Any, inside: tuple[str, ...], depth: int) -> Any:
        match key:
            case "properties":
                if not isinstance(value, Mapping):
                    raise ValueError("is not valid")
                return {name: self.part(each, inside, depth + 1) for name, each in value.items()}
            case "items" | "additionalProperties" | "not" if isinstance(value, Mapping):
                return self.part(value, inside, depth + 1)
            case "items":
                return {}
            case "anyOf":
                return [self.part(each, inside, depth + 1) for each in _list(value)]
            case "required":
                return [each for each in _list(value) if isinstance(each, str)]
            case "enum":
                return list(_list(value))
        return value


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError("is not valid")
    return value


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return two schemas that both hold, as far as a model needs to know."""
    found = {**second, **first}
    if "properties" in first and "properties" in second:
        found["properties"] = {**first["properties"], **second["properties"]}
    if "required" in first and "required" in second:
        found["required"] = list(dict.fromkeys([*first["required"], *second["required"]]))
    return found


def _alternatives(found: dict[str, Any], kinds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what replaces a list of types in a schema: several types are alternatives."""
    del found["type"]
    if len(kinds) == 1:
        return kinds[0]
    return {} if "anyOf" in found or not kinds else {"anyOf": kinds}
