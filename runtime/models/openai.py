"""`model openai`: a language model of OpenAI, or of any service that speaks its API.

The API is https://platform.openai.com/docs/api-reference/chat/create: `POST /chat/completions` with `messages` answers
`choices`, streamed as server-sent events. OpenAI itself requires the limit as `max_completion_tokens`; other services
support the older `max_tokens`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from http import HTTPStatus
from typing import Annotated, Any, ClassVar, Final
from urllib.parse import urljoin

from msgspec import structs
from pydantic import Field

from dslc.blocks.block import GroupModel
from dslc.blocks.values.types import ContextTokens, Duration, Form, HeaderName, HeaderValue, SecretReference, Url
from runtime.clock import SYSTEM, Clock
from runtime.models.answers.partial_reply import count
from runtime.models.model import AccessRefused, Problem, Window
from runtime.models.openai_chat import ChatReader, message_json, response_format, tool_json
from runtime.models.options import (
    ExtraFields,
    Reasoning,
    extra_field,
    merged,
    reasoning_field,
    stream_field,
    timeout_field,
    window_field,
)
from runtime.models.reachability import LOOK_SECONDS
from runtime.models.remote import RemoteModel, ReplyReader
from runtime.models.request import Reply, Request
from runtime.outbound.http import CallFailed, HttpCaller
from runtime.outbound.model_service import OPENAI, OpenAIService, Refusal, is_openai, options_and_key
from runtime.secrets.secret import Secret

_WHOSE = "the model openai"
_UNKNOWN: Final = "(?:unsupported|not supported|unknown|unrecognized|unexpected|not permitted|not allowed)"
_EXTRA: Final = "(?:tool_calls|reasoning_details|thinking_blocks)"
_OF_MESSAGE: Final = frozenset({"role", "content", "tool_calls", "tool_call_id", "reasoning_content"})
# vLLM; LM Studio for a model that is loaded; OpenRouter and others; Groq; Mistral, LM Studio; ArliAI. llama.cpp says it
# in `meta`, and OpenRouter in `top_provider` what its provider allows, which may be less than the model's own.
_WINDOW_FIELDS: Final = (
    "max_model_len",
    "loaded_context_length",
    "context_length",
    "context_window",
    "max_context_length",
    "max_context",
)
_LM_STUDIO: Final = "organization_owner"
"""The owner of every model in LM Studio's list."""
_LM_STUDIO_MODELS: Final = "/api/v0/models"
"""The path of LM Studio's own list of models, which has their windows: https://lmstudio.ai/docs/developer/rest."""


ExtraHeader = Annotated[
    HeaderName,
    Form(
        r"(?i)(?!(?:authorization|host|content-.*)\Z).+",
        "a header that may be added: `Authorization`, `Host` and `Content-…` are set by the call itself",
    ),
]


class OpenAIOptions(GroupModel):
    """Options of the service: its URL, the model, and the API key."""

    url: Url = Field(
        default=OPENAI,
        description="The base URL of the service; `/chat/completions` is appended.",
    )
    api_key: SecretReference | None = Field(
        default=None,
        description="The API key, sent as a bearer token. The default is `secret://env/OPENAI_API_KEY` for "
        "OpenAI itself, and none for other services.",
        examples=["secret://env/OPENAI_API_KEY"],
    )
    model: str = Field(
        default="gpt-4.1-mini", min_length=1, max_length=200, description="The model, by its name at the service."
    )
    headers: Mapping[ExtraHeader, HeaderValue] = Field(
        default={},
        description="Headers that are added to every call; a value may be a reference to a secret.",
        examples=[{"X-Team": "core"}],
    )
    reasoning: Reasoning | None = reasoning_field("`reasoning_effort`")
    stream: bool = stream_field()
    extra: ExtraFields = extra_field("service_tier", "flex")
    window: ContextTokens | None = window_field()
    timeout: Duration = timeout_field()


