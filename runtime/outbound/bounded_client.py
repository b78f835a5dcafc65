"""HTTP clients for libraries that bring their own: providers' of models, and the SDK of the Model Context Protocol.

Like `runtime.outbound.http`, they follow no redirects, keep no cookies between hosts, ignore the environment's proxies,
read no answer beyond `LARGEST_ANSWER`, whichever library reads it, and none that is compressed: 8 MiB of it may become
gigabytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from runtime.outbound.http import CONNECT_SECONDS, LARGEST_ANSWER

OPEN_STREAMS: ContextVar[list[Any] | None] = ContextVar("open_streams", default=None)
"""The list to which answers are added when they begin, for a caller that closes them. Some libraries leave an answer
open that is not read to its end."""


class TooLarge(Exception):  # noqa: N818 - named for what happened
    """An answer has more bytes than are read."""


class CompressedAnswer(Exception):  # noqa: N818 - named for what happened
    """An answer is compressed, which was not requested."""


def http_client(
    library: ModuleType,
    seconds: float,
    *,
    wrapped: Callable[[Any], Any] = lambda transport: transport,
    auth: Any = None,
    body: Callable[[bytes], bytes] | None = None,
) -> Any:
    """Return an `AsyncClient` of httpx or httpx2. `seconds`: at most for each part of an answer. `wrapped` returns the
    transport that is used in place of the client's. `body` returns the content that is sent in place of the one given
    to it."""

    class BoundedStream(library.AsyncByteStream):  # type: ignore[name-defined,misc]
        def __init__(self, inner: Any, most: int) -> None:
            self._inner = inner
            self._left = most

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for part in self._inner:
                self._left -= len(part)
                if self._left < 0:
                    raise TooLarge
                yield part

        async def aclose(self) -> None:
            await self._inner.aclose()

    class BoundedTransport(library.AsyncHTTPTransport):  # type: ignore[name-defined,misc]
        async def handle_async_request(self, request: Any) -> Any:
            if body is not None:
                request = _with_body(library, request, body(await request.aread()))
            response = await super().handle_async_request(request)
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                await response.aclose()
                raise CompressedAnswer
            response.stream = BoundedStream(response.stream, LARGEST_ANSWER)
            if (streams := OPEN_STREAMS.get()) is not None:
                streams.append(response.stream)
            return response

    return library.AsyncClient(
        transport=wrapped(BoundedTransport(trust_env=False)),
        trust_env=False,
        follow_redirects=False,
        auth=auth,
        timeout=library.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS)),
        headers={"User-Agent": "symbiont", "Accept-Encoding": "identity"},
    )


def _with_body(library: ModuleType, request: Any, content: bytes) -> Any:
    headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"content-length"]
    return library.Request(request.method, request.url, headers=headers, content=content, extensions=request.extensions)
