"""`model groq` and `model mistral`: providers whose own APIs differ little from OpenAI's.

Their APIs are https://console.groq.com/docs/api-reference and https://docs.mistral.ai/api. Groq's library hides some of
its refusals, and that of Mistral cannot be installed beside this program: a package that it needs has the module name
of another one that is needed here (`jsonpath`).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final

from pydantic import Field

from dslc.blocks.values.types import SecretReference, Url
from runtime.models import Open
from runtime.models.keyless import KeylessModel
from runtime.models.model import Model
from runtime.models.openai import OpenAIModel, OpenAIOptions
from runtime.models.options import ProviderOptions, key_field, model_field
from runtime.models.request import Request
from runtime.outbound.model_service import options_and_key


def _url_field(default: str) -> Any:
    return Field(default=default, description="The base URL of the API; `/chat/completions` is appended.")


class GroqOptions(ProviderOptions):
    """Options of Groq: the API key and the model."""

    api_key: SecretReference | None = key_field("GROQ_API_KEY")
    model: str = model_field("openai/gpt-oss-20b")
    url: Url = _url_field("https://api.groq.com/openai/v1")


class MistralOptions(ProviderOptions):
    """Options of Mistral: the API key and the model."""

    api_key: SecretReference | None = key_field("MISTRAL_API_KEY")
    model: str = model_field("mistral-small-latest")
    url: Url = _url_field("https://api.mistral.ai/v1")


class GroqModel(OpenAIModel):
    """Asks Groq."""

    name = "groq"
    _whose = "the model groq"


class MistralModel(OpenAIModel):
    """Asks Mistral."""

    name = "mistral"
    _whose = "the model mistral"

    def _body(self, request: Request, unknown: Set[str], *, stream: bool) -> dict[str, Any]:
        # The usage is in the last part of every stream; an unknown parameter is refused.
        return super()._body(request, {*unknown, "stream_options"}, stream=stream)


def _opener(kind: type[OpenAIModel], options: type[ProviderOptions]) -> Open:
    """Return the function that opens a row: it makes no call. Raises UsageError for an unresolved or invalid key."""

    async def open_row(given: Mapping[str, object]) -> Model:
        read, key = options_and_key(options, given, kind._whose)
        if key is None:
            variable = f"{kind.name.upper()}_API_KEY"
            return KeylessModel(kind.name, read.model, f'such as `api_key "secret://env/{variable}"`')
        return kind(OpenAIOptions.model_validate(read.model_dump(exclude={"api_key", "window"})), key)

    return open_row


open_groq: Final = _opener(GroqModel, GroqOptions)
open_mistral: Final = _opener(MistralModel, MistralOptions)
