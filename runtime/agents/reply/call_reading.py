"""Reads one call of a tool: its name, its arguments, and whether nothing was lost."""

from __future__ import annotations

import re
from typing import Any, Final

from runtime.agents.reply.agent_reply import BLANK, AgentCall, Rung
from runtime.agents.reply.arguments import converted, well_formed_value
from runtime.agents.reply.json_text.relaxed import BrokenJson, Reader
from runtime.agents.reply.json_text.repair import repaired
from runtime.agents.reply.reply_values import RawCall
from runtime.agents.reply.tool_names import ToolNames
from runtime.memory.item import well_formed

_FENCE: Final = re.compile(r"\A(?:```+|~~~+)[\w+-]*\s*|\s*(?:```+|~~~+)\s*\Z")


def read_call(raw: RawCall, reader: Reader, tools: ToolNames, call_id: str) -> tuple[AgentCall, Rung]:
    """Return a call with the name of a known tool and arguments of its types, and by which rung it was read.

    `reader`: what was assumed about the text that the call is from.
    """
    tool = tools.find(raw.name)
    arguments, rung = _object(raw.arguments, dict(tool.parameters.get("properties", {})) if tool else None)
    if tool is not None:
        arguments = converted(arguments, tool.parameters)
        if tool.name != raw.name and rung == "strict":
            rung = "lossless"
    if not _is_whole(raw, reader):
        rung = "repaired"
    return AgentCall(call_id, tool.name if tool else well_formed(raw.name), well_formed_value(arguments)), rung


def _object(arguments: Any, properties: dict[str, Any] | None) -> tuple[dict[str, Any], Rung]:
    """Return arguments as an object, and by which rung they were read. `properties`: the tool's, None if unknown."""
    if isinstance(arguments, dict):
        return arguments, "strict"
    text = arguments.strip(BLANK) if isinstance(arguments, str) else None
    if arguments is None or arguments == [] or text == "":
        return {}, "strict"
    if text is not None:
        value, exact = _value_of(text)
        if isinstance(value, dict):
            return value, "lossless" if exact else "repaired"
        if _FENCE.sub("", text)[:1] == "{":
            # An object that cannot be read, and not a text for the only parameter.
            return {}, "repaired"
    if properties is not None and len(properties) == 1:
        return {next(iter(properties)): arguments}, "lossless"
    return {}, "repaired"


def _is_whole(raw: RawCall, reader: Reader) -> bool:
    """True if the brackets that the reader assumed cannot have changed a call.

    The end of the text closes nothing inside a call, which may have had more arguments. A bracket that is missing
    elsewhere does not matter unless an argument is an object, which may have ended earlier.
    """
    containers = _containers(raw.arguments)
    if _among(containers, reader.unclosed):
        return False
    source = [] if raw.source is None else [raw.source]
    if raw.flat and _among(source, reader.unclosed):
        return False
    if raw.source is not None and _among(source, reader.unclosed) and raw.arguments == {}:
        return False
    nested = any(isinstance(each, dict) for each in containers[1:])
    return not (nested and _among([*source, *containers], reader.implied))


def _containers(value: Any) -> list[Any]:
    found = [value] if isinstance(value, dict | list) else []
    for each in found:
        inner = each.values() if isinstance(each, dict) else each
        found += [deeper for deeper in inner if isinstance(deeper, dict | list)]
    return found


def _among(values: list[Any], others: list[object]) -> bool:
    identities = {id(each) for each in others}
    return any(id(each) in identities for each in values)


def _value_of(text: str) -> tuple[Any, bool]:
    """Return the value of arguments that are a JSON text, and whether it lost nothing."""
    body = _FENCE.sub("", text)
    reader = Reader(body)
    try:
        value, end = reader.value(0)
    except BrokenJson:
        value = repaired(body) if body[:1] == "{" else None
        return value, False
    if isinstance(value, str) and value.strip(BLANK)[:1] == "{" and reader.space(end) == len(body):
        return _value_of(value.strip(BLANK))
    if reader.space(end) != len(body) and body[end:].strip(BLANK + "}]"):
        return value, False
    return value, not (reader.guessed or reader.unclosed or reader.implied)
