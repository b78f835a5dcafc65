"""A question to a language model, and its reply, in the same form for every row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from runtime.token_counter import FIRST_RATIO, estimate

Role = Literal["system", "user", "assistant", "tool"]

Finish = Literal["stop", "length", "calls", "filtered", "malformed"]
"""The end of a reply: complete; cut off at `max_tokens`; complete, with tool calls; withheld by the service; refused by
the service because the model did not keep to the form of its calls or of the schema."""

TEMPERATURE: Final = 0.7
"""Default temperature of a reply."""


class ToolCall(Struct, frozen=True):
    """A call of a tool by the model's own interface. `arguments`: JSON as the model wrote it, which may be invalid.
    `extra`: what else its service says of it or of its reply, and wants back with it, such as a signature of the
    model's thoughts; `service` in it is the service and model, and no other one gets it."""

    id: str
    name: str
    arguments: str
    extra: Mapping[str, Any] = {}


class Message(Struct, frozen=True):
    """One message of a request. `calls`: of role `assistant`. `call_id`: of role `tool`, the call that it answers.
    `reasoning`: of the reply with these calls, which some services want back."""

    role: Role
    text: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    reasoning: str = ""


class ToolSchema(Struct, frozen=True, eq=False):
    """A tool as a model sees it, with the identity of the object: texts made of it are cached. `name`:
    `[a-zA-Z0-9_-]{1,64}`. `parameters`: a JSON Schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class Request(Struct, frozen=True, kw_only=True):
    """A question. `max_tokens`: of the reply, its reasoning included.

    `tools`: offered by the model's own interface. `schema`: a JSON Schema that the text must follow; a row that cannot
    hold a model to one (`Model.holds_schema`) ignores it. `stop`: texts at which the reply ends; a service that does
    not know them ignores them. `reasoning`: False asks a model that can answer without reasoning to do so.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    tools: tuple[ToolSchema, ...] = ()
    schema: Mapping[str, Any] | None = None
    temperature: float = TEMPERATURE
    stop: tuple[str, ...] = ()
    reasoning: bool = True


def prompt_request(prompt: str, *, system: str = "", max_tokens: int) -> Request:
    """Return the request for an answer to one prompt. `system`: instructions before it. `max_tokens`: of the answer.

    Deterministic where the service can be: the temperature is 0. The model is asked to answer without reasoning, which
    would use up the tokens of the answer.
    """
    instructions = (Message("system", system),) if system else ()
    messages = (*instructions, Message("user", prompt))
    return Request(messages=messages, max_tokens=max_tokens, temperature=0.0, reasoning=False)


_MESSAGE_TOKENS: Final = 8
"""Tokens of a message besides its text, rather too many than too few."""


def request_tokens(request: Request, count: Callable[[str], int] | None = None) -> int:
    """Return the tokens of a request, rather too many than too few. `count`: returns those of a text; by default they
    are estimated."""
    counted = count or _estimated_tokens
    return sum(counted(text) + _MESSAGE_TOKENS for text in _texts(request))


def _estimated_tokens(text: str) -> int:
    return int(estimate(text) * FIRST_RATIO) + 1


def _texts(request: Request) -> Iterator[str]:
    for message in request.messages:
        yield message.text
        for call in message.calls:
            yield f"{call.name} {call.arguments}"
    for tool in request.tools:
        yield msgspec.json.encode(tool).decode()
    if request.schema is not None:
        yield msgspec.json.encode(request.schema).decode()


class Usage(Struct, frozen=True):
    """Tokens of one call; None where the service does not say. `cached`: of `tokens_in`, those read from its cache."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    cached: int | None = None


class Reply(Struct, frozen=True, kw_only=True):
    """The answer of a model. `text`: as received, without the reasoning that the service returns separately. `model`:
    the row and the model that answered, as `ollama/llama3.1:8b`; set by `ModelClient`."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    finish: Finish = "stop"
    usage: Usage = Usage()
    reasoning: str = ""
    model: str = ""
