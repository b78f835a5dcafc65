"""`model ollama`: a language model that Ollama runs, on this machine or another.

Its API is https://docs.ollama.com/api/chat: `POST /api/chat` answers `message`, streamed as a line of JSON for each
part; `GET /api/tags` (https://docs.ollama.com/api/tags) lists the models.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Set
from datetime import timedelta
from typing import Any, ClassVar, Final, Self

import msgspec
from pydantic import Field

from dslc.blocks.block import GroupModel
from dslc.blocks.values.types import Duration, Url
from runtime.clock import SYSTEM, Clock
from runtime.models.model import NoSuchModel, Problem
from runtime.models.openai_chat import tool_json
from runtime.models.partial_reply import PartialReply, arguments_of, count
from runtime.models.reachability import LOOK_SECONDS, Reachability
from runtime.models.remote import RemoteModel
from runtime.models.request import Finish, Message, Reply, Request, Usage
from runtime.outbound.http import CallFailed, HttpCaller
from runtime.outbound.model_service import OllamaService, Refusal

_CHAT: Final = "chat"
_FINISHES: Final[Mapping[str, Finish]] = {"length": "length"}


class OllamaOptions(GroupModel):
    """Options of Ollama: its URL and its language model."""

    url: Url = Field(default="http://localhost:11434", description="The URL of Ollama, without `/api`.")
    model: str = Field(
        default="llama3.1:8b",
        min_length=1,
        max_length=200,
        description="The model, as `ollama list` names it. `ollama pull` downloads it.",
    )
    context: int = Field(
        default=8192,
        ge=1024,
        le=1_048_576,
        description="Maximum tokens that the model reads and writes in one request (`num_ctx`); more tokens take more "
        "memory there.",
    )
    timeout: Duration = Field(
        default=timedelta(minutes=2),
        ge=timedelta(seconds=1),
        le=timedelta(minutes=30),
        description="Timeout of an answer, including the loading of the model. A streamed answer may take ten times as "
        "long if no part takes longer.",
    )


class OllamaModel(RemoteModel):
    """Calls one Ollama."""

    name = "ollama"
    schema_in_prompt = False

    _optional: ClassVar[Mapping[str, re.Pattern[str]]] = {
        "format": re.compile(r"\bformat\b|\bschema\b|\bgrammar\b"),
        "think": re.compile(r"\bthink(?:ing)?\b"),
    }
    _schema_parameter = "format"
    _window_hint = "`context` is larger"

    def __init__(self, options: OllamaOptions, *, caller: HttpCaller | None = None, clock: Clock = SYSTEM) -> None:
        self._service = OllamaService(options.url, "the model ollama")
        super().__init__(options.model, self._service.host, options.timeout.total_seconds(), caller=caller, clock=clock)
        self._context = options.context

    async def window(self) -> int | None:
        return self._context

    def with_model(self, model: str) -> Self:
        other = super().with_model(model)
        # What was seen includes whether there is the model.
        other._reachability = Reachability(self._clock)
        return other

    def _address(self) -> tuple[str, dict[str, str]]:
        return self._service.url(_CHAT), {}

    def _body(self, request: Request, unknown: Set[str], *, stream: bool) -> dict[str, Any]:
        options: dict[str, Any] = {
            "num_predict": request.max_tokens,
            "num_ctx": self._context,
            "temperature": request.temperature,
        }
        if request.stop:
            options["stop"] = list(request.stop)
        body: dict[str, Any] = {
            "model": self.model,
            "messages": _messages(request.messages),
            "stream": stream,
            # Otherwise the oldest messages are left out without notice.
            "truncate": False,
            "options": options,
        }
        if not request.reasoning:
            body["think"] = False
        if request.tools:
            body["tools"] = [tool_json(tool) for tool in request.tools]
        if request.schema is not None:
            body["format"] = dict(request.schema)
        return {name: value for name, value in body.items() if name not in unknown}

    def _reading(self) -> _Reading:
        return _Reading()

    async def _events(self, lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        async for line in lines:
            if line.strip():
                yield line

    async def _look(self) -> Problem | None:
        try:
            listed = await self._caller.get_json(self._service.url("tags"), timeout_seconds=LOOK_SECONDS)
        except CallFailed as failure:
            return Problem.of(self._unavailable(failure))
        names = _names(listed)
        if names is None or names & {self.model, f"{self.model}:latest"}:
            return None
        message, hint, _ = self._service.no_model(self.model)
        return Problem.of(NoSuchModel(message, hint=hint))

    def _refused(self, failure: CallFailed) -> Refusal:
        return self._service.refusal(failure, self.model, _CHAT)


async def open_ollama(options: Mapping[str, object]) -> OllamaModel:
    """Open the model of this row. Makes no call: a missing Ollama is noticed at the first question."""
    return OllamaModel(OllamaOptions.model_validate(options))


def _names(listed: Any) -> set[str] | None:
    """Return the names in a list of models; None if it is not one."""
    rows = listed.get("models") if isinstance(listed, dict) else None
    if not isinstance(rows, list):
        return None
    return {str(row.get("name")) for row in rows if isinstance(row, dict)}


def _messages(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    # The output of a tool names the tool, not the call.
    names = {call.id: call.name for message in messages for call in message.calls}
    return [_message(message, names) for message in messages]


def _message(message: Message, names: Mapping[str, str]) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.role == "tool":
        told["tool_name"] = names.get(message.call_id or "", "")
    if message.calls:
        told["tool_calls"] = [
            {"function": {"name": call.name, "arguments": arguments_of(call)}} for call in message.calls
        ]
    return told


class _Function(msgspec.Struct):
    name: str
    arguments: Any = None


class _Call(msgspec.Struct):
    function: _Function


class _Message(msgspec.Struct):
    content: str = ""
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Answer(msgspec.Struct):
    message: _Message
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: Any = None
    eval_count: Any = None


class _Reading:
    """Reads an answer, or the parts of a streamed one."""

    def __init__(self) -> None:
        self._reply = PartialReply()
        self.complete = False

    def feed(self, part: Any) -> str:
        answer = msgspec.convert(part, _Answer)
        self._reply.add_text(answer.message.content)
        self._reply.add_reasoning(answer.message.thinking or "")
        for call in answer.message.tool_calls or ():
            # Each call arrives whole and without an id.
            self._reply.add_call(None, None, call.function.name, call.function.arguments)
        if answer.done:
            self.complete = True
            self._reply.finish = _FINISHES.get(answer.done_reason or "", "stop")
            self._reply.usage = Usage(tokens_in=count(answer.prompt_eval_count), tokens_out=count(answer.eval_count))
        return answer.message.content

    def whole(self) -> Reply:
        return self._reply.whole()
