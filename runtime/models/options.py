"""Options that several rows have."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field

from dslc.blocks.block import GroupModel
from dslc.blocks.values.types import As, ContextTokens, Duration, Form, Scalar, SecretReference, Url

Reasoning = Literal["low", "medium", "high"]
ExtraField = Annotated[
    str,
    Form(
        r"(?!(?:model|messages|stream|tools|think|keep_alive)\Z)[A-Za-z_][A-Za-z0-9_-]{0,63}",
        "the name of a field that the call does not set itself, such as `top_k`",
    ),
]
ExtraFields = Mapping[ExtraField, Annotated[Scalar, As("scalar")]]


def key_field(variable: str) -> Any:
    """Return the field of an API key that is required. `variable`: of the environment, in the example."""
    return Field(default=None, description="The API key. It is required.", examples=[f"secret://env/{variable}"])


def model_field(name: str) -> Any:
    """Return the field of a provider's model. `name`: the default."""
    return Field(default=name, min_length=1, max_length=200, description="The model, by its name at the provider.")


def url_field(default: str) -> Any:
    """Return the field of a provider's address."""
    return Field(default=default, description="The base URL of the API, for a gateway in between.")


def timeout_field() -> Any:
    """Return the field of a service's time limit."""
    return Field(
        default=timedelta(minutes=1),
        ge=timedelta(seconds=1),
        le=timedelta(minutes=30),
        description="Timeout of an answer. A streamed answer may take ten times as long if no part takes longer.",
    )


def window_field() -> Any:
    """Return the field of a model's window."""
    return Field(
        default=None,
        description="Maximum tokens of a request and its reply together. The default is what the service says, else "
        "what is published of the model.",
        examples=[32_768],
    )


def reasoning_field(sent: str) -> Any:
    """Return the field of how much a model reasons. `sent`: the field of the request."""
    return Field(
        default=None,
        description=f"How much the model reasons before it replies, sent as {sent}. The default is the service's.",
        examples=["low"],
    )


def stream_field() -> Any:
    """Return the field that turns streaming off."""
    return Field(
        default=True,
        description="False: replies are not streamed, so that a conversation shows each of them when it is complete.",
    )


def extra_field(name: str, value: object) -> Any:
    """Return the field of what is added to each request, with an example."""
    return Field(
        default={},
        description="Further fields of each request, which are the service's own. A text that is a JSON object or list "
        "is sent as that.",
        examples=[{name: value}],
    )


def merged(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request with the fields of the program; objects that both have are one."""
    for name, given in extra.items():
        value = _value(given)
        own = body.get(name)
        body[name] = {**own, **value} if isinstance(own, dict) and isinstance(value, dict) else value
    return body


def _value(given: Any) -> Any:
    if isinstance(given, str) and given.strip()[:1] in ("{", "["):
        try:
            return msgspec.json.decode(given)
        except (ValueError, RecursionError):
            return given
    return given


class ProviderOptions(GroupModel):
    """Options of a provider with an API of its own. A row declares its defaults."""

    api_key: SecretReference | None = None
    model: str
    url: Url
    reasoning: Reasoning | None = reasoning_field("the setting that the API has for it")
    stream: bool = stream_field()
    extra: ExtraFields = extra_field("service_tier", "flex")
    window: ContextTokens | None = window_field()
    timeout: Duration = timeout_field()
