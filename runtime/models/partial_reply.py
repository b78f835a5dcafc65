"""A reply while its parts arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from runtime.models.request import Finish, Reply, ToolCall, Usage
from runtime.random_bytes import random_bytes


class PartialReply:
    """Collects the parts of one reply. `finish` and `usage` are set when the service says them."""

    def __init__(self) -> None:
        self.finish: Finish | None = None
        self.usage = Usage()
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Fragments] = []
        self._places: dict[int, int] = {}
        """The place in `_calls` of the last call with each number of the service."""

    def add_text(self, text: str) -> None:
        self._text.append(text)

    def add_reasoning(self, text: str) -> None:
        self._reasoning.append(text)

    def add_call(self, index: int | None, call_id: str | None, name: str | None, arguments: Any) -> None:
        """Add a call, or a fragment of one. `arguments`: a fragment of JSON, or the whole decoded object.

        `index`: the number of the call in the reply, which some services count from 1. Some give none, or the same for
        all calls; there another id begins another call, and so does a name without an id.
        """
        place = self._place(index, call_id, name)
        if place == len(self._calls):
            self._calls.append(_Fragments())
        call = self._calls[place]
        call.id = call.id or call_id or ""
        call.name = call.name or name or ""
        call.arguments.append(arguments if isinstance(arguments, str) else _json(arguments))

    def whole(self) -> Reply:
        """Return the reply of all parts."""
        calls = tuple(call.whole() for call in self._calls)
        finish = self.finish or "stop"
        return Reply(
            text="".join(self._text),
            calls=calls,
            # Some services finish a reply with calls as any other.
            finish="calls" if calls and finish == "stop" else finish,
            usage=self.usage,
            reasoning="".join(self._reasoning),
        )

    def _place(self, index: int | None, call_id: str | None, name: str | None) -> int:
        """Return the place of the call that a fragment belongs to."""
        new, last = len(self._calls), len(self._calls) - 1
        if index is None:
            goes_on = last >= 0 and (call_id == self._calls[last].id if call_id else not name)
            return last if goes_on else new
        place = self._places.get(index, new)
        if place < new and call_id and self._calls[place].id not in {"", call_id}:
            place = new
        self._places[index] = place
        return place


class _Fragments:
    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []

    def whole(self) -> ToolCall:
        # Some services give no id, without which a call and its output cannot be paired.
        return ToolCall(
            id=self.id or f"call_{random_bytes(12).hex()}", name=self.name, arguments="".join(self.arguments) or "{}"
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
