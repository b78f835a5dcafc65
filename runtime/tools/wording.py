"""What pydantic finds wrong with parameters, in words for who gave them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping

from pydantic import BaseModel
from pydantic_core import ErrorDetails

Problem = tuple[tuple[str | int, ...], str]
"""Where it is, as names and positions, and what is wrong with it."""


def problem_of(
    error: ErrorDetails, model: type[BaseModel], known: Collection[str], aliases: Mapping[str, str]
) -> Problem:
    """What is wrong, and where. `known`: every name that a parameter may have."""
    path, message = error["loc"], error["msg"].removeprefix("Value error, ")
    first = str(path[0]) if path else ""
    name = aliases.get(first, first)
    field = model.model_fields.get(name)
    if error["type"] == "string_pattern_mismatch" and len(path) == 1 and field is not None and field.description:
        # A pattern is for programs.
        message = f"this is not its form. {field.description}"
    elif error["type"] == "extra_forbidden" and len(path) == 1:
        message = _unknown(first, known, aliases)
    elif error["type"] == "missing":
        message = "it is required"
    return path, message


def _unknown(given: str, known: Collection[str], aliases: Mapping[str, str]) -> str:
    if given in known:
        # Of two names for one parameter the other one was read.
        return f"this is another name for {aliases.get(given, given)}, which is given already"
    near = difflib.get_close_matches(given, known, n=1, cutoff=0.6)
    if near:
        return f"there is no such parameter; did you mean {near[0]}?"
    return f"there is no such parameter; there are {', '.join(sorted(set(known) - set(aliases)))}"
