"""Reading of an operation's parameters: a clear line of text for an invalid one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.clock import Clock, rfc3339
from runtime.errors import UsageError
from runtime.tools.time_input import read_moment


def text(parameters: Mapping[str, Any], name: str) -> str:
    """Return the required text parameter `name`. Raises UsageError."""
    value = parameters.get(name)
    if value == "":
        raise UsageError(f"{name} is empty")
    if not isinstance(value, str):
        raise UsageError(f"the parameter {name} is missing or not text")
    return unicode(value, name)


def unicode(value: str, name: str) -> str:
    """Return `value`. Raises UsageError if it contains lone surrogates, which no database accepts: JSON and command
    arguments may contain them."""
    if not value.isascii() and any("\ud800" <= each <= "\udfff" for each in value):
        raise UsageError(f"the parameter {name} is not Unicode text")
    return value


def optional_text(parameters: Mapping[str, Any], name: str) -> str | None:
    """Return the text parameter `name`, or None. Raises UsageError."""
    return text(parameters, name) if parameters.get(name) is not None else None


def integer(parameters: Mapping[str, Any], name: str, default: int, low: int, high: int) -> int:
    """Return the whole number `name` between `low` and `high`, or `default`. Raises UsageError."""
    value = parameters.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise UsageError(f"the parameter {name} is not a whole number from {low} to {high}")
    return value


def flag(parameters: Mapping[str, Any], name: str) -> bool:
    """Return the truth value `name`, False if it is absent. Raises UsageError."""
    value = parameters.get(name, False)
    if not isinstance(value, bool):
        raise UsageError(f"the parameter {name} is not true or false")
    return value


def moment(parameters: Mapping[str, Any], name: str, clock: Clock) -> int | None:
    """Return the time parameter `name` in Unix milliseconds, see `read_moment`; None if it is absent. Raises
    UsageError."""
    value = optional_text(parameters, name)
    return None if value is None else round(read_moment(value, name, clock).timestamp() * 1000)


def time_json(milliseconds: int | None) -> str | None:
    """Return a Unix time in RFC 3339; None for None."""
    return None if milliseconds is None else rfc3339(milliseconds / 1000)
