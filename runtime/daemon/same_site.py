"""Who may be meant by a request to a local service: against pages that make a browser ask in its user's name, be it
under another name for this machine (DNS rebinding; MCP, transports, security warning)."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from runtime.daemon.settings import parse_address

_LOOPBACK: Final = "localhost"


class SameSite:
    """Knows the names of a listener: loopback, its own address, and that of its public URL."""

    def __init__(self, listen: str, public_url: str | None) -> None:
        """`listen`: HOST:PORT as it was asked for."""
        self._names = {parse_address(listen)[0].lower()} - {"0.0.0.0", "::"}  # noqa: S104 - compared, not bound
        self._public = urlsplit(public_url) if public_url else None
        if self._public is not None and self._public.hostname:
            self._names.add(self._public.hostname)

    def refusal(self, request: web.Request) -> int | None:
        """The status that a request is to be refused with: 421 for a strange Host, 403 for a strange Origin."""
        hosts = request.headers.getall("Host", ())
        if len(hosts) != 1 or not self._is_ours(_host(f"//{hosts[0]}"), request):
            return 421
        origins = request.headers.getall("Origin", ())
        return 403 if any(not self._may_ask(origin, request) for origin in origins) else None

    def _may_ask(self, origin: str, request: web.Request) -> bool:
        host = _host(origin)
        if self._public is not None and host == self._public.hostname and not _is_loopback(host):
            # A name that others serve under too: the port and the scheme are part of who they are.
            return origin.lower().rstrip("/") == f"{self._public.scheme}://{self._public.netloc}".lower()
        return self._is_ours(host, request)

    def _is_ours(self, host: str | None, request: web.Request) -> bool:
        if not host:
            return False
        return host in self._names or _is_loopback(host) or host == _own_address(request)


def _host(url: str) -> str | None:
    """The host of a URL, lower case; None when it has none, as the Origin `null`."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _is_loopback(host: str | None) -> bool:
    if host == _LOOPBACK:
        return True
    try:
        return host is not None and ip_address(host).is_loopback
    except ValueError:
        return False


def _own_address(request: web.Request) -> str | None:
    """The address that this connection came in at: of a listener on every interface the only one that is known."""
    here = request.transport and request.transport.get_extra_info("sockname")
    return str(here[0]).partition("%")[0] if here else None
