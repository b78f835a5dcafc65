"""HTTP for the Qdrant client, which reads whole answers: limits their size."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, cast

import httpx

MOST_BYTES: Final = 64 * 1024 * 1024
"""Maximum bytes of an answer: 500 candidates with their payloads are a few megabytes."""


class TooLarge(httpx.DecodingError):
    """An answer that is larger than expected, or compressed, which was not requested."""


class Bounded(httpx.AsyncHTTPTransport):
    """Aborts answers over MOST_BYTES and refuses compressed ones: a kilobyte can expand to a gigabyte."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = "identity"
        response = await super().handle_async_request(request)
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            await response.aclose()
            raise TooLarge("the answer is compressed, which was not requested", request=request)
        response.stream = _BoundedStream(cast("httpx.AsyncByteStream", response.stream), request)
        return response


class _BoundedStream(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, request: httpx.Request) -> None:
        self._inner = inner
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._inner:
            size += len(part)
            if size > MOST_BYTES:
                raise TooLarge(f"the answer has more than {MOST_BYTES:,} bytes", request=self._request)
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()
