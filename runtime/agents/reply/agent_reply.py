"""The reply of an agent's model: messages to the person and calls of tools."""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct

ToolCalling = Literal["json", "native"]
"""The way a model calls tools: in the JSON of its text, or by the model's own interface."""

Rung = Literal["strict", "lossless", "repaired", "text"]
"""The way a reply was read: as valid JSON, or native calls with valid arguments; with changes that lose nothing; with
guesses; as plain text."""

Problem = Literal["malformed", "cut", "empty"]
"""Reason to ask for another reply: a part could be read only by guessing, or not at all; it was cut off at
`max_tokens` or withheld; it says nothing."""


BLANK: Final = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\ufeff\u200b\u2060"
"""Characters of which a blank message consists: white space, also that without width."""


class AgentCall(Struct, frozen=True):
    """A call of a tool. `id`: unique in its reply. `name`: of a known tool where the reply's name stands for one.

    `arguments`: JSON values, not validated. They are at most 64 levels deep and contain no lone surrogates. `extra`:
    see `ToolCall.extra`.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    extra: dict[str, Any] = {}


class AgentReply(Struct, frozen=True, kw_only=True):
    """The reading of a reply. `messages`: none of them blank. `calls`: in the order of the reply.

    `lossless`: the calls are as the model meant them, so those that change something may run. False if the reply was
    cut off, or was read by guessing. `lost`: a part that was meant as a call, or as messages, could not be read at all.
    `reasoning`: what the model wrote for itself. `corrections`: replies that were asked for after the first one.
    """

    messages: tuple[str, ...]
    calls: tuple[AgentCall, ...]
    rung: Rung
    lossless: bool
    problem: Problem | None = None
    lost: bool = False
    reasoning: str = ""
    corrections: int = 0
