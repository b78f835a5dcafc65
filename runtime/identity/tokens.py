"""Bearer tokens: their text, and the table `tokens`, which creates, lists, revokes and checks them.

The text is `symbi_`, 43 random characters, and a checksum of 6. The prefix lets secret scanners find leaked tokens. The
checksum detects typing errors and foreign tokens without a database query; it adds no security, which the 256 random
bits provide.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import zlib
from collections.abc import Collection
from typing import Any, NamedTuple

import structlog
from sqlalchemy import Connection, select

from runtime.clock import Clock, milliseconds, uuid7
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import tokens
from runtime.errors import NotFound, SymbiontError
from runtime.identity import users
from runtime.identity.caller import SCOPES, Caller, Scope, read_scopes
from runtime.tool_groups import ToolChoice

PREFIX = "symbi_"

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM = 43  # 62 ** 43 > 2 ** 256
_CHECKSUM = 6  # 62 ** 6 > 2 ** 32
_FORM = re.compile(rf"{PREFIX}([0-9A-Za-z]{{{_RANDOM}}})([0-9A-Za-z]{{{_CHECKSUM}}})", re.ASCII)


def make_token() -> str:
    """Return a new token, 55 characters of letters, digits and `_`."""
    random = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))
    return f"{PREFIX}{random}{_checksum(random)}"


def is_token(text: str) -> bool:
    """True if `text` has the form of a token and a correct checksum."""
    match = _FORM.fullmatch(text)
    return match is not None and _checksum(match[1]) == match[2]


def token_hash(token: str) -> bytes:
    """Return SHA-256 of the whole token, the only form that is stored. No salt or stretching: 256 random bits cannot be
    guessed."""
    return hashlib.sha256(token.encode()).digest()


def _checksum(random: str) -> str:
    """Return CRC-32 of the random part in base 62, most significant digit first."""
    rest = zlib.crc32(random.encode())
    digits = []
    for _ in range(_CHECKSUM):
        rest, digit = divmod(rest, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


log = structlog.get_logger("symbiont.tokens")

USED_MS = 60_000
"""Maximum delay of `used_at`: a token in constant use is written once a minute."""

FLUSH_SECONDS = 10
_COLUMNS = ("id", "user_id", "label", "hash", "scopes", "tools", "created_at", "expires_at")


class TokenRefused(SymbiontError):  # noqa: N818
    """The token is not valid. `reason` is only for the log; the sender gets the same error for every reason."""

    def __init__(self, reason: str, token_id: str | None = None) -> None:
        super().__init__("the token is not valid")
        self.reason = reason
        self.token_id = token_id


class CreatedToken(NamedTuple):
    """A new token, the only place where its text appears."""

    token_id: str
    token: str
    expires_at: int | None
    """Unix milliseconds."""

    def __repr__(self) -> str:
        return f"CreatedToken({self.token_id})"


class Tokens:
    """The tokens of one database. `run` periodically writes when they were last used."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._use_times: dict[str, int] = {}

    async def create(
        self,
        user_id: str,
        *,
        label: str,
        scopes: Collection[Scope],
        lifetime_ms: int | None = None,
        tools: ToolChoice | None = None,
    ) -> CreatedToken | None:
        """Create a token for `user_id`, valid for `lifetime_ms` milliseconds or without limit; None if the user does
        not exist. `tools`: the only tools that it has; None: all."""
        token, token_id, now = make_token(), uuid7(self._clock), milliseconds(self._clock)
        expires_at = None if lifetime_ms is None else now + lifetime_ms
        held = " ".join(scope for scope in SCOPES if scope in scopes)
        limit = None if tools is None else " ".join(tools.words)
        row = (token_id, user_id, label, token_hash(token), held, limit, now, expires_at)

        def insert(connection: Connection) -> bool:
            if not users.exists(connection, user_id):
                return False
            bulk.insert(connection, tokens, _COLUMNS, [row])
            return True

        return CreatedToken(token_id, token, expires_at) if await self._database.transact(insert) else None

    async def rows(self, user_id: str | None = None) -> list[dict[str, Any]]:
        """Return the fields of each token (of `user_id`), oldest first, without the hash. Times are Unix
        milliseconds."""
        await self.flush()
        now = milliseconds(self._clock)
        query = select(*(column for column in tokens.c if column.name != "hash")).order_by(tokens.c.id)
        if user_id is not None:
            query = query.where(tokens.c.user_id == user_id)
        async with self._database.read() as connection:
            found = (await connection.execute(query)).all()
        return [{**row._asdict(), "state": _state(row, now)} for row in found]

    async def revoke(self, start: str) -> str:
        """Revoke the token whose id begins with `start`, or whose text `start` is, and return its id.

        A leaked token is often known only by its text. Every daemon refuses it from now on. Raises NotFound unless
        exactly one token matches.
        """
        if start.startswith(PREFIX):
            return await self._revoke_by_text(start)
        now = milliseconds(self._clock)

        def revoke(connection: Connection) -> list[str]:
            found = [row[0] for row in connection.execute(select(tokens.c.id)) if row[0].startswith(start)]
            if len(found) == 1:
                chosen = tokens.update().where(tokens.c.id == found[0], tokens.c.revoked_at.is_(None))
                connection.execute(chosen.values(revoked_at=now))
            return found

        found = await self._database.transact(revoke) if start else []
        if len(found) != 1:
            what = "no token's id begins" if not found else f"the ids of {len(found)} tokens begin"
            raise NotFound(f"{what} with {start[:80]!r}", hint="`symbi token list` shows them")
        return found[0]

    async def _revoke_by_text(self, token: str) -> str:
        now, chosen = milliseconds(self._clock), tokens.c.hash == token_hash(token)

        def revoke(connection: Connection) -> str | None:
            found: str | None = connection.execute(select(tokens.c.id).where(chosen)).scalar()
            connection.execute(tokens.update().where(chosen, tokens.c.revoked_at.is_(None)).values(revoked_at=now))
            return found

        found = await self._database.transact(revoke)
        if found is None:
            # Without its text: it may be valid in another installation, or have a typing error.
            raise NotFound("unknown token", hint="give its id instead; `symbi token list` shows ids")
        return found

    async def caller(self, text: str) -> Caller:
        """Return the caller of the token `text`. Raises `TokenRefused` if it is invalid, expired or revoked.

        The database is queried each time, so that every daemon refuses a revoked token at once. The query is by hash,
        so its timing reveals nothing about the token.
        """
        if not is_token(text):
            raise TokenRefused("malformed")
        now = milliseconds(self._clock)
        async with self._database.read() as connection:
            row = (await connection.execute(select(tokens).where(tokens.c.hash == token_hash(text)))).first()
        if row is None:
            raise TokenRefused("unknown")
        state = _state(row, now)
        if state != "good":
            raise TokenRefused(state, row.id)
        if now - (row.used_at or 0) >= USED_MS:
            self._use_times[row.id] = now
        await self._database.learn_keys(row.user_id)
        limit = None if row.tools is None else ToolChoice.of(row.tools.split())
        return Caller(row.user_id, read_scopes(row.scopes.split()), row.id, limit)

    async def run(self) -> None:
        """Periodically write when tokens were used, until cancelled."""
        while True:
            await self._clock.sleep(FLUSH_SECONDS)
            await self.flush()

    async def flush(self) -> None:
        """Write when tokens were used. If the database fails, these times are lost."""
        used, self._use_times = self._use_times, {}
        if not used:
            return
        rows = sorted(used.items())
        try:
            await self._database.transact(
                lambda connection: bulk.update(connection, tokens, ("id",), ("used_at",), rows)
            )
        except Unavailable as error:
            log.warning("token_usage_write_failed", reason=str(error))


def _state(row: Any, now: int) -> str:
    if row.revoked_at is not None:
        return "revoked"
    return "expired" if row.expires_at is not None and row.expires_at <= now else "good"
