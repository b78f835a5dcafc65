"""`model ollama`: a language model that Ollama runs, on this machine or another.

Its API is https://docs.ollama.com/api/generate: `POST /api/generate` with `stream` false answers `response`; `GET
/api/tags` (https://docs.ollama.com/api/tags) lists the models.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec
from pydantic import Field

from dslc.blocks.block import GroupModel
from dslc.blocks.values.types import Duration, Url
from runtime.clock import SYSTEM, Clock
from runtime.models.remote import LOOK_SECONDS, RemoteModel
from runtime.outbound.http import CallFailed, HttpCaller
from runtime.outbound.model_service import OllamaService, Refusal

_GENERATE = "generate"


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
        description="Timeout of an answer, including the loading of the model.",
    )


class _Answer(msgspec.Struct):
    response: str


class OllamaModel(RemoteModel):
    """Calls one Ollama, with deterministic answers (temperature 0)."""

    name = "ollama"

    def __init__(self, options: OllamaOptions, *, caller: HttpCaller | None = None, clock: Clock = SYSTEM) -> None:
        self._service = OllamaService(options.url, "the model ollama")
        super().__init__(options.model, self._service.host, caller=caller, clock=clock)
        self._options = options

    async def _ask(self, prompt: str, system: str, max_tokens: int) -> str:
        body = {
            "model": self.model,
            "prompt": prompt,
            "system": system,
            "stream": False,
            # A model that first generates its thinking would use up the tokens for the answer.
            "think": False,
            "options": {"num_predict": max_tokens, "num_ctx": self._options.context, "temperature": 0},
        }
        seconds = self._options.timeout.total_seconds()
        answer = await self._post(self._service.url(_GENERATE), body, seconds=seconds)
        try:
            return msgspec.convert(answer, _Answer).response
        except msgspec.ValidationError:
            wrong = self._not_text()
        raise wrong

    async def _look(self) -> bool:
        try:
            await self._caller.get_json(self._service.url("tags"), timeout_seconds=LOOK_SECONDS)
        except CallFailed:
            return False
        return True

    def _refused(self, failure: CallFailed) -> Refusal:
        return self._service.refusal(failure, self.model, _GENERATE)


async def open_ollama(options: Mapping[str, object]) -> OllamaModel:
    """Open the model of this row. Makes no call: a missing Ollama is noticed at the first question."""
    return OllamaModel(OllamaOptions.model_validate(options))
