"""The audit: what was accepted is its own record; what was not is kept here, bounded and off the hot path."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
import structlog
from msgspec import Struct
from sqlalchemy import Connection, case, delete, literal, null, select
from sqlalchemy.sql import Select

from runtime.clock import Clock, milliseconds, uuid7
from runtime.crypto import MasterKey
from runtime.database import Database, Unavailable, bulk
from runtime.database.schema import attempts, bodies, deliveries, runs
from runtime.database.sealed import Seal
from runtime.webhooks.delivery import Attempt, Headers
from runtime.webhooks.entry import headers_json, storable
from runtime.webhooks.headers import Headers as Received
from runtime.webhooks.kept import body_of

log = structlog.get_logger("symbiont.audit")

KEPT_PER_REASON = 1000
"""Newest rows kept of each verdict and reason."""

WAITING = 4096
"""Attempts that may wait to be written; further ones are only counted."""

FLUSH_SECONDS = 0.5
ROLL_UP_MS = 60_000
ONE_BY_ONE = 20
"""Alike refusals of one minute that have a row each; the rest are counted in the last one."""
_SHOWN_LENGTH = 200
_PLAIN_HEADERS = ("content-type", "content-length", "user-agent")
_SECRET_PARTS = ("signature", "authorization", "cookie", "token", "secret", "hmac", "key", "password")


class AuditRow(Struct, frozen=True, kw_only=True):
    """One attempt, or `count` alike refusals."""

    received_at: int
    """Unix milliseconds; of the newest, where several are one row."""
    webhook: str | None
    verdict: str
    """`accepted`, `refused`, `filtered`, `repeated`, `handshake`."""
    reason: str
    status: int
    source: str | None
    event: str | None
    provider_delivery_id: str | None
    size: int
    body_sha256: str | None
    headers: Headers
    verified: bool
    delivery_id: str | None
    state: str | None
    """The delivery's."""
    error: str | None
    run_id: str | None
    run_state: str | None
    count: int


@lru_cache(maxsize=512)
def noted_names(*also: str) -> tuple[str, ...]:
    """The names, in lower case, of the headers that the audit keeps: content type and length, user agent, and `also`
    (a provider's event and id headers); never one whose name speaks of a secret."""
    names = dict.fromkeys((*_PLAIN_HEADERS, *(name.lower() for name in also)))
    return tuple(name for name in names if not any(part in name for part in _SECRET_PARTS))


def chosen_headers(headers: Received, names: Sequence[str]) -> Headers:
    """The headers of `names` that were sent, each cut to 200 characters."""
    return tuple([(name, value[:_SHOWN_LENGTH]) for name in names if (value := headers.get(name)) is not None])


