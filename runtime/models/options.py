"""Options that several rows have."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import Field

from dslc.blocks.block import GroupModel
from dslc.blocks.values.types import Duration, SecretReference, Url


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


class ProviderOptions(GroupModel):
    """Options of a provider with an API of its own. A row declares its defaults."""

    api_key: SecretReference | None = None
    model: str
    url: Url
    timeout: Duration = timeout_field()
