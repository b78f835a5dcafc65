"""`model openai`: a language model of OpenAI, or of any service that speaks its API.

The API is https://platform.openai.com/docs/api-reference/chat/create: `POST /chat/completions` with `messages` answers
`choices`. OpenAI itself wants the most to be written as `max_completion_tokens`; others know the older `max_tokens`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import urlsplit

import msgspec
from pydantic import Field

from dslc.blocks.block import Group
from dslc.blocks.values.types import Duration, SecretReference, Url
from runtime.clock import SYSTEM, Clock
from runtime.errors import UsageError
from runtime.models.model import ModelRefused, NoSuchModel
from runtime.models.remote import LOOK_SECONDS, RemoteModel
from runtime.outbound.bearer import OPENAI, bearer, is_openai, not_accepted, taken_key
from runtime.outbound.http import CallFailed, HttpCaller
from runtime.secrets.secret import Secret

_WHOSE = "the model openai"


class OpenAIOptions(Group):
    """Which service and model answer, and the key that the service wants."""

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
    """Asks one service."""

    name = "openai"

    def __init__(
        self, options: OpenAIOptions, key: Secret | None, *, caller: HttpCaller | None = None, clock: Clock = SYSTEM
    ) -> None:
        """Raises UsageError for a key that no header may hold."""
        self._parts = urlsplit(options.url)
        super().__init__(options.model, self._parts.netloc, caller=caller, clock=clock)
        self._seconds = options.timeout.total_seconds()
        self._most = "max_completion_tokens" if is_openai(options.url) else "max_tokens"
        self._key = key
        bearer(key, _WHOSE)

    async def _ask(self, prompt: str, system: str, max_tokens: int) -> str:
        told = [{"role": "system", "content": system}] if system else []
        messages = [*told, {"role": "user", "content": prompt}]
        body = {"model": self.model, "messages": messages, self._most: max_tokens, "stream": False}
        answer = await self._post(
            self._url("chat/completions"), body, headers=bearer(self._key, _WHOSE), seconds=self._seconds
        )
        try:
            return msgspec.convert(answer, _Answer).choices[0].message.content or ""
        except (msgspec.ValidationError, IndexError):
            wrong = self._not_text()
        raise wrong

    async def _look(self) -> bool:
        try:
            await self._caller.get_json(
                self._url("models"), headers=bearer(self._key, _WHOSE), timeout_seconds=LOOK_SECONDS
            )
        except CallFailed as failure:
            # Not all of them list their models; who says so is there.
            return failure.status is not None and failure.status < 500
        return True

    def _url(self, path: str) -> str:
        return self._parts._replace(path=f"{self._parts.path.rstrip('/')}/{path}").geturl()

    def _refused(self, failure: CallFailed) -> ModelRefused:
        match failure.status:
            case 401 | 403:
                return ModelRefused(
                    f"{self._host} does not accept the key of the model openai (it answered {failure.status})",
                    hint=not_accepted(self._key, self.model),
                )
            case 404:
                said = f": {failure.detail}" if failure.detail else ""
                return NoSuchModel(
                    f"{self._host} has no model {self.model}, or no such address{said}",
                    hint="are `model` and `url` right?",
                )
        return ModelRefused(f"the model openai is refused: {failure}", hint=failure.hint)


async def open_openai(options: Mapping[str, object]) -> OpenAIModel:
    """Reaches no network. Raises UsageError when the key is missing, was not resolved, or cannot be a key."""
    given, key = taken_key(options, _WHOSE)
    read = OpenAIOptions.model_validate(given)
    if read.api_key is None and is_openai(read.url):
        raise UsageError(f"{_WHOSE} needs a key for OpenAI", hint='such as `api_key "secret://env/OPENAI_API_KEY"`')
    return OpenAIModel(read, key)
