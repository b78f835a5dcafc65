"""Authentication: the caller of a request by its headers (RFC 6750)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import structlog

from runtime.api.rest.problem import Problem
from runtime.clock import Clock
from runtime.identity.caller import Caller
from runtime.identity.tokens import TokenRefused, Tokens

log = structlog.get_logger("symbiont.tokens")

LINES: Final = 20
"""Maximum number of refused tokens logged per minute, one line each."""

WINDOW_SECONDS: Final = 60.0

_BEARER = re.compile(r"(?i:bearer) +([A-Za-z0-9._~+/=-]+) *", re.ASCII)
_MISSING: Final = 'Bearer realm="symbiont"'
_INVALID: Final = 'Bearer realm="symbiont", error="invalid_token"'


class Authenticator:
    """Finds callers by their tokens. Every invalid token gets the same answer.

    Invalid tokens of one client never block another: behind a proxy all have one address, and 256 random bits cannot
    be guessed. Only the log is limited.
    """

    def __init__(self, tokens: Tokens, clock: Clock) -> None:
        self._tokens = tokens
        self._clock = clock
        self._since = -WINDOW_SECONDS
        self._refusals = 0

    async def caller(self, authorization: Sequence[str], source: str | None) -> Caller:
        """Return the caller of the token in the `Authorization` header lines. Raises Problem, and `Unavailable`.

        `source`: the client's address, for the log.
        """
        if not authorization:
            raise Problem("unauthorized", "no bearer token was sent", headers=(("WWW-Authenticate", _MISSING),))
        match = _BEARER.fullmatch(authorization[0]) if len(authorization) == 1 else None
        try:
            return await self._tokens.caller(match[1] if match else "")
        except TokenRefused as refused:
            self.note(source, refused)
            raise Problem("unauthorized", str(refused), headers=(("WWW-Authenticate", _INVALID),)) from None

    def note(self, source: str | None, refused: TokenRefused) -> None:
        """Log a refused token, at most `LINES` of them a minute."""
        now = self._clock.monotonic()
        if now - self._since >= WINDOW_SECONDS:
            if self._refusals > LINES:
                log.warning("token_refusals_not_logged", count=self._refusals - LINES)
            self._since, self._refusals = now, 0
        self._refusals += 1
        if self._refusals <= LINES:
            log.warning("token_refused", source=source, reason=refused.reason, token=refused.token_id)
        if self._refusals == LINES:
            log.warning("token_refusals_limited", seconds=WINDOW_SECONDS)
