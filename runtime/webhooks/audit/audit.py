"""The audit of requests that were not accepted: bounded, and written off the hot path. An accepted delivery is its own
record."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import structlog
from sqlalchemy import Connection, delete, func, select

from runtime.clock import Clock
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import attempts
from runtime.database.text import headers_json, storable
from runtime.webhooks.audit.aggregation import WAITING, AttemptAggregator, AttemptCount, AttemptGroup, group_of
from runtime.webhooks.deliveries.delivery import HeaderPairs, RejectedRequest
from runtime.webhooks.request.headers import Headers

log = structlog.get_logger("symbiont.audit")

KEPT_PER_REASON = 1000
"""Newest rows kept for each webhook, verdict and reason."""

KEPT = 50_000
"""Rows kept in total; beyond that, the largest groups are shortened and small ones stay whole."""

FLUSH_SECONDS = 0.5
PATH = ":path"
"""The name, as in HTTP/2, under which the headers of a row have the path of a request that had no route."""

_SHOWN_LENGTH = 200
_PLAIN_HEADERS = ("content-type", "content-length", "user-agent")
_SECRET_PARTS = ("signature", "authorization", "cookie", "token", "secret", "hmac", "key", "password")


@lru_cache(maxsize=512)
def noted_names(*also: str) -> tuple[str, ...]:
    """Return the names, in lower case, of the headers that the audit records: content type and length, user agent, and
    `also` (a provider's event and id headers); never a name that suggests a secret."""
    names = dict.fromkeys((*_PLAIN_HEADERS, *(name.lower() for name in also)))
    return tuple(name for name in names if not any(part in name for part in _SECRET_PARTS))


def chosen_headers(headers: Headers, names: Sequence[str]) -> HeaderPairs:
    """Return the sent headers among `names`, each cut to 200 characters."""
    return tuple([(name, value[:_SHOWN_LENGTH]) for name in names if (value := headers.get(name)) is not None])


def path_as_header(path: str) -> HeaderPairs:
    """Return the path of a request for the headers of its row: cut, and escaped where it is not printable."""
    cut = path[:_SHOWN_LENGTH]
    return ((PATH, cut if cut.isprintable() else repr(cut)[1:-1]),)


class Audit:
    """Records requests that were not accepted. `run` writes them every half second; `close` writes the rest."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        waiting: int = WAITING,
        kept: int = KEPT_PER_REASON,
        kept_in_all: int = KEPT,
    ) -> None:
        self._database = database
        self._clock = clock
        self._kept = kept
        self._kept_in_all = kept_in_all
        self._aggregator = AttemptAggregator(clock, waiting=waiting)
        self._written: Counter[AttemptGroup] = Counter()
        # Rows of an earlier process are counted with the first write.
        self._since_balance = kept_in_all
        self._failing = False
        self._not_audited = 0
        self._writing = asyncio.Lock()

    def put(self, rejected: RejectedRequest) -> None:
        """Record `rejected`; it is written a moment later. Never waits and never fails."""
        self._aggregator.put(rejected)

    async def run(self) -> None:
        """Write the recorded requests, until cancelled."""
        while True:
            await self._clock.sleep(FLUSH_SECONDS)
            await self.flush()

    async def close(self) -> None:
        """Write the rest."""
        await self.flush()

    async def flush(self) -> None:
        """Write the requests recorded so far, including those that another call is writing. Rows that a failing
        database does not accept are dropped. Cancelling the caller does not stop the write."""
        await asyncio.shield(asyncio.create_task(self._flush(), name="audit"))

    async def _flush(self) -> None:
        async with self._writing:
            new, more = self._aggregator.take()
            if new or more:
                await self._store(new, more)

    async def _store(self, new: Mapping[str, AttemptCount], more: Mapping[str, tuple[int, int]]) -> None:
        try:
            surplus = self._surplus(new.values())
            self._since_balance += len(new)
            if self._since_balance >= self._kept_in_all // 10:
                self._since_balance = 0
                surplus |= await self._total_surplus()
            await self._database.transact(lambda connection: _write(connection, new, more, surplus))
        except Unavailable as error:
            self._aggregator.forget()
            self._not_audited += len(new) + len(more)
            if not self._failing:
                log.warning("audit_write_failed", error=str(error))
            self._failing = True
        else:
            if self._failing:
                log.warning("audit_write_recovered", lost=self._not_audited)
            self._failing, self._not_audited = False, 0

    def _surplus(self, new: Iterable[AttemptCount]) -> dict[AttemptGroup, int]:
        """Return the groups in which enough was written to look for surplus rows, with the rows that each may have."""
        self._written.update(group_of(row.rejected) for row in new)
        full = [group for group, count in self._written.items() if count > self._kept // 10]
        for group in full:
            del self._written[group]
        return dict.fromkeys(full, self._kept)

    async def _total_surplus(self) -> dict[AttemptGroup, int]:
        """Return the groups that are too large for the total, with the rows that each may have."""
        columns = [attempts.c[name] for name in _GROUP]
        async with self._database.read() as connection:
            found = (await connection.execute(select(*columns, func.count()).group_by(*columns))).all()
        share = min(self._kept, fair_share([row[4] for row in found], self._kept_in_all))
        return {(row[0], row[1], row[2], row[3]): share for row in found if row[4] > share}


def fair_share(counts: Iterable[int], total: int) -> int:
    """Return the largest share so that all together have at most `total`; what small ones leave goes to the others."""
    ordered = sorted(counts)
    share = total
    for place, count in enumerate(ordered):
        share = total // (len(ordered) - place)
        if count > share:
            break
        total -= count
        share = max(count, total)
    return max(1, share)


_GROUP = ("user_id", "webhook", "verdict", "reason")
_COLUMNS = (
    *("id", "user_id", "webhook", "verdict", "reason", "status", "source", "event", "provider_delivery_id"),
    *("delivery_id", "size", "body_sha256", "headers", "verified", "secret_index", "received_at", "count"),
)


def _row(row_id: str, row: AttemptCount) -> tuple[Any, ...]:
    rejected = row.rejected
    common = (row_id, rejected.user_id, rejected.webhook, rejected.verdict, rejected.reason, rejected.status)
    if row.many:
        return *common, None, None, None, None, 0, None, "[]", rejected.verified, None, row.at, row.times
    sender = storable(rejected.source), _short(rejected.event), _short(rejected.provider_delivery_id)
    content = rejected.delivery_id, rejected.size, rejected.body_sha256, headers_json(rejected.headers)
    return *common, *sender, *content, rejected.verified, rejected.secret_index, row.at, row.times


def _short(value: str | None) -> str | None:
    return None if value is None else storable(value[:_SHOWN_LENGTH])


def _write(
    connection: Connection,
    new: Mapping[str, AttemptCount],
    more: Mapping[str, tuple[int, int]],
    surplus: Mapping[AttemptGroup, int],
) -> None:
    bulk.insert(connection, attempts, _COLUMNS, [_row(row_id, row) for row_id, row in new.items()])
    for row_id, (count, at) in sorted(more.items()):
        change = attempts.update().where(attempts.c.id == row_id)
        connection.execute(change.values(count=attempts.c.count + count, received_at=at))
    for group, kept in surplus.items():
        alike = [attempts.c[name] == value for name, value in zip(_GROUP, group, strict=True)]
        last = connection.execute(
            select(attempts.c.id).where(*alike).order_by(attempts.c.id.desc()).offset(kept).limit(1)
        ).scalar()
        if last is not None:
            connection.execute(delete(attempts).where(*alike, attempts.c.id <= last))
