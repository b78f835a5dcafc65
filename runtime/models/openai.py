"""`model openai`: a language model of OpenAI, or of any service that speaks its API.

The API is https://platform.openai.com/docs/api-reference/chat/create: `POST /chat/completions` with `messages` answers
`choices`, streamed as server-sent events. OpenAI itself requires the limit as `max_completion_tokens`; other services
support the older `max_tokens`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Set
from contextlib import aclosing
from http import HTTPStatus
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from dslc.blocks.block import GroupModel
from dslc.blocks.values.types import Duration, Form, HeaderName, HeaderValue, SecretReference, Url
from runtime.clock import SYSTEM, Clock
from runtime.models.model import AccessRefused, Problem
from runtime.models.openai_chat import ChatReading, message_json, response_format, tool_json
from runtime.models.options import timeout_field
from runtime.models.partial_reply import count
from runtime.models.reachability import LOOK_SECONDS, REACHABLE_SECONDS
from runtime.models.remote import RemoteModel
from runtime.models.request import Request
from runtime.outbound.event_stream import event_data
from runtime.outbound.http import CallFailed, HttpCaller
from runtime.outbound.model_service import OPENAI, OpenAIService, Refusal, is_openai, options_and_key
from runtime.secrets.secret import Secret

WINDOW_SECONDS = 600.0
"""Seconds for which the window that a service says is cached."""

_WHOSE = "the model openai"
_DONE: Final = b"[DONE]"
_UNKNOWN: Final = "(?:unsupported|not supported|unknown|unrecognized|unexpected|not permitted|not allowed)"
# vLLM; OpenRouter and others; Groq; Mistral, LM Studio. llama.cpp says it in `meta`.
_WINDOW_FIELDS: Final = ("max_model_len", "context_length", "context_window", "max_context_length")


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
            r"response_format|json_schema|json schema|structured output|\bgrammar\b", re.IGNORECASE
        ),
    }
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
        self._windows: dict[str, tuple[float, int | None]] = {}

    async def window(self) -> int | None:
        until, window = self._windows.get(self.model, (float("-inf"), None))
        if until <= self._clock.monotonic():
            try:
                window = window_of(await self._list(), self.model)
                seconds = WINDOW_SECONDS
            except CallFailed:
                # The last known one, until the service answers again.
                seconds = REACHABLE_SECONDS
            self._windows[self.model] = self._clock.monotonic() + seconds, window
        return window

    def _address(self) -> tuple[str, dict[str, str]]:
        return self._service.url("chat/completions"), self._service.headers()

    def _body(self, request: Request, unknown: Set[str], *, stream: bool) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [message_json(message) for message in request.messages],
            "stream": stream,
            "temperature": request.temperature,
        }
        for limit in [each for each in self._limits if each not in unknown][:1]:
            body[limit] = request.max_tokens
        if stream:
            body["stream_options"] = {"include_usage": True}
        if request.stop:
            body["stop"] = list(request.stop)
        if request.tools:
            body["tools"] = [tool_json(tool) for tool in request.tools]
        if request.schema is not None:
            body["response_format"] = response_format(request.schema)
        return {name: value for name, value in body.items() if name not in unknown}

    def _reading(self) -> ChatReading:
        return ChatReading()

    async def _events(self, lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        async with aclosing(event_data(lines)) as events:
            async for data in events:
                if data == _DONE:
                    return
                yield data

    async def _list(self) -> Any:
        """Return the service's list of models. Raises CallFailed."""
        url, headers = self._service.url("models"), self._service.headers()
        return await self._caller.get_json(url, headers=headers, timeout_seconds=LOOK_SECONDS)

    async def _look(self) -> Problem | None:
        try:
            await self._list()
        except CallFailed as failure:
            if failure.status is None or failure.status >= 500:
                return Problem.of(self._unavailable(failure))
            # Not all services list their models; another answer that refuses this shows that the service is there.
            if failure.status == HTTPStatus.UNAUTHORIZED:
                message, hint, _ = self._refused(failure)
                return Problem.of(AccessRefused(message, hint=hint))
        return None

    def _refused(self, failure: CallFailed) -> Refusal:
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


def window_of(listed: Any, model: str) -> int | None:
    """Return the window of a model in an answer of `/models`; None if the service does not say it."""
    rows = listed.get("data") if isinstance(listed, dict) else None
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    # A service with a single model, such as llama.cpp, answers for any name.
    row = next((row for row in found if row.get("id") == model), found[0] if len(found) == 1 else {})
    meta = row.get("meta")
    sizes = [*(row.get(name) for name in _WINDOW_FIELDS), meta.get("n_ctx") if isinstance(meta, dict) else None]
    return next((size for size in map(count, sizes) if size), None)
