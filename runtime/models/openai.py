"""`model openai`: a language model of OpenAI, or of any service that speaks its API.

The API is https://platform.openai.com/docs/api-reference/chat/create: `POST /chat/completions` with `messages` answers
`choices`. OpenAI itself requires the limit as `max_completion_tokens`; other services support the older `max_tokens`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec
from pydantic import Field

from dslc.blocks.block import GroupModel
from dslc.blocks.values.types import Duration, SecretReference, Url
from runtime.clock import SYSTEM, Clock
from runtime.models.remote import LOOK_SECONDS, RemoteModel
from runtime.outbound.http import CallFailed, HttpCaller
from runtime.outbound.model_service import OPENAI, OpenAIService, Refusal, is_openai, options_and_key
from runtime.secrets.secret import Secret

_WHOSE = "the model openai"


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
    timeout: Duration = Field(
        default=timedelta(minutes=1),
        ge=timedelta(seconds=1),
        le=timedelta(minutes=30),
        description="Timeout of an answer.",
    )


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Message


class _Answer(msgspec.Struct):
    choices: list[_Choice]


class OpenAIModel(RemoteModel):
    """Calls one service."""

    name = "openai"

    def __init__(
        self, options: OpenAIOptions, key: Secret | None, *, caller: HttpCaller | None = None, clock: Clock = SYSTEM
    ) -> None:
        """Raises UsageError for a key with characters that are invalid in a header."""
        self._service = OpenAIService(options.url, key, _WHOSE)
        super().__init__(options.model, self._service.host, caller=caller, clock=clock)
        self._seconds = options.timeout.total_seconds()
        self._most = "max_completion_tokens" if is_openai(options.url) else "max_tokens"

    async def _ask(self, prompt: str, system: str, max_tokens: int) -> str:
        instructions = [{"role": "system", "content": system}] if system else []
        messages = [*instructions, {"role": "user", "content": prompt}]
        body = {"model": self.model, "messages": messages, self._most: max_tokens, "stream": False}
        url, headers = self._service.url("chat/completions"), self._service.headers()
        answer = await self._post(url, body, headers=headers, seconds=self._seconds)
        try:
            return msgspec.convert(answer, _Answer).choices[0].message.content or ""
        except (msgspec.ValidationError, IndexError):
            wrong = self._not_text()
        raise wrong

    async def _look(self) -> bool:
        try:
            url, headers = self._service.url("models"), self._service.headers()
            await self._caller.get_json(url, headers=headers, timeout_seconds=LOOK_SECONDS)
        except CallFailed as failure:
            # Not all services list their models; an answer that refuses this shows that the service is there.
            return failure.status is not None and failure.status < 500
        return True

    def _refused(self, failure: CallFailed) -> Refusal:
        return self._service.refusal(failure, self.model)


async def open_openai(options: Mapping[str, object]) -> OpenAIModel:
    """Open the model of this row; makes no call. Raises UsageError for a missing, unresolved or invalid key."""
    read, key = options_and_key(OpenAIOptions, options, _WHOSE)
    return OpenAIModel(read, key)
