"""`model ollama`: a language model that Ollama runs, on this machine or another.

Its API is https://docs.ollama.com/api/chat: `POST /api/chat` answers `message`, streamed as a line of JSON for each
part; `GET /api/tags` (https://docs.ollama.com/api/tags) lists the models.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from datetime import timedelta
from typing import Any, ClassVar, Final, Self

import msgspec
from pydantic import Field

from dslc.blocks.block import GroupModel
from dslc.blocks.values.types import Duration, Url
from runtime.clock import SYSTEM, Clock
from runtime.models.answers.partial_reply import PartialReply, arguments_of, count
from runtime.models.model import NoSuchModel, Problem, Window
from runtime.models.openai_chat import tool_json
from runtime.models.options import ExtraFields, Reasoning, extra_field, merged, reasoning_field, stream_field
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
    reasoning: Reasoning | None = reasoning_field("`think`")
    stream: bool = stream_field()
    keep_alive: Duration | None = Field(
        default=None,
        description="For how long Ollama keeps the model in memory after a call; `0s` unloads it at once. The default "
        "is Ollama's, five minutes.",
        examples=["1h"],
    )
    extra: ExtraFields = extra_field("options", '{"top_k": 20}')
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
        self._given = "context" in options.model_fields_set
        self._options = options

    async def window(self) -> Window | None:
        trained = await self._service_window()
        if trained is not None and trained < self._context:
            # Ollama lowers `num_ctx` to it, and says so only in its log.
            return Window(trained, "service")
        return Window(self._context, "program" if self._given else "default")

    async def _ask_window(self) -> int | None:
        """Return the context length with which the model was trained, by Ollama's description of it:
        https://docs.ollama.com/api-reference/show-model-details."""
        url = self._service.url("show")
        shown = await self._caller.post_json(url, {"model": self.model}, timeout_seconds=LOOK_SECONDS, tries=1)
        about = shown.get("model_info") if isinstance(shown, dict) else None
        if not isinstance(about, dict):
            return None
        return count(about.get(f"{about.get('general.architecture')}.context_length"))

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
            "stream": stream and self._options.stream,
            # Otherwise the oldest messages are left out without notice.
            "truncate": False,
            "options": options,
        }
        if not request.reasoning:
            body["think"] = False
        elif self._options.reasoning is not None:
            body["think"] = self._options.reasoning
        if self._options.keep_alive is not None:
            body["keep_alive"] = int(self._options.keep_alive.total_seconds())
        if request.tools:
            body["tools"] = [tool_json(tool) for tool in request.tools]
        if request.schema is not None:
            body["format"] = dict(request.schema)
        return merged({name: value for name, value in body.items() if name not in unknown}, self._options.extra)

    def _new_reader(self) -> _ReplyReader:
        return _ReplyReader()

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

    def _service_refusal(self, failure: CallFailed) -> Refusal:
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
    fields: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.role == "tool":
        fields["tool_name"] = names.get(message.call_id or "", "")
    if message.calls:
        fields["tool_calls"] = [
            {"function": {"name": call.name, "arguments": arguments_of(call)}} for call in message.calls
        ]
    return fields


class _ReplyReader:
    """Reads an answer, or the parts of a streamed one."""

    def __init__(self) -> None:
        self._parts = PartialReply()
        self._begun = False
        self.complete = False

    def feed(self, part: Any) -> str:
        answer = msgspec.convert(part, _Answer)
        self._begun = True
        message = answer.message
        shown = self._parts.add_text(message.content or "")
        self._parts.add_reasoning(message.thinking or "")
        for call in message.tool_calls or ():
            # Each call arrives whole.
            self._parts.add_call(call.function.name, call.function.arguments, call.id or "")
        if answer.done:
            self.complete = True
            self._parts.finish = _FINISHES.get(answer.done_reason or "", "stop")
            self._parts.usage = Usage(tokens_in=count(answer.prompt_eval_count), tokens_out=count(answer.eval_count))
        return shown

    def end(self) -> None:
        self.complete = True

    def reply(self) -> Reply:
        if not self._begun:
            raise ValueError("no message")
        return self._parts.reply()


class _Function(msgspec.Struct):
    name: str
    arguments: Any = None


class _Call(msgspec.Struct):
    function: _Function
    id: str | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Answer(msgspec.Struct):
    message: _Message
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: Any = None
    eval_count: Any = None
