"""A separate catalog for tests, so that additions to the runtime do not change their expectations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from dslc.blocks import TABLE
from dslc.blocks.setting import settings_of
from dslc.blocks.values.types import (
    As,
    Duration,
    Form,
    HeaderName,
    HeaderValue,
    JsonPath,
    Relation,
    SecretReference,
    Size,
)
from dslc.catalog import Catalog, CatalogEntry


class Custom(BaseModel):
    """Options of the provider `custom`."""

    header: str = Field(default="X-Signature", min_length=1, max_length=100)
    encoding: Literal["hex", "base64"] = "hex"
    timestamp_header: str | None = None
    event_header: str | None = None
    payload: str = "{body}"
    tolerance: Annotated[Duration, Field(ge=timedelta(seconds=1), le=timedelta(hours=1))] = timedelta(minutes=5)
    max_age: Annotated[Duration | None, Relation(needs=("timestamp_header",), excludes=("tolerance",))] = None


class UrlToken(BaseModel):
    parameter: str | None = None


class Strict(BaseModel):
    """Options of a provider that needs one."""

    audience: str


class Keyed(BaseModel):
    """Options of a provider whose keys may be fetched."""

    keys_url: Annotated[str | None, As("url")] = None


class Records(BaseModel):
    """Options of the store `records`."""

    gates: tuple[Literal["tdd_proof", "review"], ...] = Field(default=(), min_length=1, max_length=2)
    segment: Annotated[Size, Field(le=1_000_000)] = 1000


class Remote(BaseModel):
    """Options of an embedding that has a secret."""

    url: str
    api_key: SecretReference | None = None


class Service(BaseModel):
    """Options of a language model, with a map."""

    url: Annotated[str | None, As("url")] = None
    headers: Mapping[Annotated[HeaderName, Form("(?i)(?!host$).+", "a header that may be added")], HeaderValue] = Field(
        default={}, examples=[{"X-Team": "core"}]
    )
    window: Annotated[int, Field(ge=1024)] | None = None


class Loaded(BaseModel):
    """Options of a language model with a window of its own."""

    context: Annotated[int, Field(ge=1024)] = 8192


class KeyedThreads(BaseModel):
    """Options of threads by a value of the payload."""

    json_path: JsonPath
    separate_memory: bool = True
    shared_data: bool = False
    retention: Duration | None = None


BLOCKS = {kind: settings_of(model) for kind, model in TABLE.items()}
"""The kinds of blocks, read from their models."""

CATALOG = Catalog(
    kinds=BLOCKS,
    families={
        "provider": (
            CatalogEntry(
                name="custom",
                options=settings_of(Custom),
                signed=("body",),
                signed_by="payload",
                event=(),
                event_by="event_header",
            ),
            CatalogEntry(name="github", signed=("body",), event=("header:X-GitHub-Event",)),
            CatalogEntry(name="headed", signed=("body", "header:X-Environment"), event=("$.type",)),
            CatalogEntry(name="stripe", signed=("timestamp", "body"), event=()),
            CatalogEntry(name="strict", options=settings_of(Strict)),
            CatalogEntry(name="published", signed=("body",), keyless=True),
            CatalogEntry(name="keyed", options=settings_of(Keyed), keyless_by="keys_url"),
            CatalogEntry(name="token", signed=(), event=("$.type",), options=settings_of(UrlToken)),
        ),
        "store": (
            CatalogEntry(name="markdown"),
            CatalogEntry(name="records", options=settings_of(Records), expires=False),
            CatalogEntry(name="collection", files=False),
        ),
        "secret": tuple(CatalogEntry(name=name) for name in ("credential", "env", "file", "generated", "vault")),
        "embedding": (CatalogEntry(name="remote", options=settings_of(Remote)),),
        "model": (
            CatalogEntry(name="ollama", options=settings_of(Loaded)),
            CatalogEntry(name="openai", options=settings_of(Service)),
            CatalogEntry(name="none"),
        ),
        "thread": (
            CatalogEntry(name="one"),
            CatalogEntry(name="delivery"),
            CatalogEntry(name="keyed", options=settings_of(KeyedThreads)),
        ),
        "tool": (
            CatalogEntry(name="search"),
            CatalogEntry(name="remember"),
            CatalogEntry(name="agent_memory_sql", shared=True),
        ),
    },
)
