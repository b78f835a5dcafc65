"""A load generator: N connections, each of which sends the next request when the last one is answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from runtime.webhooks.providers import PROVIDERS
from runtime.webhooks.verification import sign_request

SECRET = "bench-secret"


@dataclass(frozen=True, slots=True)
class Sample:
    """One round: requests per second, and the sorted durations of its requests in seconds."""

    rate: float
    seconds: list[float]

    def percentile(self, share: float) -> float:
        """Return the latency in milliseconds below which `share` of the requests were answered."""
        return self.seconds[min(len(self.seconds) - 1, int(len(self.seconds) * share))] * 1000


def github_request(path: str, body: bytes) -> Callable[[str], bytes]:
    """Return a function that builds the bytes of a signed delivery from its id. GitHub signs only the body, so
    everything else is built once."""
    headers = [
        ("Host", "127.0.0.1"),
        ("User-Agent", "GitHub-Hookshot/bench"),
        ("Accept", "*/*"),
        ("Content-Length", str(len(body))),
        *sign_request(PROVIDERS["github"], SECRET, body, now=time.time(), delivery_id="@", event="push")[0],
    ]
    head = "".join(f"{name}: {value}\r\n" for name, value in headers)
    before, _, after = f"POST {path} HTTP/1.1\r\n{head}\r\n".partition("@")
    prefix, suffix = before.encode(), after.encode() + body
    return lambda delivery_id: prefix + delivery_id.encode() + suffix


class _Client(asyncio.Protocol):
    def __init__(self, requests: Callable[[], bytes | None], seconds: list[float], done: asyncio.Future[None]) -> None:
        self._requests = requests
        self._seconds = seconds
        self._done = done
        self._buffer = b""
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._next()

    def _next(self) -> None:
        request = self._requests()
        if request is None:
            self._transport.close()
            if not self._done.done():
                self._done.set_result(None)
            return
        self._sent = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(rest) < length:
            return
        self._seconds.append(time.perf_counter() - self._sent)
        self._buffer = b""
        if not head.startswith(b"HTTP/1.1 202"):
            self._done.set_exception(RuntimeError(f"answered {head[:40]!r} {rest[:200]!r}"))
            self._transport.close()
            return
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(error or ConnectionError("the server closed the connection"))


async def load(
    host: str, port: int, request: Callable[[str], bytes], *, total: int, connections: int, tag: str
) -> Sample:
    """Send `total` deliveries over `connections`. Raises RuntimeError for any status but 202."""
    sent = 0

    def requests() -> bytes | None:
        nonlocal sent
        if sent >= total:
            return None
        sent += 1
        return request(f"{tag}-{sent}")

    loop = asyncio.get_running_loop()
    seconds: list[float] = []
    ends = [loop.create_future() for _ in range(connections)]
    start = time.perf_counter()
    for end in ends:
        await loop.create_connection(lambda end=end: _Client(requests, seconds, end), host, port)  # type: ignore[misc]
    await asyncio.gather(*ends)
    return Sample(total / (time.perf_counter() - start), sorted(seconds))
