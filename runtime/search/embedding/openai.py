"""`embedding openai`: OpenAI, or any service that speaks its API.

The API is https://platform.openai.com/docs/api-reference/embeddings/create: `POST /embeddings` with a list of texts as
`input` answers `data`, each with the `index` of its text and an `embedding`, as numbers or as base64 of little-endian
float32. The request does not choose between the two, since some services refuse that.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from pydantic import Field

from dslc.blocks.block import GroupModel
from dslc.blocks.values.types import Duration, SecretReference, Url
from runtime.clock import SYSTEM, Clock
from runtime.models.answers.partial_reply import count
from runtime.models.calls.option_key import option_key
from runtime.models.request import Usage
from runtime.outbound.http import CallFailed, HttpCaller
from runtime.outbound.model_service import OPENAI, OpenAIService, Refusal, is_openai, options_and_key
from runtime.search.embedding.remote import RemoteEmbedder, RemoteOptions
from runtime.secrets.secret import Secret

_WHOSE = "the embedding openai"


class OpenAIOptions(GroupModel):
    """Options of the service: its URL, the model, and the API key."""

    url: Url = Field(default=OPENAI, description="The base URL of the service; `/embeddings` is appended.")
    api_key: SecretReference | None = Field(
        default=None,
        description="The API key, sent as a bearer token. The default is `secret://env/OPENAI_API_KEY` for "
        "OpenAI itself, and none for other services.",
        examples=["secret://env/OPENAI_API_KEY"],
    )
    model: str = Field(
        default="text-embedding-3-small",
        min_length=1,
        max_length=200,
        description="The model, by its name at the service.",
    )
    dimension: int | None = Field(
        default=None,
        ge=1,
        le=16384,
        description="The dimension of vectors: requested as `dimensions`, and any other is refused. The default "
        "is that of the model.",
        examples=[512],
    )
    batch: int = Field(default=64, ge=1, le=2048, description="Number of texts per request.")
    max_characters: int = Field(
        default=24_000,
        ge=200,
        le=1_000_000,
        description="Maximum number of characters of a text that are sent; the rest is not embedded.",
    )
    timeout: Duration = Field(
        default=timedelta(seconds=30),
        ge=timedelta(seconds=1),
        le=timedelta(minutes=10),
        description="Timeout of a batch. A search waits 10 s at most.",
    )


class _Datum(msgspec.Struct):
    embedding: list[float] | str
    index: int | None = None


class _Answer(msgspec.Struct):
    data: list[_Datum]
    usage: dict[str, Any] | None = None


class OpenAIEmbedder(RemoteEmbedder):
    """Asks one service for the vectors of one model."""

    name = "openai"

    def __init__(
        self,
        options: OpenAIOptions,
        key: Secret | None,
        *,
        caller: HttpCaller | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        """Raises UsageError for a key with characters that are invalid in a header."""
        self._openai = OpenAIService(options.url, key, _WHOSE)
        host, seconds = self._openai.host, options.timeout.total_seconds()
        which = host, options.url, options.model, option_key(key)
        service = RemoteOptions(*which, options.batch, options.max_characters, seconds, options.dimension)
        super().__init__(service, caller=caller, clock=clock)
        self._parameters: dict[str, Any] = {"model": options.model}
        if options.dimension is not None:
            self._parameters["dimensions"] = options.dimension
        where = "" if is_openai(options.url) else f"{host}/"
        size = "" if options.dimension is None else f"@{options.dimension}"
        self.model = f"openai/{where}{options.model}{size}"

    async def _ask(self, texts: Sequence[str], *, seconds: float) -> tuple[Any, Usage]:
        body = {**self._parameters, "input": list(texts)}
        url, headers = self._openai.url("embeddings"), self._openai.headers()
        answer = await self._post(url, body, headers=headers, seconds=seconds)
        try:
            read = msgspec.convert(answer, _Answer)
            return self._rows(read.data), Usage(tokens_in=count((read.usage or {}).get("prompt_tokens")))
        except (msgspec.ValidationError, binascii.Error, ValueError):
            wrong = self.not_vectors()
        raise wrong

    def _rows(self, data: list[_Datum]) -> list[Any]:
        """Return the vectors in the order of their texts. Raises ValueError for invalid ones."""
        if any(datum.index is not None for datum in data):
            if sorted(-1 if datum.index is None else datum.index for datum in data) != list(range(len(data))):
                raise ValueError("the number of answers is not the number of texts")
            data = sorted(data, key=lambda datum: datum.index or 0)
        return [_numbers(datum.embedding) for datum in data]

    def _service_refusal(self, failure: CallFailed) -> Refusal:
        return self._openai.refusal(failure, self._parameters["model"])


async def open_openai(options: Mapping[str, object]) -> OpenAIEmbedder:
    """Open the embedding of this row; makes no call. Raises UsageError for a missing, unresolved or invalid key."""
    read, key = options_and_key(OpenAIOptions, options, _WHOSE)
    return OpenAIEmbedder(read, key)


def _numbers(embedding: list[float] | str) -> Any:
    """Return a row of numbers. Raises ValueError."""
    if isinstance(embedding, list):
        return embedding
    import numpy as np

    return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
