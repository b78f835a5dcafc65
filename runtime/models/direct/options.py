"""Options of the providers."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from dslc.blocks.block import GroupModel
from dslc.blocks.values.types import ContextTokens, Duration, Form, SecretReference, Url
from runtime.models.options import (
    ExtraFields,
    ProviderOptions,
    Reasoning,
    extra_field,
    key_field,
    model_field,
    reasoning_field,
    stream_field,
    timeout_field,
    url_field,
    window_field,
)

BEDROCK_REGION: Final = "us-east-1"


class AnthropicOptions(ProviderOptions):
    """Options of Anthropic: the API key and the model."""

    api_key: SecretReference | None = key_field("ANTHROPIC_API_KEY")
    model: str = model_field("claude-haiku-4-5")
    url: Url = url_field("https://api.anthropic.com")


class CohereOptions(ProviderOptions):
    """Options of Cohere: the API key and the model."""

    api_key: SecretReference | None = key_field("CO_API_KEY")
    model: str = model_field("command-a-03-2025")
    url: Url = url_field("https://api.cohere.com")


class GoogleOptions(ProviderOptions):
    """Options of the Gemini API: the API key and the model."""

    api_key: SecretReference | None = key_field("GOOGLE_API_KEY")
    model: str = model_field("gemini-3.5-flash-lite")
    url: Url = url_field("https://generativelanguage.googleapis.com")


class BedrockOptions(GroupModel):
    """Options of Amazon Bedrock: the region, the model, and an API key or an access key with its secret."""

    region: Annotated[str, Form("[a-z0-9-]{1,40}", "a region of AWS, such as `eu-west-1`")] = Field(
        default=BEDROCK_REGION, description="The region of AWS.", examples=["eu-west-1"]
    )
    model: str = model_field("global.anthropic.claude-haiku-4-5-20251001-v1:0")
    api_key: SecretReference | None = Field(
        default=None,
        description="An API key of Bedrock, in place of an access key.",
        examples=["secret://env/AWS_BEARER_TOKEN_BEDROCK"],
    )
    access_key_id: SecretReference | None = Field(
        default=None, description="The id of an access key.", examples=["secret://env/AWS_ACCESS_KEY_ID"]
    )
    secret_access_key: SecretReference | None = Field(
        default=None,
        description="The secret of the access key.",
        examples=["secret://env/AWS_SECRET_ACCESS_KEY"],
    )
    session_token: SecretReference | None = Field(
        default=None,
        description="The session token of a temporary access key.",
        examples=["secret://env/AWS_SESSION_TOKEN"],
    )
    url: Url | None = Field(
        default=None,
        description="The URL of the runtime, for a private endpoint. The default is that of the region.",
        examples=["https://bedrock-runtime.eu-west-1.amazonaws.com"],
    )
    reasoning: Reasoning | None = reasoning_field("the setting that the model has for it")
    stream: bool = stream_field()
    extra: ExtraFields = extra_field("additionalModelRequestFields", '{"top_k": 20}')
    window: ContextTokens | None = window_field()
    timeout: Duration = timeout_field()
