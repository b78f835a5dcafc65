"""The providers, whose libraries are opened with the program's URL and key and nothing of the environment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel

from runtime import extras
from runtime.errors import UsageError
from runtime.models import Open
from runtime.models.direct.options import (
    AnthropicOptions,
    BedrockOptions,
    CohereOptions,
    GoogleOptions,
)
from runtime.models.direct.request_body import request_body
from runtime.models.keyless import KeylessModel
from runtime.models.model import Model
from runtime.models.options import ProviderOptions
from runtime.outbound.model_service import key_of, key_text

Make = Callable[[str], Any]
"""Returns the model of pydantic-ai by its name."""
_SECRETS: Final = ("api_key", "access_key_id", "secret_access_key", "session_token")


class _Library(NamedTuple):
    """An opened library of a provider. `retries`, `timeout`: it takes these limits with each call."""

    make: Make
    close: Callable[[], Awaitable[None]]
    retries: bool = True
    timeout: bool = True


_Opener = Callable[[Any, Mapping[str, str]], _Library]
"""Opens the library of a provider with the options of a row and its keys."""


def _row_opener(row: str, kind: type[BaseModel], package: str, library: _Opener) -> Open:
    """Return the function that opens the model of a row: it makes no call, and raises UsageError for a missing package
    or an invalid key. `kind`: of its options. `package`: of its library."""

    async def open_row(options: Mapping[str, object]) -> Model:
        keys = _keys(row, options)
        read: Any = kind.model_validate({**options, **dict.fromkeys(keys, "a secret")})
        if (missing := _missing_key(row, keys)) is not None:
            return KeylessModel(row, read.model, missing)
        for each in ("pydantic_ai", package.partition(".")[0], package):
            if find_spec(each) is None:
                hint = extras.install("models")
                raise UsageError(f"the model {row} needs packages that are not installed", hint=hint)
        # Importing them takes seconds, in which the loop must serve others.
        return await asyncio.to_thread(_open_model, row, read, keys, library)

    return open_row


def _open_model(row: str, read: Any, keys: Mapping[str, str], library: _Opener) -> Model:
    from pydantic_ai.settings import ModelSettings

    from runtime.models.direct.model import DirectModel

    url = bedrock_url(read) if isinstance(read, BedrockOptions) else read.url
    opened = library(read, keys)
    settings = ModelSettings() if read.reasoning is None else ModelSettings(thinking=read.reasoning)
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
        streams=read.stream,
        close=opened.close,
    )


def _keys(row: str, options: Mapping[str, object]) -> dict[str, str]:
    """Return the options that are secrets, as text. Raises UsageError for one that is unresolved or invalid."""
    whose = f"the model {row}"
    found = {name: key_of(options.get(name), whose) for name in _SECRETS}
    return {name: key_text(key, whose) for name, key in found.items() if key is not None}


def _missing_key(row: str, keys: Mapping[str, str]) -> str | None:
    """Return the hint for a missing key; None if it is there."""
    if "api_key" in keys or (row == "bedrock" and {"access_key_id", "secret_access_key"} <= set(keys)):
        return None
    hint = "write `api_key` with a reference to a key"
    return f"{hint}, or both `access_key_id` and `secret_access_key`" if row == "bedrock" else hint


def _client(library: ModuleType, options: ProviderOptions) -> Any:
    """Return the HTTP client of a library."""
    from runtime.outbound.bounded_client import http_client

    return http_client(library, options.timeout.total_seconds(), body=partial(request_body, extra=options.extra))


def _anthropic(options: AnthropicOptions, keys: Mapping[str, str]) -> _Library:
    import httpx2
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = _client(httpx2, options)
    library = AsyncAnthropic(api_key=keys["api_key"], base_url=options.url, http_client=client, max_retries=0)
    provider = AnthropicProvider(anthropic_client=library)
    return _Library(lambda model: AnthropicModel(model, provider=provider), client.aclose)


def _google(options: GoogleOptions, keys: Mapping[str, str]) -> _Library:
    import httpx2
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    client = _client(httpx2, options)
    provider = GoogleProvider(api_key=keys["api_key"], base_url=options.url, http_client=client)
    return _Library(lambda model: GoogleModel(model, provider=provider), client.aclose)


def _cohere(options: CohereOptions, keys: Mapping[str, str]) -> _Library:
    import httpx
    from cohere import AsyncClientV2
    from pydantic_ai.models.cohere import CohereModel
    from pydantic_ai.providers.cohere import CohereProvider

    client = _client(httpx, options)
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
    client = bedrock_client(options.region, bedrock_url(options), keys, seconds, options.extra)
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


open_anthropic: Final = _row_opener("anthropic", AnthropicOptions, "anthropic", _anthropic)
open_bedrock: Final = _row_opener("bedrock", BedrockOptions, "boto3", _bedrock)
open_cohere: Final = _row_opener("cohere", CohereOptions, "cohere", _cohere)
open_google: Final = _row_opener("google", GoogleOptions, "google.genai", _google)
