"""The providers: how each one's library is opened, with the program's URL and key and nothing of the environment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel

from dslc.blocks.values.secret import is_reference
from runtime import extras
from runtime.errors import UsageError
from runtime.models.direct.options import (
    AnthropicOptions,
    BedrockOptions,
    CohereOptions,
    GoogleOptions,
    GroqOptions,
)
from runtime.models.keyless import KeylessModel
from runtime.models.model import Model
from runtime.secrets.secret import Secret

Make = Callable[[str], Any]
"""Returns the model of pydantic-ai by its name."""


class _Library(NamedTuple):
    """An opened library of a provider: its models, what closes it, and whether it takes limits with each call."""

    make: Make
    close: Callable[[], Awaitable[None]]
    retries: bool = True
    timeout: bool = True


async def open_anthropic(options: Mapping[str, object]) -> Model:
    """Open the model of this row; makes no call. Raises UsageError for a missing package or an invalid key."""
    return await _open("anthropic", AnthropicOptions, options, "anthropic", _anthropic)


async def open_bedrock(options: Mapping[str, object]) -> Model:
    """Open the model of this row; makes no call. Raises UsageError for a missing package or an invalid key."""
    return await _open("bedrock", BedrockOptions, options, "boto3", _bedrock)


async def open_cohere(options: Mapping[str, object]) -> Model:
    """Open the model of this row; makes no call. Raises UsageError for a missing package or an invalid key."""
    return await _open("cohere", CohereOptions, options, "cohere", _cohere)


async def open_google(options: Mapping[str, object]) -> Model:
    """Open the model of this row; makes no call. Raises UsageError for a missing package or an invalid key."""
    return await _open("google", GoogleOptions, options, "google.genai", _google)


async def open_groq(options: Mapping[str, object]) -> Model:
    """Open the model of this row; makes no call. Raises UsageError for a missing package or an invalid key."""
    return await _open("groq", GroqOptions, options, "groq", _groq)


async def _open(
    row: str,
    kind: type[BaseModel],
    options: Mapping[str, object],
    package: str,
    library: Callable[[Any, Mapping[str, str]], _Library],
) -> Model:
    keys = _keys(row, options)
    read: Any = kind.model_validate({**options, **dict.fromkeys(keys, "a secret")})
    if (missing := _missing(row, keys)) is not None:
        return KeylessModel(row, read.model, missing)
    for each in ("pydantic_ai", package.partition(".")[0], package):
        if find_spec(each) is None:
            raise UsageError(f"the model {row} needs packages that are not installed", hint=extras.install("models"))
    # Importing them takes seconds, in which the loop must serve others.
    return await asyncio.to_thread(_opened, row, read, keys, library)


def _opened(row: str, read: Any, keys: Mapping[str, str], library: Callable[..., _Library]) -> Model:
    from pydantic_ai.settings import ModelSettings

    from runtime.models.direct.model import DirectModel

    url = bedrock_url(read) if isinstance(read, BedrockOptions) else read.url
    opened = library(read, keys)
    settings = ModelSettings()
    if opened.retries:
        settings["max_retries"] = 0
    if opened.timeout:
        settings["timeout"] = read.timeout.total_seconds()
    return DirectModel(
        row,
        read.model,
        make=opened.make,
        url=url,
        host=urlsplit(url).netloc,
        seconds=read.timeout.total_seconds(),
        secrets=keys,
        settings=settings,
        close=opened.close,
    )


def _keys(row: str, options: Mapping[str, object]) -> dict[str, str]:
    """Return the options that are secrets, as text. Raises UsageError for one that is unresolved or invalid."""
    found: dict[str, str] = {}
    for name in ("api_key", "access_key_id", "secret_access_key", "session_token"):
        value = options.get(name)
        if isinstance(value, str) and is_reference(value):
            raise UsageError(f"the key of the model {row} could not be resolved", hint="check that the secret is set")
        if isinstance(value, Secret | str):
            text = value.reveal() if isinstance(value, Secret) else value.encode()
            # A file or a variable often ends with a line end.
            text = text.strip()
            if not text or any(byte <= 0x20 or byte >= 0x7F for byte in text):
                origin = value.origin if isinstance(value, Secret) else "written in the program"
                raise UsageError(f"the key of the model {row}, {origin}, contains characters that are invalid in a key")
            found[name] = text.decode("ascii")
    return found


def _missing(row: str, keys: Mapping[str, str]) -> str | None:
    """Return how to give the key; None if it is there."""
    if "api_key" in keys or (row == "bedrock" and {"access_key_id", "secret_access_key"} <= set(keys)):
        return None
    hint = "write `api_key` with a reference to a key"
    return f"{hint}, or both `access_key_id` and `secret_access_key`" if row == "bedrock" else hint


def _anthropic(options: AnthropicOptions, keys: Mapping[str, str]) -> _Library:
    import httpx2
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    from runtime.models.direct.http_client import http_client

    client = http_client(httpx2, options.timeout.total_seconds())
    library = AsyncAnthropic(api_key=keys["api_key"], base_url=options.url, http_client=client, max_retries=0)
    provider = AnthropicProvider(anthropic_client=library)
    return _Library(lambda model: AnthropicModel(model, provider=provider), client.aclose)


def _google(options: GoogleOptions, keys: Mapping[str, str]) -> _Library:
    import httpx2
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    from runtime.models.direct.http_client import http_client

    client = http_client(httpx2, options.timeout.total_seconds())
    provider = GoogleProvider(api_key=keys["api_key"], base_url=options.url, http_client=client)
    return _Library(lambda model: GoogleModel(model, provider=provider), client.aclose)


def _groq(options: GroqOptions, keys: Mapping[str, str]) -> _Library:
    import httpx
    from groq import AsyncGroq
    from pydantic_ai.models.groq import GroqModel
    from pydantic_ai.providers.groq import GroqProvider

    from runtime.models.direct.http_client import http_client

    client = http_client(httpx, options.timeout.total_seconds())
    library = AsyncGroq(api_key=keys["api_key"], base_url=options.url, http_client=client, max_retries=0)
    provider = GroqProvider(groq_client=library)
    return _Library(lambda model: GroqModel(model, provider=provider), client.aclose)


def _cohere(options: CohereOptions, keys: Mapping[str, str]) -> _Library:
    import httpx
    from cohere import AsyncClientV2
    from pydantic_ai.models.cohere import CohereModel
    from pydantic_ai.providers.cohere import CohereProvider

    from runtime.models.direct.http_client import http_client

    client = http_client(httpx, options.timeout.total_seconds())
    library = AsyncClientV2(
        api_key=keys["api_key"],
        base_url=options.url,
        httpx_client=client,
        timeout=options.timeout.total_seconds(),
        log_warning_experimental_features=False,
    )
    provider = CohereProvider(cohere_client=library)
    return _Library(lambda model: CohereModel(model, provider=provider), client.aclose, timeout=False)


def _bedrock(options: BedrockOptions, keys: Mapping[str, str]) -> _Library:
    from pydantic_ai.models.bedrock import BedrockConverseModel
    from pydantic_ai.providers.bedrock import BedrockProvider

    from runtime.models.direct.bedrock_client import bedrock_client

    seconds = options.timeout.total_seconds()
    client = bedrock_client(options.region, bedrock_url(options), keys, seconds)
    provider = BedrockProvider(bedrock_client=client)
    return _Library(
        lambda model: BedrockConverseModel(model, provider=provider),
        lambda: asyncio.to_thread(client.close),
        retries=False,
        timeout=False,
    )


def bedrock_url(options: BedrockOptions) -> str:
    """Return the URL of the runtime."""
    return options.url or f"https://bedrock-runtime.{options.region}.amazonaws.com"
