"""`model mistral`: a model of Mistral, by its own API.

Its API is https://docs.mistral.ai/api, which differs little from OpenAI's. Its library cannot be installed beside this
program: a package that it needs has the module name of another one that is needed here (`jsonpath`).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from pydantic import Field

from dslc.blocks.values.types import SecretReference, Url
from runtime.models.keyless import KeylessModel
from runtime.models.model import Model
from runtime.models.openai import OpenAIModel, OpenAIOptions
from runtime.models.options import ProviderOptions, key_field, model_field
from runtime.models.request import Request
from runtime.outbound.model_service import options_and_key

_WHOSE = "the model mistral"


class MistralOptions(ProviderOptions):
    """Options of Mistral: the API key and the model."""

    api_key: SecretReference | None = key_field("MISTRAL_API_KEY")
    model: str = model_field("mistral-small-latest")
    url: Url = Field(
        default="https://api.mistral.ai/v1",
        description="The base URL of the API; `/chat/completions` is appended.",
    )


class MistralModel(OpenAIModel):
    """Asks Mistral."""

    name = "mistral"
    _whose = _WHOSE

    def _body(self, request: Request, unknown: Set[str], *, stream: bool) -> dict[str, Any]:
        # The usage is in the last part of every stream; an unknown parameter is refused.
        return super()._body(request, {*unknown, "stream_options"}, stream=stream)


async def open_mistral(options: Mapping[str, object]) -> Model:
    """Open the model of this row; makes no call. Raises UsageError for an unresolved or invalid key."""
    read, key = options_and_key(MistralOptions, options, _WHOSE)
    if key is None:
        return KeylessModel("mistral", read.model, 'such as `api_key "secret://env/MISTRAL_API_KEY"`')
    return MistralModel(OpenAIOptions(url=read.url, model=read.model, timeout=read.timeout), key)
