"""Plain messages for Pydantic's validation errors, and schemas without references."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

ParameterError = tuple[tuple[str | int, ...], str]
"""Path of names and positions, and the message."""


def problem_of(error: ErrorDetails, model: type[BaseModel], known: Collection[str]) -> ParameterError:
    """Convert an error to a path and a message. `known`: every name that a parameter may have."""
    path, message = error["loc"], error["msg"].removeprefix("Value error, ")
    first = str(path[0]) if path else ""
    field = model.model_fields.get(first)
    if error["type"] == "string_pattern_mismatch" and len(path) == 1 and field is not None and field.description:
        # A pattern is not readable for people.
        message = f"invalid; expected: {_continued(field.description.rstrip('.'))}"
    elif error["type"] == "extra_forbidden" and len(path) == 1:
        message = unknown_parameter(first, known)
    elif error["type"] == "missing":
        message = "it is required"
    return path, _continued(message)


def _continued(sentence: str) -> str:
    """Return a sentence as it goes on after a colon."""
    return sentence if sentence[1:2].isupper() else f"{sentence[:1].lower()}{sentence[1:]}"


def unknown_parameter(given: str, known: Collection[str]) -> str:
    """Return the message for an unknown parameter, with the closest valid name."""
    near = difflib.get_close_matches(given, known, n=1, cutoff=0.6)
    if near:
        return f"there is no such parameter; did you mean {near[0]}?"
    return f"there is no such parameter; there are {', '.join(sorted(known))}" if known else "there are no parameters"


def inlined(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema without references: not every client follows them. No schema here is recursive."""
    definitions = schema.get("$defs", {})

    def plain(part: Any) -> Any:
        if isinstance(part, list):
            return [plain(each) for each in part]
        if not isinstance(part, dict):
            return part
        found = {key: plain(value) for key, value in part.items() if key not in {"$defs", "$ref"}}
        reference = part.get("$ref")
        if isinstance(reference, str):
            return {**plain(definitions[reference.removeprefix("#/$defs/")]), **found}
        return found

    whole: dict[str, Any] = plain(dict(schema))
    return whole
