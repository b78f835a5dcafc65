"""The fields of a context, in the order in which a request has them: those that change rarely come first, so that a
service's prompt cache holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from runtime.models.request import ToolCall, ToolSchema

Count = Callable[[str], int]
"""Returns the number of tokens of a text, rather too many than too few."""

SchemaOf = Callable[[Sequence[ToolSchema]], Mapping[str, Any]]
"""Returns the JSON Schema of replies that may call these tools."""

EntryRole = Literal["user", "assistant", "tool"]

MESSAGE_TOKENS: Final = 8
"""Tokens that a chat template adds to each message, at most."""


class Block(NamedTuple):
    """A core memory block. `limit`: characters."""

    label: str
    description: str
    value: str
    limit: int
    read_only: bool = False


class Entry(NamedTuple):
    """A message of the thread. `calls`: of an assistant's message, and `reasoning` what some services want back with
    them. `call_id`: of a tool's output.

    `group`: entries with the same number are shown together or not at all: the calls of a reply and their outputs.
    """

    position: int
    role: EntryRole
    text: str
    group: int
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    reasoning: str = ""


class Metadata(NamedTuple):
    """Sizes of the memories of an agent. `compacted`: when its thread was last summarized, as shown; None: never."""

    archival: int
    recall: int
    blocks: int
    summaries: int
    compacted: str | None = None


class Fields(NamedTuple):
    """Everything that a context is made of. `tools`: offered to the model, in a fixed order; `find_tool`: the one by
    which the model reaches tools that are left out. `input`: what the run answers, which stays in its contexts when the
    messages around it are left out or summarized. `time`: empty for a context that shows no state."""

    instruction: str
    reply_format: str
    tools: tuple[ToolSchema, ...]
    find_tool: ToolSchema | None
    persona: Block | None
    blocks: tuple[Block, ...]
    human: Block | None
    preferences: str
    summary: str
    entries: tuple[Entry, ...]
    metadata: Metadata
    tasks: str
    time: str
    first_time: bool
    input: Entry | None = None
    native: bool = False
    """True: tools are offered by the model's own interface; False: they are described in the text."""
    schema: SchemaOf | None = None
    """Of the replies, for a service that can hold a model to it."""
    schema_in_prompt: bool = False
    """True if the schema takes tokens of the request."""
    known: str = ""
    """Memories about a query, as shown."""
    urgent_tasks: str = ""
    """The user's tasks that are urgent or overdue, as shown; empty for a run that has none to say."""


class Budget(NamedTuple):
    """Tokens. `window`: of request and reply together. `reply`: reserved for the reply. `source`: what says the window:
    see `runtime.models.model.Window`, or `max_tokens` of the agent."""

    window: int
    reply: int
    source: Literal["program", "service", "known", "default", "max_tokens"] = "program"

    @property
    def request(self) -> int:
        """Tokens that the request may have."""
        return self.window - self.reply


_SOURCES: Final = {
    "program": "by the program",
    "service": "by its service",
    "known": "by what is published of the model",
    "default": "by default: nothing says it (`window` of the model, or `context` of ollama, does)",
    "max_tokens": "by `max_tokens` of the agent",
}


def window_line(budget: Budget) -> str:
    """Return the size of the window and its source, in one line."""
    return f"the window has {budget.window:,} tokens, {_SOURCES[budget.source]}"
