"""A reply while its parts arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from runtime.models.answers.characters import WholeCharacters, whole_text
from runtime.models.request import Finish, Reply, ToolCall, Usage
from runtime.random_bytes import random_bytes


class NotAnswered(ValueError):  # noqa: N818 - errors are named for what happened
    """The service ended its answer with an error that it does not explain."""


LONGEST_REPLY: Final = 512 * 1024
"""Characters of a reply, its reasoning and calls included. A longer one counts as cut off there."""


class PartialReply:
    """Collects the parts of one reply. `finish` and `usage` are set when the service says them."""

    def __init__(self) -> None:
        self.finish: Finish | None = None
        self.usage = Usage()
        self._characters = WholeCharacters()
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Fragments] = []
        self._places: dict[int, int] = {}
        """The place in `_calls` of the last call with each number of the service."""
        self._room = LONGEST_REPLY

    def add_text(self, text: str) -> str:
        """Add a part of the text; return what can be shown with it, which are whole characters."""
        shown = self._characters.feed(self._fitting(text))
        self._text.append(shown)
        return shown

    def add_reasoning(self, text: str) -> None:
        self._reasoning.append(self._fitting(text))

    def add_call(self, name: str, arguments: Any, call_id: str = "", extra: Mapping[str, Any] | None = None) -> None:
        """Add a whole call. `arguments`: JSON, or the decoded object. `extra`: what else the service says of it."""
        call = _Fragments(call_id, name, dict(extra or {}))
        call.add(self._fitting(arguments if isinstance(arguments, str) else _json(arguments)))
        self._calls.append(call)

    def add_fragment(
        self,
        index: int | None,
        call_id: str,
        name: str,
        arguments: Any,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a fragment of a call, see `add_call`. `index`: the number of the call in the reply, which some services
        count from 1.

        Some give none, or the same for all calls; there another id begins another call, and so does a name after
        complete arguments, or without an id and an index.
        """
        text = self._fitting(arguments if isinstance(arguments, str) else _json(arguments))
        place = self._place(index, call_id, name, text)
        if place == len(self._calls):
            again = self._calls[-1].repeated_name if self._calls else ""
            self._calls.append(_Fragments(call_id, name or again))
        call = self._calls[place]
        call.id = call.id or call_id
        call.name = call.name or name
        call.extra |= extra or {}
        if name and not text and call.is_whole:
            call.repeated_name = name
        if not call.has(text):
            call.add(text)

    def reply(self) -> Reply:
        """Return the reply of all parts."""
        calls = tuple(call.tool_call() for call in self._calls)
        finish: Finish = "length" if self._room < 0 else self.finish or "stop"
        return Reply(
            text="".join(self._text) + self._characters.end(),
            calls=calls,
            # Some services finish a reply with calls as any other.
            finish="calls" if calls and finish == "stop" else finish,
            usage=self.usage,
            reasoning=whole_text("".join(self._reasoning)),
        )

    def _fitting(self, part: str) -> str:
        """Return as much of a part of the reply as it may still have."""
        fitting = part[: max(0, self._room)]
        self._room -= len(part)
        return fitting

    def _place(self, index: int | None, call_id: str, name: str, text: str) -> int:
        """Return the place of the call that a fragment belongs to."""
        new, last = len(self._calls), len(self._calls) - 1
        if index is None:
            goes_on = last >= 0 and (call_id == self._calls[last].id if call_id else not name)
            place = last if goes_on else new
        else:
            place = self._places.get(index, new)
            if place < new and call_id and self._calls[place].id not in {"", call_id}:
                place = new
        if place < new and self._calls[place].ended_by(name, text):
            place = new
        if index is not None:
            self._places[index] = place
        return place


class _Fragments:
    def __init__(self, call_id: str = "", name: str = "", extra: dict[str, Any] | None = None) -> None:
        self.id = call_id
        self.name = name
        self.extra = extra or {}
        self.repeated_name = ""
        """Its name, if that was repeated after its arguments: more arguments are those of another call."""
        self._arguments: list[str] = []
        self._size = 0
        """Characters of the arguments."""

    def add(self, text: str) -> None:
        if text[:1] == "{" and self._arguments == ["{}"]:
            # Some services begin with an empty object.
            self._arguments.clear()
            self._size = 0
        if text:
            self._arguments.append(text)
            self._size += len(text)

    @property
    def is_whole(self) -> bool:
        """True if the arguments are a whole object."""
        if not self._arguments or self._arguments[-1].rstrip()[-1:] not in {"", "}"}:
            return False
        try:
            return isinstance(msgspec.json.decode("".join(self._arguments)), dict)
        except (ValueError, RecursionError):
            return False

    def has(self, text: str) -> bool:
        """True if a fragment repeats all arguments, as the last one of some services does."""
        # They are joined for a text of their length only: a stream may have a hundred thousand fragments.
        return text[:1] == "{" and text[-1:] == "}" and len(text) == self._size and "".join(self._arguments) == text

    def ended_by(self, name: str, text: str) -> bool:
        """True if a fragment with a name begins another call, because this one has all its arguments. A fragment with
        the same name may also only repeat it."""
        if not (name or self.repeated_name) or not (text or name != self.name):
            return False
        return self.is_whole and not self.has(text)

    def tool_call(self) -> ToolCall:
        return ToolCall(
            # Some services give no id, without which a call and its output cannot be paired.
            id=self.id or f"call_{random_bytes(12).hex()}",
            name=whole_text(self.name),
            arguments=whole_text("".join(self._arguments)) or "{}",
            extra=self.extra,
        )


def _json(arguments: Any) -> str:
    return "" if arguments is None else msgspec.json.encode(arguments).decode()


def count(value: Any) -> int | None:
    """Return a number of tokens as a service gives it; None if it is no such number."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def arguments_of(call: ToolCall) -> Mapping[str, Any]:
    """Return the arguments as an object; empty if they are invalid, which services refuse in a request."""
    try:
        decoded = msgspec.json.decode(call.arguments)
    except (ValueError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}
