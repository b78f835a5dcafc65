"""Host and Origin checks for the operators' listener, against cross-site requests and DNS rebinding (MCP,
transports, security warning)."""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from aiohttp import HttpVersion11, web
from aiohttp.typedefs import Handler, Middleware

from runtime.api.rest.problem import CONTENT_TYPE, Problem
from runtime.daemon.process.settings import parse_address

_LOOPBACK: Final = "localhost"
_MORE: Final = re.compile(r"[/?#@\\\s]")  # a Host is a name or an address, and a port (RFC 9110 section 7.2)


class OriginCheck:
    """The host names of a listener: loopback, every IP address, the host of its public URL, and the configured
    names."""

    def __init__(self, listen: str, public_url: str | None, names: Collection[str] = ()) -> None:
        """`listen`: HOST:PORT as configured. `names`: in lower case."""
        self._names = {parse_address(listen)[0].lower(), _LOOPBACK, *names}
        self._public = urlsplit(public_url) if public_url else None
        if self._public is not None and self._public.hostname:
            self._names.add(self._public.hostname)

    @property
    def middleware(self) -> Middleware:
        """Return the middleware that refuses requests by `refusal` before anything else of them is read."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            problem = self.refusal(request)
            return await handler(request) if problem is None else problem_response(problem)

        return guard

    def refusal(self, request: web.Request) -> Problem | None:
        """Return the problem of a foreign Host or Origin; None if the request may be meant for this listener."""
        hosts = request.headers.getall("Host", ())
        # Every browser sends Host; monitoring tools that speak HTTP/1.0 may omit it.
        unnamed = not hosts and request.version < HttpVersion11
        if not unnamed and (len(hosts) != 1 or _MORE.search(hosts[0]) or not self._is_here(_host(f"//{hosts[0]}"))):
            return Problem(
                "misdirected", "this Host is not served here", hint="name it in SYMBIONT_ADMIN_NAMES, or use an address"
            )
        origins = request.headers.getall("Origin", ())
        if any(not self._may_ask(origin, request) for origin in origins):
            return Problem("foreign_origin", "requests from this Origin are not allowed")
        return None

    def _is_here(self, host: str | None) -> bool:
        """True if the host is a name of the listener, or any address. An address in a URL cannot be rebound, and
        behind NAT or in a container the daemon does not know its own."""
        return host is not None and (host in self._names or _address(host) is not None)

    def _may_ask(self, origin: str, request: web.Request) -> bool:
        host = _host(origin)
        if host is None:
            return False
        address = _address(host)
        if address is not None:
            return address.is_loopback or host == _own_address(request)
        if self._public is not None and host == self._public.hostname and host != _LOOPBACK:
            # Other services may use the same host name, so port and scheme are compared too.
            return origin.lower().rstrip("/") == f"{self._public.scheme}://{self._public.netloc}".lower()
        return host in self._names


def problem_response(problem: Problem) -> web.Response:
    """Return the HTTP response for a problem."""
    response = web.Response(status=problem.status, body=problem.body(), headers=dict(problem.headers))
    response.headers["Content-Type"] = CONTENT_TYPE
    response.headers["Cache-Control"] = "no-store"
    return response


def _host(url: str) -> str | None:
    """Return the host of a URL in lower case; None if it has none, as in the Origin `null`."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _own_address(request: web.Request) -> str | None:
    """Return the local address of this connection: the only known address of a wildcard listener."""
    here = request.transport and request.transport.get_extra_info("sockname")
    return str(here[0]).partition("%")[0] if here else None
