"""The limit before verification: an address whose requests are refused too often is blocked for a while.

Only refusals count, so a sender whose requests are accepted is never slowed. An address from which a webhook recently
verified a request is not limited at that webhook: senders share addresses with strangers who can cause requests from
them.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

import structlog

from runtime.clock import Clock
from runtime.http.client_network import network
from runtime.webhooks.receiving.client_address import client_address, is_allowed, is_proxied
from runtime.webhooks.request.headers import Headers
from runtime.webhooks.request.refusal import RefusedRequest
from runtime.webhooks.routing.route import Route

log = structlog.get_logger("symbiont.receiver")

PER_MINUTE: Final = 120
"""Refusals of one address in a minute before it is blocked."""

CAPACITY: Final = 65_536
"""Addresses that are remembered; a new one replaces the least recent."""

WINDOW_SECONDS: Final = 60.0
KNOWN_SECONDS: Final = 3600.0
"""Seconds for which an address is known after a request from it was verified."""

_COUNTED: Final = frozenset({400, 401, 403, 404, 405, 408, 413, 414, 415, 417, 431, 505})
"""Statuses caused by the sender: not server errors (other 5xx), not limits (429)."""


class Origin(NamedTuple):
    """The source of a request."""

    address: str | None
    """The sender's, as far as known."""
    hidden: bool
    """True: the address is that of a proxy that is not trusted, so all senders behind it share it."""

    @property
    def sender(self) -> str | None:
        """The address, if it is not shared."""
        return None if self.hidden else self.address


class AddressLimit:
    """Counts refusals by address: IPv4, or the /64 of IPv6 that one customer has. Bounded in memory and local to this
    process; uses the monotonic clock."""

    def __init__(
        self, clock: Clock, *, trusted: int = 0, per_minute: int = PER_MINUTE, capacity: int = CAPACITY
    ) -> None:
        """`trusted`: number of proxies in front of the listener. `per_minute`: refusals; 0 for no limit."""
        self._clock = clock
        self._trusted = trusted
        self._limit = per_minute
        self._capacity = capacity
        self._refused: OrderedDict[bytes, tuple[float, int]] = OrderedDict()
        self._known: OrderedDict[tuple[bytes, str], float] = OrderedDict()
        self._warned = False

    def origin(self, peer: str | None, headers: Headers) -> Origin:
        """Return the origin of a request that came over a connection with `peer`."""
        if self._trusted:
            return Origin(client_address(peer, headers, self._trusted), False)
        return Origin(peer, is_proxied(peer, headers))

    def unread_origin(self, peer: str | None) -> Origin:
        """Return the origin of data that never became a request; unknown behind a trusted proxy."""
        return Origin(None if self._trusted else peer, False)

    def check(self, origin: Origin, route: Route | None) -> None:
        """Raise `RefusedRequest` if nothing more is to be read from `origin`: `address_limited` or
        `address_not_allowed`."""
        if self._refused and self._limit:
            self._check_rate(origin, route)
        if route is not None and route.allow_from and not is_allowed(origin.address, route.allow_from):
            raise RefusedRequest("address_not_allowed")

    def record_refusal(self, origin: Origin, status: int) -> None:
        """Note that a request from `origin` was refused with `status`."""
        if status not in _COUNTED or not self._limit:
            return None
        if origin.hidden:
            return self._warn_of_proxy()
        key = network(origin.address)
        if key is None:
            return None
        now = self._clock.monotonic()
        since, count = self._refused.pop(key, (now, 0))
        self._refused[key] = (now, 1) if now - since >= WINDOW_SECONDS else (since, count + 1)
        if len(self._refused) > self._capacity:
            self._refused.popitem(last=False)
        return None

    def record_verification(self, origin: Origin, route: Route) -> None:
        """Note that a request from `origin` was verified by `route`."""
        key = network(origin.address)
        if key is None or not route.verified:
            return
        place = (key, route.name)
        self._known[place] = self._clock.monotonic()
        self._known.move_to_end(place)
        if len(self._known) > self._capacity:
            self._known.popitem(last=False)

    def _check_rate(self, origin: Origin, route: Route | None) -> None:
        key = network(origin.address)
        if key is None or key not in self._refused:
            return
        since, count = self._refused[key]
        now = self._clock.monotonic()
        left = since + WINDOW_SECONDS - now
        if count < self._limit or left <= 0 or origin.hidden:
            return
        if route is not None and now - self._known.get((key, route.name), -KNOWN_SECONDS) < KNOWN_SECONDS:
            return
        raise RefusedRequest("address_limited", fields=b"Retry-After: %d\r\n" % max(1, -int(-left // 1)))

    def _warn_of_proxy(self) -> None:
        """Log once that all senders behind a proxy look alike."""
        if not self._warned:
            self._warned = True
            log.warning(
                "senders_behind_proxy",
                hint="addresses of senders are unknown and not limited; set the number of proxies: --trusted-proxies 1",
            )
