"""A tool call of a reply, and its output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from runtime.errors import NotFound, SymbiontError
from runtime.identity.caller import Caller
from runtime.tables.errors import TablesUnavailable
from runtime.tool_servers.errors import CallUncertain
from runtime.tools.failure import failure_of
from runtime.tools.tool import Tool

Status = Literal["ok", "error", "unknown"]

UNKNOWN: Final = (
    "The daemon or its database stopped while this call was running, so it is not known whether it happened. It is not "
    "repeated. Check before you call it again."
)

UNCERTAIN: Final = "so it is not known whether it happened. Check before you repeat it."
"""The end of a sentence about a call that went wrong."""


class Call(Struct, frozen=True):
    """A tool call of a reply. `id`: unique in the run, the same in every attempt. `extra`: see `ToolCall.extra`."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    extra: dict[str, Any] = {}


class CallOutput(Struct, frozen=True):
    """The output of a call. `unknown`: it was begun, did not end as it should, and may have happened."""

    status: Status
    text: str


def first_ids(calls: Sequence[Call]) -> dict[str, str]:
    """Return the id of the first equal call of a reply, by the ids of all: equal calls run once and share the output,
    because some models write the same call several times."""
    seen: dict[bytes, str] = {}
    keys = ((msgspec.json.encode((call.name, call.arguments), order="deterministic"), call.id) for call in calls)
    return {call_id: seen.setdefault(key, call_id) for key, call_id in keys}


def arguments_json(arguments: Mapping[str, Any]) -> str:
    """Return arguments as JSON."""
    return msgspec.json.encode(arguments).decode()


def step_key(call_id: str) -> str:
    """Return the key of the step that is a call."""
    return f"call/{call_id}"


def output_of(error: SymbiontError, tool: Tool | None, caller: Caller, arguments: Mapping[str, Any]) -> CallOutput:
    """Return the output of a call with these arguments that raised `error`."""
    if isinstance(error, NotFound):
        return CallOutput("error", error.line())
    uncertain = isinstance(error, CallUncertain) or (isinstance(error, TablesUnavailable) and error.maybe_done)
    if uncertain and tool is not None and not tool.repeatable(arguments):
        return CallOutput("unknown", f"{error}, {UNCERTAIN}")
    return CallOutput("error", msgspec.json.encode(failure_of(error, tool, caller).json()).decode())
