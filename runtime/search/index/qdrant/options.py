"""`index qdrant`: its options and its opening."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import ssl
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import structlog
from pydantic import BaseModel, Field

from dslc.blocks.block import GroupModel
from dslc.blocks.values.secret import is_reference
from dslc.blocks.values.types import Duration, Form, SecretReference, Url
from runtime import extras
from runtime.errors import UsageError
from runtime.search.index.index import IndexPlace
from runtime.search.index.qdrant.client import Collection, QdrantServer
from runtime.search.index.qdrant.index import QdrantIndex
from runtime.secrets.secret import Secret

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient

log = structlog.get_logger("symbiont.index")

PORT: Final = 6333
"""The port for a URL without one: Qdrant's default for HTTP."""


class QdrantOptions(GroupModel):
    """Options of the index: the Qdrant server, and the collection with the vectors and the payload."""

    url: Url = Field(
        default="http://127.0.0.1:6333",
        description="The HTTP URL of Qdrant. A URL without a port means 6333; behind a proxy write `:443`.",
    )
    api_key: SecretReference | None = Field(
        default=None,
        description="The API key, sent with every call. Over `http://` to another machine it can be read on the "
        "network.",
        examples=["secret://env/QDRANT_API_KEY"],
    )
    collection: Annotated[
        str | None, Form("[A-Za-z0-9_][A-Za-z0-9_.-]*", "a collection's name: letters, digits, `_`, `.` and `-`")
    ] = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="The collection, for this memory alone. It is created with the first vector; the default "
        "name is derived from the memory's store.",
        examples=["notes"],
    )
    exact: bool = Field(
        default=False,
        description="Compare every vector. Otherwise Qdrant's HNSW graph finds nearly all of the nearest, and "
        "is much faster if there are many.",
    )
    timeout: Duration = Field(
        default=timedelta(seconds=10),
        ge=timedelta(seconds=1),
        le=timedelta(minutes=5),
        description="Timeout of one call.",
    )


async def open_qdrant(place: IndexPlace, options: BaseModel) -> QdrantIndex:
    """Open the index of this row. Makes no call: an unreachable server is a problem of the index, which continues
    when it is back. Raises UsageError if the client is not installed or the key is invalid."""
    assert isinstance(options, QdrantOptions)
    key = _key(options.api_key)
    client = await asyncio.to_thread(_client, options, key)
    parts = urlsplit(options.url)
    port = "" if parts.port is None else f":{parts.port}"
    server = QdrantServer(
        host=f"{parts.hostname}{port}",
        collection=options.collection or place.name,
        owner=place.name,
        seconds=options.timeout.total_seconds(),
        exact=options.exact,
        key=key,
    )
    warning = _key_warning(options.url) if key is not None else None
    if warning is not None:
        log.warning("key_sent_in_clear", url=options.url, reason=warning)
    return QdrantIndex(Collection(client, server), warning)


def _client(options: QdrantOptions, key: str | None) -> AsyncQdrantClient:
    """Load the client, which takes seconds; makes no connection."""
    try:
        import httpx
        from qdrant_client import AsyncQdrantClient

        from runtime.search.index.qdrant.bounded_http import Bounded
    except ImportError as error:
        raise UsageError(
            f"the index qdrant needs its client, which is not installed: {str(error).splitlines()[0]}",
            hint=extras.install("qdrant"),
        ) from None
    return AsyncQdrantClient(
        url=options.url,
        port=PORT,
        # Set as a header: with the client's option it would warn at every start, outside our log.
        headers={} if key is None else {"api-key": key},
        timeout=int(-(-options.timeout.total_seconds() // 1)),
        check_compatibility=False,
        transport=Bounded(
            limits=httpx.Limits(max_connections=20, max_keepalive_connections=4, keepalive_expiry=4),
            verify=ssl.create_default_context(),
            trust_env=False,
        ),
        trust_env=False,
    )


def _key(given: Any) -> str | None:
    if given is None:
        return None
    if isinstance(given, str):
        if is_reference(given):
            raise UsageError("the key of the index qdrant could not be resolved", hint="check that the secret is set")
        given = Secret(given.encode(), "written in the program")
    assert isinstance(given, Secret)
    # A file or a variable often ends with a line end.
    text = given.reveal().strip()
    if not text or any(byte <= 0x20 or byte >= 0x7F for byte in text):
        raise UsageError(f"the key of the index qdrant, {given.origin}, contains characters that are invalid in a key")
    return text.decode("ascii")


def _key_warning(url: str) -> str | None:
    """Return the warning for a key that is not safe in transit; None: it is."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https" or host == "localhost":
        return None
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return None
    return f"the key goes to {host} over http://, where others on the network can read it: write https://"
