"""Finds messages and calls in a JSON value, in the form that was asked for and in those that models use instead."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field

from runtime.models.request import ToolSchema

_MESSAGES: Final = ("messages", "message")
_CALLS: Final = ("tool_calls", "tool_call")
_TEXTS: Final = ("content", "text", "response", "answer")
_NAMES: Final = ("name", "function")
_ARGUMENTS: Final = ("args", "arguments", "parameters", "input")
_BESIDE: Final = frozenset({"id", "type", "index", "call_id", "tool_call_id", *_NAMES, *_ARGUMENTS})
"""Keys of a call that are no arguments."""
_NOT_SHOWN: Final = frozenset({"user", "human", "system", "tool", "developer", "function"})
"""Roles of messages that a model repeats or invents, and does not say."""
_NONE: Final = frozenset({"", "none", "null", "n/a", "[]", "{}"})
_NAME: Final = re.compile(r"[\w.-]{1,64}\Z")
MAX_CALLS: Final = 128
"""Maximum number of calls of a value. A model that writes more repeats itself."""


class RawCall(Struct):
    """A call as it was written. `source`: the object that it was read from."""

    name: str
    arguments: Any
    source: dict[str, Any] | None = None
    flat: bool = False
    """Arguments are members of `source`, and not only of an object of their own."""


class Contents(Struct):
    """The content of a value. `unreadable`: something in it is neither. `lost`: something in it was meant as a call, or
    as messages, and is left out."""

    messages: list[str] = field(default_factory=list)
    calls: list[RawCall] = field(default_factory=list)
    unreadable: bool = False
    lost: bool = False


class ValueReader:
    """Reads values with the tools of a request, by name."""

    def __init__(self, tools: Mapping[str, ToolSchema]) -> None:
        self._tools = tools

    def recognizes(self, value: Any, tagged: bool) -> bool:
        """True if a value is part of a reply wherever in a text it is. `tagged`: it is marked as a tool call."""
        if isinstance(value, list):
            return bool(value) and all(isinstance(each, dict) and self.recognizes(each, tagged) for each in value)
        if not isinstance(value, dict):
            return False
        return self._envelope_of(value) is not None or self._is_call(value, known=not tagged)

    def is_call_only(self, value: Any) -> bool:
        """True if a value is a call, or calls, without the form that was asked for."""
        if isinstance(value, list):
            return all(map(self.is_call_only, value))
        return isinstance(value, dict) and self._envelope_of(value) is None

    def read(self, value: Any) -> Contents | None:
        """Return the content of a value, or None if it is not a reply. Here also as a model may mean it only where its
        text is nothing else than this value."""
        contents = Contents()
        if isinstance(value, str):
            contents.messages.append(value)
        elif isinstance(value, list):
            if value and not all(isinstance(each, str | dict) for each in value):
                return None
            for each in value:
                if isinstance(each, dict) and not self._is_call(each, known=False):
                    inner = self.read(each)
                    if inner is None:
                        return None
                    extend(contents, inner)
                else:
                    self._message(each, contents)
        elif isinstance(value, dict):
            return self._object(value, contents)
        elif value is not None:
            return None
        return contents

    def _object(self, value: dict[str, Any], contents: Contents) -> Contents | None:
        if (envelope := self._envelope_of(value)) is not None:
            for key in _MESSAGES:
                if isinstance(text := envelope.get(key), int | float):
                    contents.lost = True
                else:
                    self._message(text, contents)
            for key in _CALLS:
                self._calls(envelope.get(key), contents)
            if not envelope.keys() & set(_MESSAGES):
                self._message(_first(envelope, _TEXTS), contents)
        elif self._is_call(value, known=False):
            self._call(value, contents)
        elif value:
            if not isinstance(text := _first(value, _TEXTS), str | list):
                return None
            self._message(text, contents)
        return contents

    def _envelope_of(self, value: dict[str, Any]) -> dict[str, Any] | None:
        """Return the object with messages or calls: the value, or the only object in it."""
        if self._is_envelope(value):
            return value
        if self._is_call(value, known=False):
            return None
        inner = [each for each in value.values() if isinstance(each, dict)]
        return inner[0] if len(inner) == 1 and self._is_envelope(inner[0]) else None

    def _is_envelope(self, value: dict[str, Any]) -> bool:
        """True if an object has messages or calls, and not their description."""
        for key in (*_MESSAGES, *_CALLS):
            inner = value.get(key, 0)
            if isinstance(inner, dict):
                if key in _CALLS and (not inner or self._is_call(inner, known=False)):
                    return True
                if key in _MESSAGES and inner.keys() & {*_TEXTS, *_CALLS}:
                    return True
            elif isinstance(inner, str | list | None):
                return True
        return False

    def _is_call(self, value: dict[str, Any], *, known: bool) -> bool:
        """True if an object is a call. `known`: only of a known tool."""
        function = value.get("function")
        if isinstance(function, dict):
            return self._is_call(function, known=known)
        name = _first(value, _NAMES)
        if not isinstance(name, str):
            return False
        return name in self._tools or (
            not known and any(each in value for each in _ARGUMENTS) and _NAME.match(name) is not None
        )

    def _message(self, value: Any, contents: Contents) -> None:
        if isinstance(value, str):
            contents.messages.append(value)
        elif isinstance(value, list):
            for each in value:
                self._message(each, contents)
        elif isinstance(value, dict):
            self._message_object(value, contents)
        elif value is not None:
            contents.messages.append(json.dumps(value))

    def _message_object(self, value: dict[str, Any], contents: Contents) -> None:
        if self._is_call(value, known="args" not in value and "arguments" not in value):
            self._call(value, contents)
            return
        for key in _CALLS:
            self._calls(value.get(key), contents)
        if str(value.get("role", value.get("type", ""))).casefold() in _NOT_SHOWN:
            return
        if any(key in value for key in (*_TEXTS, *_MESSAGES)):
            self._message(_first(value, (*_TEXTS, *_MESSAGES)), contents)
        elif value and not any(key in value for key in _CALLS):
            contents.messages.append(json.dumps(value, ensure_ascii=False))

    def _calls(self, value: Any, contents: Contents) -> None:
        if len(contents.calls) == MAX_CALLS:
            contents.unreadable = contents.unreadable or bool(value)
        elif isinstance(value, list):
            for each in value:
                self._calls(each, contents)
        elif isinstance(value, dict):
            if isinstance(_first(value, _NAMES), str | dict):
                self._call(value, contents)
            else:
                contents.lost = contents.lost or bool(value)
        elif isinstance(value, str):
            contents.lost = contents.lost or value.strip().casefold() not in _NONE
        elif value is not None:
            contents.unreadable = True

    def _call(self, value: dict[str, Any], contents: Contents) -> None:
        function = value.get("function")
        call = function if isinstance(function, dict) else value
        name = _first(call, _NAMES)
        if not isinstance(name, str) or len(contents.calls) == MAX_CALLS:
            contents.unreadable = True
            return
        tool = self._tools.get(name)
        known = tool.parameters.get("properties", {}) if tool else {}
        alone = not any(key in call for key in _ARGUMENTS)
        beside = {key: each for key, each in call.items() if key not in _BESIDE and (alone or key in known)}
        arguments = {} if alone else _first(call, _ARGUMENTS)
        if isinstance(arguments, dict):
            # Arguments that were written beside the others. The object stays the one that was read.
            arguments.update({key: each for key, each in beside.items() if key not in arguments})
        contents.calls.append(RawCall(name, arguments, call, flat=bool(beside)))


def _first(value: dict[str, Any], keys: tuple[str, ...]) -> Any:
    """Return the member of the first of `keys` that the object has, or None."""
    return next((value[key] for key in keys if key in value), None)


def extend(contents: Contents, other: Contents) -> None:
    """Add what another value says."""
    contents.messages += other.messages
    contents.calls += other.calls
    contents.unreadable = contents.unreadable or other.unreadable
    contents.lost = contents.lost or other.lost
