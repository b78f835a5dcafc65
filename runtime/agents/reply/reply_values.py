"""Finds messages and calls in a JSON value, in the form that was asked for and in those that models use instead."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from msgspec import Struct, field

from runtime.agents.reply.json_text.relaxed import BrokenJson, Reader
from runtime.agents.reply.tool_names import ToolNames

_MESSAGES: Final = frozenset({"messages", "message"})
_CALLS: Final = frozenset({"toolcalls", "toolcall", "functioncalls", "functioncall", "tooluse", "calls"})
_TEXTS: Final = ("content", "text", "response", "reply", "answer", "finalanswer", "output", "value", "say", "assistant")
_NAMES: Final = ("name", "tool", "toolname", "function", "functionname", "action", "recipientname")
_ARGUMENTS: Final = (
    "args",
    "arguments",
    "parameters",
    "params",
    "input",
    "kwargs",
    "toolinput",
    "actioninput",
    "toolargs",
    "toolarguments",
    "toolparameters",
)
_BESIDE: Final = frozenset({"id", "type", "index", "callid", "toolcallid", "tooluseid"})
"""Keys of a call that are no arguments."""
_NOT_SHOWN: Final = frozenset({"user", "human", "system", "tool", "developer", "function"})
"""Roles of messages that a model repeats or invents, and does not say."""
_NONE: Final = frozenset({"", "none", "null", "n/a", "[]", "{}"})
_NAME: Final = re.compile(r"[\w.-]{1,64}\Z")
_MAX_WRAPPERS: Final = 3
MAX_CALLS: Final = 128
"""Maximum number of calls of a value. A model that writes more repeats itself."""

JOINED: Final = frozenset({"messages", "tool_calls"})
"""Keys that models write twice, with a part of the list each."""


class RawCall(Struct):
    """A call as it was written. `source`: the object that it was read from."""

    name: str
    arguments: Any
    source: dict[str, Any] | None = None
    flat: bool = False
    """Arguments are members of `source`, and not only of an object of their own."""


class Contents(Struct):
    """What a value says. `unreadable`: something in it is neither."""

    messages: list[str] = field(default_factory=list)
    calls: list[RawCall] = field(default_factory=list)
    unreadable: bool = False


class ValueReader:
    """Reads values with the tools of a request."""

    def __init__(self, tools: ToolNames) -> None:
        self._tools = tools

    def recognizes(self, value: Any, tagged: bool) -> bool:
        """True if a value is part of a reply wherever in a text it is. `tagged`: it is marked as a tool call."""
        if isinstance(value, list):
            return bool(value) and all(isinstance(each, dict) and self.recognizes(each, tagged) for each in value)
        if not isinstance(value, dict):
            return False
        return self._wraps(value, {"messages", *_CALLS}, _MAX_WRAPPERS) or self._is_call(value, known=not tagged)

    def is_call_only(self, value: Any) -> bool:
        """True if a value is a call, or calls, without the form that was asked for."""
        if isinstance(value, list):
            return all(map(self.is_call_only, value))
        return isinstance(value, dict) and not self._wraps(value, {"messages", *_CALLS}, _MAX_WRAPPERS)

    def read(self, value: Any) -> Contents | None:
        """Return what a value says, or None if it is not a reply. Here also as a model may mean it only where its
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
        plain = {_plain(key): each for key, each in value.items()}
        if not value:
            return contents
        if self._is_call(value, known=False) and not plain.keys() & {"messages", *_CALLS}:
            self._call(value, contents)
        elif any(self._is_content(key, each) for key, each in plain.items() if key in _MESSAGES | _CALLS):
            self._envelope(plain, contents)
        elif wrapped := [each for each in value.values() if isinstance(each, dict) and self.recognizes(each, False)]:
            for each in wrapped:
                extend(contents, self.read(each) or Contents(unreadable=True))
        elif all(self._tools.find(key) and isinstance(each, dict) for key, each in value.items()):
            self._calls(value, contents)
        else:
            texts = [plain[key] for key in _TEXTS if key in plain]
            if len(texts) != 1 or not isinstance(texts[0], str | list):
                return None
            self._message(texts[0], contents)
        return contents

    def _envelope(self, plain: dict[str, Any], contents: Contents) -> None:
        """Read messages and calls by their keys, or by similar ones."""
        for key, each in plain.items():
            if key in _MESSAGES:
                self._message(_list_of_texts(each), contents)
            elif key in _CALLS:
                self._calls(each, contents)
        if not plain.keys() & _MESSAGES:
            self._message(next((plain[key] for key in _TEXTS if key in plain), None), contents)

    def _wraps(self, value: dict[str, Any], keys: set[str], levels: int) -> bool:
        """True if an object has one of `keys`, or the only object in it does."""
        if any(self._is_content(_plain(key), each) for key, each in value.items() if _plain(key) in keys):
            return True
        inner = [each for each in value.values() if isinstance(each, dict)]
        return levels > 0 and len(inner) == 1 and self._wraps(inner[0], keys, levels - 1)

    def _is_content(self, key: str, value: Any) -> bool:
        """True if a value is messages or calls, and not their description."""
        if not isinstance(value, dict):
            return isinstance(value, str | list | None)
        if key in _MESSAGES:
            return all(each.isdigit() or _plain(each) in (*_TEXTS, *_MESSAGES, *_CALLS) for each in value)
        return not value or self._is_call(value, known=False) or all(map(self._tools.find, value))

    def _is_call(self, value: dict[str, Any], *, known: bool) -> bool:
        """True if an object is a call. `known`: only of a known tool."""
        plain = {_plain(key): each for key, each in value.items()}
        for key in _NAMES:
            name = plain.get(key)
            if isinstance(name, dict):
                return self._is_call(name, known=known)
            if isinstance(name, str):
                if self._tools.find(name) is not None:
                    return True
                return not known and any(each in plain for each in _ARGUMENTS) and _NAME.match(name) is not None
        return False

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
        plain = {_plain(key): each for key, each in value.items()}
        if self._is_call(value, known="args" not in plain and "arguments" not in plain):
            self._call(value, contents)
            return
        for key in _CALLS & plain.keys():
            self._calls(plain[key], contents)
        if str(plain.get("role", plain.get("type", ""))).casefold() in _NOT_SHOWN:
            return
        texts = [plain[key] for key in (*_TEXTS, *_MESSAGES) if key in plain]
        if texts:
            self._message(texts[0], contents)
        elif value and all(key.isdigit() and isinstance(each, str) for key, each in value.items()):
            contents.messages.extend(value.values())
        elif value and not _CALLS & plain.keys():
            contents.messages.append(json.dumps(value, ensure_ascii=False))

    def _calls(self, value: Any, contents: Contents) -> None:
        if len(contents.calls) == MAX_CALLS:
            contents.unreadable = contents.unreadable or bool(value)
            return
        if isinstance(value, list):
            for each in value:
                self._calls(each, contents)
        elif isinstance(value, dict):
            self._calls_object(value, contents)
        elif isinstance(value, str):
            self._calls_text(value, contents)
        elif value is not None:
            contents.unreadable = True

    def _calls_object(self, value: dict[str, Any], contents: Contents) -> None:
        plain = {_plain(key): each for key, each in value.items()}
        if any(isinstance(plain.get(key), str | dict) for key in _NAMES):
            self._call(value, contents)
        elif inner := _CALLS & plain.keys():
            for key in inner:
                self._calls(plain[key], contents)
        elif value and all(self._tools.find(key) for key in value):
            for key, each in value.items():
                self._add(RawCall(key, {} if each is None else each), contents)
        elif value:
            contents.unreadable = True

    def _calls_text(self, text: str, contents: Contents) -> None:
        """Read calls that are a text: a name, or JSON in JSON."""
        text = text.strip()
        if text.casefold() in _NONE:
            return
        if self._tools.find(text) or (_NAME.match(text) and not text.isdigit()):
            self._add(RawCall(text, {}), contents)
            return
        value, exact = value_of(text)
        if not exact or not isinstance(value, dict | list):
            contents.unreadable = True
            return
        self._calls(value, contents)

    def _add(self, call: RawCall, contents: Contents) -> None:
        if len(contents.calls) < MAX_CALLS:
            contents.calls.append(call)
        else:
            contents.unreadable = True

    def _call(self, value: dict[str, Any], contents: Contents) -> None:
        plain = {_plain(key): (key, each) for key, each in value.items()}
        name = next(key for key in _NAMES if isinstance(plain.get(key, ("", None))[1], str | dict))
        given = plain[name][1]
        if isinstance(given, dict):
            # {"function": {"name": …, "arguments": …}}
            if any(isinstance(given.get(key), str) for key in given if _plain(key) in _NAMES):
                self._call(given, contents)
            else:
                contents.unreadable = True
            return
        found = next((key for key in _ARGUMENTS if key in plain), None)
        tool = self._tools.find(given)
        known = tool.parameters.get("properties", {}) if tool else {}
        beside = {
            key: each
            for each_plain, (key, each) in plain.items()
            if each_plain not in {name, found} and (key in known or (found is None and each_plain not in _BESIDE))
        }
        if found is None:
            self._add(RawCall(given, beside, value, flat=bool(beside)), contents)
            return
        arguments = plain[found][1]
        if beside and isinstance(arguments, dict):
            # Arguments that were written beside the others.
            arguments.update({key: each for key, each in beside.items() if key not in arguments})
        self._add(RawCall(given, arguments, value, flat=bool(beside)), contents)


def value_of(text: str) -> tuple[Any, bool]:
    """Return the value of a text that is JSON, and whether nothing was assumed that may lose something; the text itself
    if it is not JSON."""
    reader = Reader(text, JOINED)
    try:
        value, end = reader.value(0)
    except BrokenJson:
        return text, False
    if reader.space(end) != len(text):
        return text, False
    return value, not (reader.guessed or reader.unclosed or reader.implied)


def _list_of_texts(value: Any) -> Any:
    """Return the list that a text is, if it is one in JSON; else the value."""
    if not isinstance(value, str) or not value.startswith('["'):
        return value
    inner, exact = value_of(value)
    return inner if exact and isinstance(inner, list) and all(isinstance(each, str) for each in inner) else value


def _plain(key: str) -> str:
    """Return a key without case and marks: `toolCalls`, `tool-calls` and `tool_calls` are one."""
    return re.sub(r"[\W_]+", "", key).casefold()


def extend(contents: Contents, other: Contents) -> None:
    """Add what another value says."""
    contents.messages += other.messages
    contents.calls += other.calls
    contents.unreadable = contents.unreadable or other.unreadable
