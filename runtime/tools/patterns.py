"""Patterns of names and ids in parameters, lists of texts in them, and the type of secrets in results."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, SerializationInfo

from runtime.memory.item import well_formed

FOR_AGENTS: Final = {"agents": True}
"""The context in which a result is written for an agent, whose thread keeps it, and not for who called the tool."""
WITHHELD: Final = "[withheld: `symbi webhook secret` shows it to a person]"


def _withheld(value: str | None, info: SerializationInfo) -> str | None:
    if value is None or info.context != FOR_AGENTS:
        return value
    return WITHHELD


NewSecret = Annotated[str | None, PlainSerializer(_withheld)]
"""A secret that a tool made. An agent, its thread and its model's service never get it."""

AGENT: Final = r"^[A-Za-z0-9_.-]{1,64}$"
UUID: Final = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
EXAMPLE_ID: Final = "0195e7c0-5a3c-7e10-8f00-3c1d2e4b5a60"


def as_list(value: Any) -> Any:
    """Return a single text as a list, and parse a list in JSON, which some clients send in place of text."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        with suppress(ValueError, RecursionError):
            read = json.loads(value)
            if isinstance(read, list) and all(isinstance(each, str) for each in read):
                return [well_formed(each) for each in read]
    return [value]


def _check_not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is blank")
    return text


NOT_BLANK: Final = AfterValidator(_check_not_blank)
UNIQUE: Final = AfterValidator(lambda values: list(dict.fromkeys(values)))
"""A list in which each value is once, in the order of the first ones."""
ONE_OR_MORE: Final = BeforeValidator(as_list)
"""A list of texts, for which a single one is accepted too."""
