"""From a request's headers to its caller (RFC 6750), and a bound on those who try."""

from __future__ import annotations

import ipaddress
import math
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import structlog

from runtime.api.problem import Problem
from runtime.clock import Clock
from runtime.identity import Caller, TokenRefused, Tokens
from runtime.identity.token import token_hash

log = structlog.get_logger("symbiont.tokens")

FAILURES: Final = 20
"""Bad tokens from one address in a minute; after them it is answered 429 without a look at the token."""

ADDRESSES: Final = 4096
"""Addresses that are remembered; the one that failed longest ago is forgotten."""

GOOD: Final = 1024
"""Tokens whose hashes are remembered as good a moment ago."""

WINDOW_SECONDS: Final = 60.0

_BEARER = re.compile(r"(?i:bearer) +([A-Za-z0-9._~+/=-]+) *", re.ASCII)
_MISSING: Final = 'Bearer realm="symbiont"'
_INVALID: Final = 'Bearer realm="symbiont", error="invalid_token"'


class Bearer:
    """Knows callers by their tokens. Whatever is wrong with a token, the answer is the same."""

    def __init__(self, tokens: Tokens, clock: Clock) -> None:
        self._tokens = tokens
        self._clock = clock
        self._failed: OrderedDict[str, tuple[float, int]] = OrderedDict()
        # So that who shares an address with an attacker, behind a proxy for instance, is not kept out with it.
        self._good: OrderedDict[bytes, None] = OrderedDict()

    async def caller(self, authorization: Sequence[str], source: str | None) -> Caller:
        """The caller whose token the `Authorization` header lines hold. Raises Problem, and `Unavailable`.

        `source`: the address that asks.
        """
        if not authorization:
            raise Problem("unauthorized", "no bearer token was sent", headers=(("WWW-Authenticate", _MISSING),))
        match = _BEARER.fullmatch(authorization[0]) if len(authorization) == 1 else None
        token, address = match[1] if match else "", _network(source)
        hashed = token_hash(token)
        since, failures = self._failed.get(address, (0.0, 0))
        now = self._clock.monotonic()
        if failures >= FAILURES and now - since < WINDOW_SECONDS and hashed not in self._good:
            wait = str(math.ceil(WINDOW_SECONDS - (now - since)))
            raise Problem("too_many_failures", "wait before the next try", headers=(("Retry-After", wait),))
        try:
            caller = await self._tokens.caller(token)
        except TokenRefused as refused:
            self._good.pop(hashed, None)
            self._note(address, refused)
            raise Problem("unauthorized", str(refused), headers=(("WWW-Authenticate", _INVALID),)) from None
        self._good[hashed] = None
        self._good.move_to_end(hashed)
        if len(self._good) > GOOD:
            self._good.popitem(last=False)
        return caller

    def _note(self, address: str, refused: TokenRefused) -> None:
        """Count a failure, and log it, the last one before the bound with a word about that."""
        now = self._clock.monotonic()
        since, failures = self._failed.pop(address, (now, 0))
        if now - since >= WINDOW_SECONDS:
            since, failures = now, 0
        self._failed[address] = (since, failures + 1)
        if len(self._failed) > ADDRESSES:
            self._failed.popitem(last=False)
        said = log.bind(source=address, reason=refused.reason, token=refused.token_id)
        said.warning("a token was refused")
        if failures + 1 == FAILURES:
            said.warning("further tokens from this address are refused unseen", seconds=WINDOW_SECONDS)


def _network(source: str | None) -> str:
    """Whose failures are counted together: an IPv4 address, or the /64 of an IPv6 one, which is one customer's."""
    try:
        address = ipaddress.ip_address((source or "").partition("%")[0])
    except ValueError:
        return "-"
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
