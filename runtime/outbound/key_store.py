"""Key documents (JWK sets, certificates) that senders publish, fetched on demand and cached.

An unverified request may name the document. So every URL here is either configured by the webhook's owner or known to
the scheme as the sender's, and the number of fetches is limited.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import ssl
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import structlog
from aiohttp.abc import AbstractResolver

from runtime.clock import Clock
from runtime.http.client_network import network
from runtime.outbound.address import PublicResolver

log = structlog.get_logger("symbiont.outbound")

SECONDS = 5.0
"""Seconds for one fetch, from resolving the name to the last byte."""
BYTES = 64 * 1024
"""Maximum bytes of a document."""
PER_HOST = 6
"""Maximum fetches per minute from one host of documents that the owner configured or a verified request named."""
PER_HOST_NAMED = 30
"""The same for documents that only unverified requests name, as all are at first: enough that a forger with few
addresses leaves room for the sender."""
PER_MINUTE = 60
"""Maximum fetches per minute in total, for each of these."""
PER_ADDRESS = 2
"""Maximum fetches per minute from one host for unverified requests from one address, or one /64 of IPv6."""
STALE_SECONDS = 3600.0
"""Seconds for which a proven document is used beyond its age while a new one is fetched or unavailable."""

_MOST_KEPT = 128
_MOST_HOSTS = 256
_MINUTE = 60.0
_FAILED_SECONDS = 30.0
# A key that is missing in a document this young does not exist.
_YOUNG_SECONDS = 60.0
_USUAL_AGE = 3600
_AGES = (300, 86400)
_Budget = tuple[str, str, str]
"""The kind of choice, the host, and the address that named it; each empty for the total."""
_MAX_AGE = re.compile(r"(?:^|[,\s])max-age\s*=\s*\"?(\d{1,9})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Document:
    content: bytes
    fetched: float
    until: float
    configured: bool


class _FetchFailed(Exception):  # noqa: N818
    """A failed fetch; the text contains the reason."""


class KeyStore:
    """Fetches documents by URL and caches them.

    At most 128 are kept, each as long as its `Cache-Control` says (default an hour), but between five minutes and a
    day. A failure is cached for 30 seconds. Each URL is fetched once at a time, however many wait for it.

    A document is *proven* after a request was verified with it, also by an earlier process. Documents named by
    unverified requests have a budget of their own: otherwise a few forged requests a minute could block the keys of
    genuine ones.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        tls: ssl.SSLContext | None = None,
        resolver: Callable[[], AbstractResolver] = aiohttp.DefaultResolver,
        proven: Iterable[str] = (),
        on_proven: Callable[[Sequence[str]], None] = lambda _: None,
    ) -> None:
        """`tls`: the trusted authorities, by default the system's. `resolver`: creates the resolver of names. `proven`:
        the URLs that were proven before a restart, of which `on_proven` got all that are kept."""
        self._clock = clock
        self._tls = tls
        self._resolver = resolver
        self._documents: OrderedDict[str, _Document] = OrderedDict()
        self._failures: OrderedDict[str, float] = OrderedDict()
        self._fetches: OrderedDict[_Budget, deque[float]] = OrderedDict()
        self._proven: OrderedDict[str, None] = OrderedDict.fromkeys(proven)
        self._on_proven = on_proven
        self._logged_at: OrderedDict[str, float] = OrderedDict()
        self._running: dict[str, asyncio.Task[None]] = {}

    def find(self, url: str) -> bytes | None:
        """Return the document if it is cached and not too old. Any thread may call it."""
        kept = self._documents.get(url)
        if kept is None:
            return None
        until = kept.until + (STALE_SECONDS if url in self._proven else 0.0)
        return kept.content if self._clock.monotonic() < until else None

    def prove(self, url: str) -> None:
        """Record that a request was verified with the document at `url`, which it named; fetch a new one if it is too
        old."""
        new = url not in self._proven
        self._proven[url] = None
        self._proven.move_to_end(url)
        _shorten(self._proven, _MOST_KEPT)
        if new:
            self._on_proven(tuple(self._proven))
        kept = self._documents.get(url)
        if kept is not None and url not in self._running and self._is_due(url, False) and self._reserve(url, None):
            self._start(url, kept.configured)

    async def fetch(
        self, url: str, *, outdated: bool = False, configured: bool = False, named_by: str | None = None
    ) -> None:
        """Fetch the document if possible; raises nothing.

        `outdated`: the cached one is not sufficient; another is fetched unless it is very new. `configured`: the owner
        of the webhook wrote the URL, so its host may be on a private network. `named_by`: the address of the unverified
        request that named the URL; None if the owner or the provider's row did.
        """
        running = self._running.get(url)
        if running is None:
            if not self._is_due(url, outdated) or not self._reserve(url, None if url in self._proven else named_by):
                return
            running = self._start(url, configured)
        # Callers that wait may be cancelled before the others.
        await asyncio.shield(running)

    def _start(self, url: str, configured: bool) -> asyncio.Task[None]:
        running = asyncio.create_task(self._fetch(url, configured), name=f"fetch keys of {urlsplit(url).hostname}")
        self._running[url] = running
        running.add_done_callback(lambda _: self._running.pop(url, None))
        return running

    async def close(self) -> None:
        """Cancel running fetches."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _is_due(self, url: str, outdated: bool) -> bool:
        now = self._clock.monotonic()
        if self._failures.get(url, now) > now:
            return False
        kept = self._documents.get(url)
        return kept is None or now >= kept.until or (outdated and now - kept.fetched > _YOUNG_SECONDS)

    def _reserve(self, url: str, named_by: str | None) -> bool:
        """Return True, and count it, if one more fetch is within the limits."""
        now, host = self._clock.monotonic(), urlsplit(url).hostname or ""
        limits: dict[_Budget, int]
        if named_by is None:
            limits = {("chosen", "", ""): PER_MINUTE, ("chosen", host, ""): PER_HOST}
        else:
            limits = {
                ("named", "", ""): PER_MINUTE,
                ("named", host, ""): PER_HOST_NAMED,
                ("named", host, (network(named_by) or b"-").hex()): PER_ADDRESS,
            }
        for budget, limit in limits.items():
            times = self._fetches.setdefault(budget, deque())
            self._fetches.move_to_end(budget)
            while times and times[0] <= now - _MINUTE:
                times.popleft()
            if len(times) >= limit:
                self._log_limit(host, now)
                return False
        for budget in limits:
            self._fetches[budget].append(now)
        _shorten(self._fetches, _MOST_HOSTS)
        return True

    def _log_limit(self, host: str, now: float) -> None:
        """Log it at most once a minute for a host: forged requests must not fill the log."""
        if now - self._logged_at.get(host, -_MINUTE) >= _MINUTE:
            self._logged_at[host] = now
            _shorten(self._logged_at, _MOST_HOSTS)
            log.warning("key_fetches_limited", host=host)

    async def _fetch(self, url: str, configured: bool) -> None:
        now = self._clock.monotonic()
        try:
            content, age = await self._get(url, configured)
        except (_FetchFailed, OSError, aiohttp.ClientError, ValueError) as error:
            self._failures[url] = now + _FAILED_SECONDS
            _shorten(self._failures, _MOST_KEPT)
            reason = "it took too long" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
            log.warning("key_fetch_failed", url=url.partition("?")[0], reason=reason)
            return
        self._documents[url] = _Document(content, now, now + age, configured)
        self._documents.move_to_end(url)
        while len(self._documents) > _MOST_KEPT:
            # Documents that only unverified requests named are evicted first.
            self._documents.pop(next((each for each in self._documents if each not in self._proven), url))
        log.info("keys_fetched", url=url.partition("?")[0], size=len(content))

    async def _get(self, url: str, configured: bool) -> tuple[bytes, int]:
        """Return the document, and the seconds for which it may be cached."""
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname:
            raise _FetchFailed("it is not an https URL")
        if not configured and _is_address(parts.hostname):
            raise _FetchFailed("its host is an IP address")
        if self._tls is None:
            self._tls = ssl.create_default_context()
        inner = self._resolver()
        resolver = inner if configured else PublicResolver(inner)
        connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, ssl=self._tls, limit=1)
        timeout = aiohttp.ClientTimeout(total=SECONDS)
        async with (
            _closing(resolver),
            aiohttp.ClientSession(
                connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
            ) as session,
            session.get(
                url, allow_redirects=False, headers={"Accept-Encoding": "identity", "User-Agent": "symbiont"}
            ) as response,
        ):
            return await _read_document(response), _age(response.headers.get("Cache-Control", ""))


@asynccontextmanager
async def _closing(resolver: AbstractResolver) -> AsyncIterator[None]:
    """Close `resolver` at the end: a connector closes only one that it has created."""
    try:
        yield
    finally:
        await resolver.close()


async def _read_document(response: aiohttp.ClientResponse) -> bytes:
    if response.status != 200:
        raise _FetchFailed(f"the answer is {response.status}")
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise _FetchFailed("the answer is compressed, which was not requested")
    content = bytearray()
    while part := await response.content.read(BYTES + 1 - len(content)):
        content += part
        if len(content) > BYTES:
            raise _FetchFailed(f"the answer has more than {BYTES} bytes")
    return bytes(content)


def _age(cache_control: str) -> int:
    found = _MAX_AGE.search(cache_control)
    least, most = _AGES
    return min(max(int(found[1]) if found else _USUAL_AGE, least), most)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _shorten(mapping: OrderedDict[Any, Any], size: int) -> None:
    while len(mapping) > size:
        mapping.popitem(last=False)
