"""Options of the providers."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Final

from pydantic import Field

from dslc.blocks.block import GroupModel
from dslc.blocks.values.types import Duration, Form, SecretReference, Url

BEDROCK_REGION: Final = "us-east-1"


def _key(variable: str) -> Any:
    return Field(default=None, description="The API key. It is required.", examples=[f"secret://env/{variable}"])


def _model(name: str) -> Any:
    return Field(default=name, min_length=1, max_length=200, description="The model, by its name at the provider.")


def _timeout() -> Any:
    return Field(
        default=timedelta(minutes=1),
        ge=timedelta(seconds=1),
        le=timedelta(minutes=30),
        description="Timeout of an answer. A streamed answer may take ten times as long if no part takes longer.",
    )


def _url(default: str) -> Any:
    return Field(default=default, description="The base URL of the API, for a gateway in between.")


class AnthropicOptions(GroupModel):
    """Options of Anthropic: the API key and the model."""

    api_key: SecretReference | None = _key("ANTHROPIC_API_KEY")
    model: str = _model("claude-haiku-4-5")
    url: Url = _url("https://api.anthropic.com")
    timeout: Duration = _timeout()


class CohereOptions(GroupModel):
    """Options of Cohere: the API key and the model."""

    api_key: SecretReference | None = _key("CO_API_KEY")
    model: str = _model("command-a-03-2025")
    url: Url = _url("https://api.cohere.com")
    timeout: Duration = _timeout()


class GoogleOptions(GroupModel):
    """Options of the Gemini API: the API key and the model."""

    api_key: SecretReference | None = _key("GOOGLE_API_KEY")
    model: str = _model("gemini-3.5-flash-lite")
    url: Url = _url("https://generativelanguage.googleapis.com")
    timeout: Duration = _timeout()


class GroqOptions(GroupModel):
    """Options of Groq: the API key and the model."""

    api_key: SecretReference | None = _key("GROQ_API_KEY")
    model: str = _model("openai/gpt-oss-20b")
    url: Url = _url("https://api.groq.com")
    timeout: Duration = _timeout()


class BedrockOptions(GroupModel):
    """Options of Amazon Bedrock: the region, the model, and an API key or an access key with its secret."""

    region: Annotated[str, Form("[a-z0-9-]{1,40}", "a region of AWS, such as `eu-west-1`")] = Field(
        default=BEDROCK_REGION, description="The region of AWS.", examples=["eu-west-1"]
    )
    model: str = _model("global.anthropic.claude-haiku-4-5-20251001-v1:0")
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
    timeout: Duration = _timeout()