class OpenAIModel(RemoteModel):
    """Calls one service."""

    name = "openai"
    _whose = _WHOSE
    """The model in messages."""

    _optional: ClassVar[Mapping[str, re.Pattern[str]]] = {
        "max_tokens": re.compile(rf"\bmax_tokens\b.*{_UNKNOWN}|{_UNKNOWN}.*\bmax_tokens\b", re.IGNORECASE),
        "max_completion_tokens": re.compile(
            rf"\bmax_completion_tokens\b.*{_UNKNOWN}|{_UNKNOWN}.*\bmax_completion_tokens\b", re.IGNORECASE
        ),
        "temperature": re.compile(r"\btemperature\b"),
        "stop": re.compile(r"\bstop\b"),
        "stream_options": re.compile(r"\bstream_options\b"),
        "response_format": re.compile(
            r"response_format|response_schema|json_schema|json schema|structured output|\bgrammar\b"
            r"|additionalProperties|constraint.{0,40}states",
            re.IGNORECASE,
        ),
        "reasoning_effort": re.compile(r"reasoning[_. ]effort", re.IGNORECASE),
        "reasoning_content": re.compile(rf"reasoning_content.*{_UNKNOWN}|{_UNKNOWN}.*reasoning_content", re.IGNORECASE),
        "no_reasoning_content": re.compile(r"reasoning_content.*(?:must|missing|required)|missing.*reasoning_content"),
        "call_extra": re.compile(rf"{_EXTRA}.*{_UNKNOWN}|{_UNKNOWN}.*{_EXTRA}", re.IGNORECASE),
        "system": re.compile(
            r"\bsystem\b.{0,40}\b(?:role|message|prompt|instruction)s?\b.{0,40}\bnot\b"
            r"|\bnot\b.{0,40}\bsystem\b.{0,20}\b(?:role|message|prompt|instruction)|'?system'? role not supported"
            r"|(?:system|developer) instruction is not enabled",
            re.IGNORECASE,
        ),
        "stream": re.compile(
            r"verified to stream|\bstream(?:ing)?\b.{0,60}(?:\bnot\b|unsupported|disabled)"
            r"|(?:\bnot\b|unsupported|cannot).{0,40}\bstream(?:ing)?\b",
            re.IGNORECASE,
        ),
        "no_stream": re.compile(r"\bonly\b.{0,40}\bstream|\bstream\b.{0,40}\b(?:must|required)|enable.{0,20}stream"),
    }
    """Some are what is missing in a request: a service may require it."""
    _schema_parameter = "response_format"

    def __init__(
        self,
        options: OpenAIOptions,
        key: Secret | None,
        *,
        headers: Mapping[str, str | Secret] | None = None,
        caller: HttpCaller | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        """`headers`: sent with every request; one of them may take the place of the key's. Raises UsageError for a key
        or a header with characters that are invalid in it."""
        self._service = OpenAIService(options.url, key, self._whose, headers or {})
        super().__init__(options.model, self._service.host, options.timeout.total_seconds(), caller=caller, clock=clock)
        limits = ("max_completion_tokens", "max_tokens")
        self._limits = limits if is_openai(options.url) else limits[::-1]
        self._options = options
        self._reasoning_models: set[str] = set()
        """The models that gave their reasoning as `reasoning_content`, and want it back with their calls."""

    async def window(self) -> Window | None:
        window = await self._service_window()
        return None if window is None else Window(window, "service")

    async def _ask_window(self) -> int | None:
        listed = await self._list()
        window = window_of(listed, self.model)
        if window is None and _is_lm_studio(listed):
            window = window_of(await self._list(_LM_STUDIO_MODELS), self.model)
        return window

    def _address(self) -> tuple[str, dict[str, str]]:
        return self._service.url("chat/completions"), self._service.headers()

    def _body(self, request: Request, unknown: Set[str], *, stream: bool) -> dict[str, Any]:
        wanted = self.model in self._reasoning_models or "no_reasoning_content" in unknown
        reasoning = False if "reasoning_content" in unknown else wanted or None
        extra = "call_extra" not in unknown
        messages = [
            message_json(each, service=self._identity, extra=extra, reasoning=reasoning) for each in request.messages
        ]
        streams = (stream and self._options.stream and "stream" not in unknown) or "no_stream" in unknown
        body: dict[str, Any] = {
            "model": self.model,
            "messages": _without_system(messages) if "system" in unknown else messages,
            "temperature": request.temperature,
        }
        for limit in [each for each in self._limits if each not in unknown][:1]:
            body[limit] = request.max_tokens
        if streams:
            body["stream_options"] = {"include_usage": True}
        if request.stop:
            body["stop"] = list(request.stop)
        if request.tools:
            body["tools"] = [tool_json(tool) for tool in request.tools]
        if request.schema is not None:
            body["response_format"] = response_format(request.schema)
        if self._options.reasoning is not None:
            body["reasoning_effort"] = self._options.reasoning
        known = {name: value for name, value in body.items() if name not in unknown}
        return merged({**known, "stream": streams}, self._options.extra)

    def _optional_parameters(self, sent: Mapping[str, Any]) -> Set[str]:
        messages = sent["messages"]
        calls = [call for message in messages for call in message.get("tool_calls", ())]
        returned = any("reasoning_content" in message for message in messages)
        also = {
            "stream": sent["stream"],
            "no_stream": not sent["stream"],
            "system": any(message["role"] == "system" for message in messages),
            "reasoning_content": returned,
            "no_reasoning_content": bool(calls) and not returned,
            "call_extra": any(call.keys() - {"id", "type", "function"} for call in calls)
            or any(message.keys() - _OF_MESSAGE for message in messages),
        }
        return (sent.keys() - also.keys()) | {name for name, there in also.items() if there}

    def _new_reader(self) -> ChatReader:
        return ChatReader()

    def _reply_of(self, reader: ReplyReader) -> Reply:
        reply = super()._reply_of(reader)
        assert isinstance(reader, ChatReader)
        if "reasoning_content" in reader.returned:
            self._reasoning_models.add(self.model)
        extras = [{"call": call.extra} if call.extra else {} for call in reply.calls]
        if extras and (reader.returned or reply.reasoning):
            extras[0] = {**extras[0], "message": reader.returned}
        calls = [
            structs.replace(call, extra={"service": self._identity, **extra} if extra else {})
            for call, extra in zip(reply.calls, extras, strict=True)
        ]
        return structs.replace(reply, calls=tuple(calls))

    @property
    def _identity(self) -> str:
        """The service and the model."""
        return f"{self._host} {self.model}"

    async def _list(self, path: str = "") -> Any:
        """Return the service's list of models; with `path`, the one at this path of its host. Raises CallFailed."""
        url, headers = self._service.url("models"), self._service.headers()
        url = urljoin(url, path)
        return await self._caller.get_json(url, headers=headers, timeout_seconds=LOOK_SECONDS)

    async def _look(self) -> Problem | None:
        try:
            await self._list()
        except CallFailed as failure:
            if failure.status is None or failure.status >= 500:
                return Problem.of(self._unavailable(failure))
            # Not all services list their models; another answer that refuses this shows that the service is there.
            if failure.status == HTTPStatus.UNAUTHORIZED:
                message, hint, _ = self._service_refusal(failure)
                return Problem.of(AccessRefused(message, hint=hint))
        return None

    def _service_refusal(self, failure: CallFailed) -> Refusal:
        return self._service.refusal(failure, self.model)


async def open_openai(options: Mapping[str, object]) -> OpenAIModel:
    """Open the model of this row; makes no call. Raises UsageError for a missing, unresolved or invalid key or
    header."""
    headers = options.get("headers", {})
    given = dict(headers) if isinstance(headers, Mapping) else {}
    # The model of the options has no place for secrets.
    shown = {name: "a secret" if isinstance(value, Secret) else value for name, value in given.items()}
    read, key = options_and_key(OpenAIOptions, {**options, "headers": shown}, _WHOSE)
    return OpenAIModel(read, key, headers=given)


def _without_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages for a model that knows no role `system`: the user says it, before anything else."""
    system = "\n\n".join(each["content"] for each in messages if each["role"] == "system")
    rest = [each for each in messages if each["role"] != "system"]
    if rest and rest[0]["role"] == "user":
        # Such models refuse two messages of the user in a row, too.
        system = f"{system}\n\n{rest.pop(0)['content']}"
    return [{"role": "user", "content": system}, *rest]


def window_of(listed: Any, model: str) -> int | None:
    """Return the window of a model in an answer of `/models`; None if the service does not say it."""
    found = _rows(listed)
    # A service with a single model, such as llama.cpp, answers for any name.
    row = next((row for row in found if row.get("id") == model), found[0] if len(found) == 1 else {})
    served = (("top_provider", "context_length"), ("meta", "n_ctx"))
    inner = [part.get(name) for key, name in served if isinstance(part := row.get(key), dict)]
    return next((size for size in map(count, (*inner, *(row.get(name) for name in _WINDOW_FIELDS))) if size), None)


def _rows(listed: Any) -> list[dict[str, Any]]:
    rows = listed.get("data") if isinstance(listed, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _is_lm_studio(listed: Any) -> bool:
    return any(row.get("owned_by") == _LM_STUDIO for row in _rows(listed))
