"""`embedding ollama`: a model that Ollama runs, on this machine or another.

Its API is https://docs.ollama.com/api/embed: `POST /api/embed` with a list of texts as `input` answers `embeddings`, in
order; a text longer than the model's context is cut by the server. The older `/api/embeddings` is not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from pydantic import Field

from dslc.blocks.block import GroupModel
from dslc.blocks.values.types import Duration, Url
from runtime.clock import SYSTEM, Clock
from runtime.models.answers.partial_reply import count
from runtime.models.request import Usage
from runtime.outbound.http import CallFailed, HttpCaller
from runtime.outbound.model_service import OllamaService, Refusal
from runtime.search.embedding.remote import RemoteEmbedder, RemoteOptions

_EMBED = "embed"


class OllamaOptions(GroupModel):
    """Options of Ollama: its URL and its embedding model."""

    url: Url = Field(default="http://localhost:11434", description="The URL of Ollama, without `/api`.")
    model: str = Field(
        default="nomic-embed-text",
        min_length=1,
        max_length=200,
        description="The model, as `ollama list` names it. `ollama pull` downloads it.",
    )
    dimension: int | None = Field(
        default=None,
        ge=1,
        le=16384,
        description="The dimension of vectors. The default is that of the first answer; with this option any other "
        "dimension is refused.",
        examples=[768],
    )
    batch: int = Field(default=32, ge=1, le=512, description="Number of texts per request.")
    max_characters: int = Field(
        default=8000,
        ge=200,
        le=1_000_000,
        description="Maximum number of characters of a text that are sent; the rest is not embedded.",
    )
    timeout: Duration = Field(
        default=timedelta(seconds=60),
        ge=timedelta(seconds=1),
        le=timedelta(minutes=10),
        description="Timeout of a batch, including the loading of the model. A search waits 10 s at most.",
    )


class _Answer(msgspec.Struct):
    embeddings: list[list[float]]
    prompt_eval_count: Any = None


class OllamaEmbedder(RemoteEmbedder):
    """Asks one Ollama for the vectors of one of its models."""

    name = "ollama"

    def __init__(self, options: OllamaOptions, *, caller: HttpCaller | None = None, clock: Clock = SYSTEM) -> None:
        seconds = options.timeout.total_seconds()
        self._ollama = OllamaService(options.url, "the embedding ollama")
        which = self._ollama.host, options.url, options.model, None
        service = RemoteOptions(*which, options.batch, options.max_characters, seconds, options.dimension)
        super().__init__(service, caller=caller, clock=clock)
        self._model_name = options.model
        # A name without a tag means the tag `latest`.
        self.model = f"ollama/{options.model if ':' in options.model else f'{options.model}:latest'}"

    async def _ask(self, texts: Sequence[str], *, seconds: float) -> tuple[Any, Usage]:
        body = {"model": self._model_name, "input": list(texts), "truncate": True}
        answer = await self._post(self._ollama.url(_EMBED), body, seconds=seconds)
        try:
            read = msgspec.convert(answer, _Answer)
            return read.embeddings, Usage(tokens_in=count(read.prompt_eval_count))
        except msgspec.ValidationError:
            wrong = self.not_vectors()
        raise wrong

    def _service_refusal(self, failure: CallFailed) -> Refusal:
        return self._ollama.refusal(failure, self._model_name, _EMBED)


async def open_ollama(options: Mapping[str, object]) -> OllamaEmbedder:
    """Open the embedding of this row. Makes no call: a missing Ollama is noticed at the first text."""
    return OllamaEmbedder(OllamaOptions.model_validate(options))
