"""The definition of a server's tool as a person approves it and as a model sees it: bounded, in plain text, with a
schema without references, in the shapes that `runtime.tools.model.schema` reads.

No schema of a server validates anything here: a pattern of a server would be run against a model's text.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import sha256
from typing import Any, Final, Self

LONGEST_DESCRIPTION: Final = 4000
"""Maximum characters of a description; the rest is cut."""
LARGEST_SCHEMA: Final = 64 * 1024
"""Maximum bytes of a schema as JSON; a tool with a larger one is refused."""
MOST_PARTS: Final = 5000
"""Maximum parts of a schema after its references are replaced."""
DEEPEST: Final = 32
"""Maximum depth of a schema."""

_LEFT_OUT: Final = frozenset(
    {"$ref", "$defs", "definitions", "$schema", "$id", "$anchor", "$comment", "oneOf", "allOf"}
)
# Of another type they are a text for the model, in a place where nobody expects one.
_KINDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(("description", "title", "pattern", "format"), str),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), (int, float)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), int),
    "type": (str, list),
}
_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
# Controls, marks of direction, invisible characters: what a person does not see must not reach a model.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})


class InvalidTool(ValueError):  # noqa: N818
    """A tool is not offered, for the reason in the message."""


@dataclass(frozen=True)
class ToolDefinition:
    """A tool of a server. `schema`: of its parameters, an object. The last three are what the server says about it;
    None if it does not say."""

    name: str
    description: str
    schema: Mapping[str, Any]
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None

    @cached_property
    def digest(self) -> str:
        """Identifies everything that is approved of the tool."""
        return digest_of(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the definition as JSON data."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Read the result of `to_json`. Raises TypeError for other data."""
        return cls(**given)


def digest_of(value: Any) -> str:
    """Return the SHA-256 of JSON data, in hexadecimal digits, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def definition_of(
    name: str,
    description: str | None,
    schema: Any,
    *,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
) -> ToolDefinition:
    """Return the definition of a tool as a server gave it. Raises InvalidTool."""
    if _NAME.fullmatch(name) is None:
        raise InvalidTool("its name is not 1 to 128 letters, digits, `_`, `-` and `.`")
    try:
        plain = _visible(plain_schema(schema))
    except ValueError as error:
        raise InvalidTool(f"its schema {error}") from None
    if len(json.dumps(plain)) > LARGEST_SCHEMA:
        raise InvalidTool(f"its schema has more than {LARGEST_SCHEMA} bytes")
    said = visible(description or "").strip()
    if len(said) > LONGEST_DESCRIPTION:
        said = f"{said[:LONGEST_DESCRIPTION]} …"
    return ToolDefinition(name, said, plain, read_only, destructive, idempotent)


def visible(text: str) -> str:
    """Return a text without characters that are not shown, except line ends and tabs."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(each for each in text if each in "\n\t" or unicodedata.category(each) not in _UNSEEN)


def _visible(part: Any) -> Any:
    """Return a schema whose texts are `visible`: a model reads those of `enum` and `default` too. Raises ValueError for
    a name that is not."""
    if isinstance(part, list):
        return [_visible(each) for each in part]
    if not isinstance(part, dict):
        return visible(part) if isinstance(part, str) else part
    found = {key: _visible(value) for key, value in part.items()}
    for name in found.get("properties", ()):
        if visible(name) != name:
            raise ValueError("has a name with characters that are not shown")
    return found


def plain_schema(given: Any) -> dict[str, Any]:
    """Return the schema of a tool's parameters as an object without references.

    A reference that is circular, or leads nowhere or elsewhere, accepts anything. Raises ValueError, with the end of a
    sentence, for what is no schema of an object, and for one that is too large.
    """
    if not isinstance(given, Mapping):
        raise ValueError("is not an object")
    found = _without_alternatives(_Reader(given).part(given, (), 0))
    found["type"] = "object"
    found.setdefault("properties", {})
    return found


def _without_alternatives(part: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object without alternatives: services of models refuse them at the top. It has the
    properties of all of them, and needs what each needs. Raises ValueError if it is not one of an object."""
    if part.get("type", "object") != "object":
        raise ValueError("is not one of an object")
    found = {key: value for key, value in part.items() if key != "anyOf"}
    choices = [_without_alternatives(each) for each in part.get("anyOf", ()) if each.get("type") != "null"]
    if not choices:
        return found
    parts: dict[str, dict[str, dict[str, Any]]] = {}
    for each in choices:
        for name, kind in each.get("properties", {}).items():
            parts.setdefault(name, {})[digest_of(kind)] = kind
    own = found.get("properties", {})
    for name, kinds in parts.items():
        one, *others = kinds.values()
        own[name] = own.get(name) or ({"anyOf": [one, *others]} if others else one)
    common = set.intersection(*(set(each.get("required", ())) for each in choices))
    needed = [*found.get("required", ()), *(name for name in choices[0].get("required", ()) if name in common)]
    return {**found, "properties": own, **({"required": list(dict.fromkeys(needed))} if needed else {})}


class _Reader:
    """Reads one schema. `parts` counts what was read, `bytes` what is no schema itself: a reference repeats it."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self._whole = whole
        self._parts = 0
        self._bytes = 0

    def part(self, part: Any, inside: tuple[str, ...], depth: int) -> dict[str, Any]:
        """Return a part without references. `inside`: the references that led here."""
        self._parts += 1
        if self._parts > MOST_PARTS or depth > DEEPEST:
            raise ValueError("is too large or nested too deep")
        if isinstance(part, bool):
            return {}
        if not isinstance(part, Mapping):
            raise ValueError("is not valid")
        found = self._referenced(part, inside, depth)
        for key, value in part.items():
            if key not in _LEFT_OUT and _has_its_kind(key, value):
                found[key] = self._keyword(key, value, inside, depth)
        for one in _list(part.get("allOf", ())):
            found = _merged(found, self.part(one, inside, depth + 1))
        kinds = found.get("type")
        if isinstance(kinds, list):
            found |= _alternatives(found, [{"type": each} for each in kinds if each in _TYPES])
        if "oneOf" in part:
            choices = [self.part(each, inside, depth + 1) for each in _list(part["oneOf"])]
            found.setdefault("anyOf", choices)
        return found

    def _referenced(self, part: Mapping[str, Any], inside: tuple[str, ...], depth: int) -> dict[str, Any]:
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
                self._count(list(value))
                return {name: self.part(each, inside, depth + 1) for name, each in value.items()}
            case "items" | "additionalProperties" | "not" if isinstance(value, Mapping):
                return self.part(value, inside, depth + 1)
            case "items":
                return {}
            case "anyOf":
                return [self.part(each, inside, depth + 1) for each in _list(value)]
            case "required":
                value = [each for each in _list(value) if isinstance(each, str)]
            case "enum":
                value = list(_list(value))
        self._count(value)
        return value

    def _count(self, value: Any) -> None:
        self._bytes += len(json.dumps(value))
        if self._bytes > LARGEST_SCHEMA:
            raise ValueError(f"has more than {LARGEST_SCHEMA} bytes")


def _has_its_kind(key: str, value: Any) -> bool:
    """Return False for a keyword whose value is of another type than it has to be."""
    if key == "type" and isinstance(value, str):
        return value in _TYPES
    kinds = _KINDS.get(key)
    return kinds is None or (isinstance(value, kinds) and not isinstance(value, bool))


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
