"""Reads one call of a tool: its name, its arguments, and whether nothing was lost."""

from __future__ import annotations

from typing import Any

from runtime.agents.reply.agent_reply import BLANK, AgentCall, Rung
from runtime.agents.reply.arguments import convert, well_formed_value
from runtime.agents.reply.relaxed_json import Reader, read_whole
from runtime.agents.reply.reply_values import RawCall
from runtime.memory.item import well_formed
from runtime.models.request import ToolSchema


def read_call(raw: RawCall, reader: Reader, tool: ToolSchema | None, call_id: str) -> tuple[AgentCall, Rung]:
    """Return a call with arguments of the types of its `tool`, None if it is unknown, and by which rung it was read.

    `reader`: what was assumed about the text that the call is from.
    """
    arguments, rung = _object(raw.arguments)
    if tool is not None:
        arguments = convert(arguments, tool.parameters)
    if not _is_whole(raw, reader):
        rung = "repaired"
    return AgentCall(call_id, well_formed(raw.name), well_formed_value(arguments)), rung


def _object(arguments: Any) -> tuple[dict[str, Any], Rung]:
    """Return arguments as an object, and by which rung they were read. An object that cannot be read has no members."""
    if isinstance(arguments, dict):
        return arguments, "strict"
    if isinstance(arguments, str):
        arguments = arguments.strip(BLANK)
    if arguments in (None, [], ""):
        return {}, "strict"
    if isinstance(arguments, str):
        value, exact = read_whole(arguments)
        if isinstance(value, dict):
            return value, "lossless" if exact else "repaired"
    return {}, "repaired"


def _is_whole(raw: RawCall, reader: Reader) -> bool:
    """True if the brackets that the reader assumed cannot have changed a call.

    The end of the text closes nothing inside a call, which may have had more arguments. A bracket that is missing
    elsewhere does not matter unless an argument is an object, which may have ended earlier.
    """
    containers = _containers(raw.arguments)
    if _has_any(containers, reader.unclosed):
        return False
    source = [] if raw.source is None else [raw.source]
    if raw.flat and _has_any(source, reader.unclosed):
        return False
    if raw.source is not None and _has_any(source, reader.unclosed) and raw.arguments == {}:
        return False
    nested = any(isinstance(each, dict) for each in containers[1:])
    return not (nested and _has_any([*source, *containers], reader.implied))


def _containers(value: Any) -> list[Any]:
    found = [value] if isinstance(value, dict | list) else []
    for each in found:
        inner = each.values() if isinstance(each, dict) else each
        found += [deeper for deeper in inner if isinstance(deeper, dict | list)]
    return found


def _has_any(values: list[Any], others: list[object]) -> bool:
    identities = {id(each) for each in others}
    return any(id(each) in identities for each in values)