class Audit:
    """Records attempts that were not accepted. `run` writes them, every half second; `close` writes the rest."""

    def __init__(
        self, database: Database, clock: Clock, *, waiting: int = WAITING, kept: int = KEPT_PER_REASON
    ) -> None:
        self._database = database
        self._clock = clock
        self._limit = waiting
        self._kept = kept
        self._waiting: list[tuple[int, Attempt]] = []
        self._dropped = 0
        self._current: dict[tuple[Any, ...], tuple[str, int]] = {}
        self._minute = 0
        self._written: Counter[tuple[str, str]] = Counter()

    def put(self, attempt: Attempt) -> None:
        """Note `attempt`; it is written a moment later. Never waits and never fails."""
        if len(self._waiting) >= self._limit:
            self._dropped += 1
        else:
            self._waiting.append((milliseconds(self._clock), attempt))

    async def run(self) -> None:
        """Write what was noted, until cancelled."""
        while True:
            await self._clock.sleep(FLUSH_SECONDS)
            await self.flush()

    async def close(self) -> None:
        """Write what is left."""
        await self.flush()

    async def flush(self) -> None:
        """Write what was noted so far. What a failing database does not take is dropped: this is no inbox."""
        waiting, self._waiting = self._waiting, []
        dropped, self._dropped = self._dropped, 0
        if dropped:
            log.warning("attempts were not audited one by one", count=dropped)
        if not waiting:
            return
        new, more = self._rolled_up(waiting)
        surplus = self._surplus(new)
        try:
            await self._database.transact(lambda connection: _write(connection, new, more, surplus, self._kept))
        except Unavailable as error:
            self._current.clear()
            log.warning("attempts were not audited", count=len(waiting), reason=str(error))

    def _rolled_up(self, waiting: Sequence[tuple[int, Attempt]]) -> tuple[list[list[Any]], dict[str, tuple[int, int]]]:
        """New rows, and for rows of this minute that are in the database: how many more, and until when."""
        new: dict[str, list[Any]] = {}
        more: dict[str, tuple[int, int]] = {}
        for at, attempt in waiting:
            if at // ROLL_UP_MS != self._minute:
                self._minute = at // ROLL_UP_MS
                self._current.clear()
            alike = (attempt.verdict, attempt.user_id, attempt.webhook, attempt.reason, attempt.status, attempt.source)
            row_id, seen = self._current.get(alike, ("", 0))
            if attempt.verdict != "refused" or seen < ONE_BY_ONE:
                row_id = uuid7(self._clock)
                new[row_id] = _row(row_id, at, attempt)
                self._current[alike] = (row_id, seen + 1)
            elif row_id in new:
                new[row_id][-2:] = [at, new[row_id][-1] + 1]
            else:
                more[row_id] = (more.get(row_id, (0, 0))[0] + 1, at)
        return list(new.values()), more

    def _surplus(self, new: Sequence[list[Any]]) -> list[tuple[str, str]]:
        """The verdicts and reasons of which enough was written to look for rows too many."""
        self._written.update((row[3], row[4]) for row in new)
        full = [key for key, count in self._written.items() if count > self._kept // 10]
        for key in full:
            del self._written[key]
        return full


_COLUMNS = (
    *("id", "user_id", "webhook", "verdict", "reason", "status", "source", "event", "provider_delivery_id"),
    *("delivery_id", "size", "body_sha256", "headers", "verified", "received_at", "count"),
)


def _row(row_id: str, at: int, attempt: Attempt) -> list[Any]:
    return [
        *(row_id, attempt.user_id, attempt.webhook, attempt.verdict, attempt.reason, attempt.status),
        *(storable(attempt.source), _short(attempt.event), _short(attempt.provider_delivery_id), attempt.delivery_id),
        *(attempt.size, attempt.body_sha256, headers_json(attempt.headers), attempt.verified, at, 1),
    ]


def _short(value: str | None) -> str | None:
    return None if value is None else storable(value[:_SHOWN_LENGTH])


def _write(
    connection: Connection,
    new: Sequence[list[Any]],
    more: dict[str, tuple[int, int]],
    surplus: Sequence[tuple[str, str]],
    kept: int,
) -> None:
    bulk.insert(connection, attempts, _COLUMNS, [tuple(row) for row in new])
    for row_id, (count, at) in sorted(more.items()):
        change = attempts.update().where(attempts.c.id == row_id)
        connection.execute(change.values(count=attempts.c.count + count, received_at=at))
    for verdict, reason in surplus:
        alike = (attempts.c.verdict == verdict, attempts.c.reason == reason)
        last = connection.execute(
            select(attempts.c.id).where(*alike).order_by(attempts.c.id.desc()).offset(kept).limit(1)
        ).scalar()
        if last is not None:
            connection.execute(delete(attempts).where(*alike, attempts.c.id <= last))


async def recent(database: Database, name: str | None = None, limit: int = 100) -> list[AuditRow]:
    """The newest `limit` attempts, accepted or not, newest first; only those of the webhook `name` when given."""
    async with database.read() as connection:
        found = (await connection.execute(_accepted(name, limit))).all()
        found = [*found, *(await connection.execute(_others(name, limit))).all()]
        found = sorted(found, key=lambda row: row.received_at, reverse=True)[:limit]
        hashes = await connection.run_sync(lambda connection: digests(connection, database.master_key, found))
    decoder = msgspec.json.Decoder(Headers)
    return [
        AuditRow(
            **{
                **row._asdict(),
                "headers": decoder.decode(row.headers),
                "verified": bool(row.verified),
                "body_sha256": row.body_sha256 or hashes.get(row.delivery_id),
            }
        )
        for row in found
    ]


def digests(connection: Connection, key: MasterKey, rows: Sequence[Any]) -> dict[str, str]:
    """The digests of the kept bodies by delivery: worked out when somebody asks, not for each delivery."""
    wanted = [(row.delivery_id,) for row in rows if row.verdict == "accepted" and row.body_sha256 is None]
    seal = Seal(key, bodies.c.body)
    return {
        row[0]: hashlib.sha256(body_of(seal.open(row[2], row=row[0], user_id=row[1]), row[3])).hexdigest()
        for row in bulk.find(connection, bodies, ("delivery_id",), ("user_id", "body", "headers_size"), wanted)
    }


_SHARED = ("webhook", "source", "event", "provider_delivery_id", "size", "body_sha256", "headers", "verified")


def _accepted(name: str | None, limit: int) -> Select[Any]:
    query = (
        select(
            *(deliveries.c[column] for column in (*_SHARED, "received_at", "state")),
            deliveries.c.id.label("delivery_id"),
            literal("accepted").label("verdict"),
            case((deliveries.c.verified, "verified"), else_="unverified").label("reason"),
            literal(202).label("status"),
            deliveries.c.last_error.label("error"),
            runs.c.id.label("run_id"),
            runs.c.state.label("run_state"),
            literal(1).label("count"),
        )
        .select_from(deliveries.outerjoin(runs, runs.c.id == deliveries.c.run_id))
        .order_by(deliveries.c.id.desc())
        .limit(limit)
    )
    return query if name is None else query.where(deliveries.c.webhook == name)


def _others(name: str | None, limit: int) -> Select[Any]:
    query = (
        select(
            *(attempts.c[column] for column in (*_SHARED, "received_at", "verdict", "reason", "status", "count")),
            attempts.c.delivery_id,
            *(null().label(column) for column in ("state", "error", "run_id", "run_state")),
        )
        .order_by(attempts.c.received_at.desc(), attempts.c.id.desc())
        .limit(limit)
    )
    return query if name is None else query.where(attempts.c.webhook == name)
