"""Plain messages for Pydantic's validation errors, and schemas without references."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

ParameterError = tuple[tuple[str | int, ...], str]
"""Path of names and positions, and the message."""

MOST_PROBLEMS: Final = 20
"""Maximum problems that an answer describes."""
_LONGEST_NAME: Final = 80
"""Maximum characters of a caller's name in a problem."""


def problems_of(
    error: ValidationError, model: type[BaseModel], known: Collection[str] = ()
) -> tuple[ParameterError, ...]:
    """Convert the errors to paths and messages, the first `MOST_PROBLEMS` of them. `known`: every name that a parameter
    may have, beside the fields of the model."""
    details = error.errors(include_url=False, include_input=False, include_context=False)
    names = (*model.model_fields, *known)
    return _few((_problem_of(each, model, names) for each in details[:MOST_PROBLEMS]), len(details))


def size_problems(
    given: Mapping[str, Any], model: type[BaseModel], known: Collection[str] = ()
) -> tuple[ParameterError, ...]:
    """Return the problems of values that have many more parts than any valid ones, before a validation that would make
    an error of each part; empty if there are none."""
    names = (*model.model_fields, *known)
    unknown = [name for name in given if name not in names]
    if len(unknown) > MOST_PROBLEMS:
        return _few((((_cut(each),), unknown_parameter(each, names)) for each in unknown), len(unknown))
    limits = _most_parts(model)
    return tuple(
        ((name,), f"it has {len(value):,} parts; at most {limits[name]:,} are allowed")
        for name, value in given.items()
        if name in limits and isinstance(value, list | dict) and len(value) > limits[name] + MOST_PROBLEMS
    )


def _few(problems: Iterator[ParameterError], count: int) -> tuple[ParameterError, ...]:
    """Return the first problems; the last one names the number of the others."""
    if count <= MOST_PROBLEMS:
        return tuple(problems)
    shown = tuple(problem for problem, _ in zip(problems, range(MOST_PROBLEMS - 1), strict=False))
    return (*shown, ((), f"and {count - len(shown):,} more problems"))


@cache
def _most_parts(model: type[BaseModel]) -> Mapping[str, int]:
    """Return the maximum parts of a list or an object in each field that may be one."""
    properties = inlined(model.model_json_schema())["properties"]
    found = {name: max(_limits(schema), default=None) for name, schema in properties.items()}
    return {name: most for name, most in found.items() if most is not None}


def _limits(schema: Mapping[str, Any]) -> Iterator[int]:
    """Return the limits in a schema, of each form that a value may have."""
    for name in ("maxItems", "maxProperties"):
        if name in schema:
            yield schema[name]
    if schema.get("additionalProperties") is False:
        yield len(schema["properties"])
    for each in schema.get("anyOf", ()):
        yield from _limits(each)


def _cut(part: str | int) -> str | int:
    return f"{part[: _LONGEST_NAME - 1]}…" if isinstance(part, str) and len(part) > _LONGEST_NAME else part


def _problem_of(error: ErrorDetails, model: type[BaseModel], known: Collection[str]) -> ParameterError:
    """Convert an error to a path and a message. `known`: every name that a parameter may have."""
    path, message = tuple(map(_cut, error["loc"])), error["msg"].removeprefix("Value error, ")
    first = str(path[0]) if path else ""
    field = model.model_fields.get(first)
    if error["type"] == "string_pattern_mismatch" and len(path) == 1 and field is not None and field.description:
        # A pattern is not readable for people.
        message = f"invalid; expected: {_after_colon(field.description.rstrip('.'))}"
    elif error["type"] == "extra_forbidden" and len(path) == 1:
        message = unknown_parameter(first, known)
    elif error["type"] == "string_too_short" and error["msg"].endswith("at least 1 character"):
        message = "it is empty"
    elif error["type"] == "missing":
        message = "it is required"
    return path, _after_colon(message)


def _after_colon(sentence: str) -> str:
    """Return a sentence as it goes on after a colon."""
    return sentence if sentence[1:2].isupper() else f"{sentence[:1].lower()}{sentence[1:]}"


def unknown_parameter(given: str, known: Collection[str]) -> str:
    """Return the message for an unknown parameter, with the closest valid name."""
    given = given[:_LONGEST_NAME]
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
