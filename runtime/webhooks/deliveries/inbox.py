"""The inbox: accepted deliveries are claimed, finished, tried again or given up on, each fenced by its attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
import structlog
from sqlalchemy import Connection, select, text

from runtime.clock import Clock, milliseconds, uuid7
from runtime.crypto import Unsealable
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.group_commit import Stage
from runtime.database.schema import bodies, deliveries
from runtime.database.sealed import Seal
from runtime.database.text import storable
from runtime.errors import GiveUp
from runtime.threads import run
from runtime.threads.step import Superseded
from runtime.webhooks.deliveries import claimable
from runtime.webhooks.deliveries import concurrency as lanes
from runtime.webhooks.deliveries.backoff import TRIES
from runtime.webhooks.deliveries.delivery import AGENT_GONE, DEAD, DONE, QUEUED, RUNNING, ClaimedDelivery, Headers
from runtime.webhooks.deliveries.stored_request import body_of
from runtime.webhooks.request.payload import OFF_THE_LOOP

log = structlog.get_logger("symbiont.dispatcher")

LEASE_SECONDS = 30.0
"""How long a claim on PostgreSQL holds without being renewed."""

_ERROR_LENGTH = 500

NOT_KEPT: Final = "its body is not kept any more"

LINED_UP = 128
"""Deliveries that are put into their lanes at a time."""

ROUNDS = 2
"""How many times that in one claim: on SQLite it happens in the event loop."""

LANES_SECONDS = 30.0
"""How often the lanes are looked at when no webhook has one: what a program before this one put there."""

SOON_SECONDS = 0.02
"""When to look again at lanes that another daemon was serving."""

NO_LANES: Mapping[str, int] = MappingProxyType({})

Concurrency = Callable[[], Mapping[str, int]]
"""How many deliveries of a webhook may run at the same time, for those that say so."""


class Outcome(NamedTuple):
    """How an attempt ended. `state`: `done`, `dead`, `agent_gone`, or `queued` to be tried again after `wait`."""

    state: str
    error: str | None = None
    wait: float = 0.0
    """Seconds."""
    counts: bool = True
    """False: this try was broken off by us and does not count towards the dead letter."""


class Ending(NamedTuple):
    """The outcome of one claimed delivery."""

    work: ClaimedDelivery
    outcome: Outcome
    at: int


class Inbox:
    """The accepted deliveries of one database.

    On SQLite whoever holds the root's lock is alone, and `recover` requeues at start what was running. On PostgreSQL
    several daemons share the inbox: a claim is a lease by the database's clock, and one that is not renewed is
    claimed again by another.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        lease: float = LEASE_SECONDS,
        concurrency: Concurrency = lambda: NO_LANES,
    ) -> None:
        """`lease`: seconds."""
        self.lease = lease
        self.again: float | None = None
        """Seconds after which the last claim wants to be followed by another, whatever it brought; None: it is enough
        when something happens."""
        self._concurrency = concurrency
        self._lanes_seen = -LANES_SECONDS
        self.shared = database.kind == "postgresql"
        self._database = database
        self._clock = clock
        self._seal = Seal(database.master_key, bodies.c.body)
        self._claiming = Stage(2, self._claim)
        # After the steps: the last ones of a run are most often stored with its end, and before it they count.
        self._finishing = Stage(4, self._finish)
        self._headers = msgspec.json.Decoder(Headers)

    async def recover(self) -> None:
        """Requeue what was running when the last daemon stopped (SQLite; on PostgreSQL leases do that)."""
        if not self.shared:
            await self._database.transact(lambda connection: _requeue_running(connection, milliseconds(self._clock)))

    async def claim(self, limit: int) -> list[ClaimedDelivery]:
        """Take up to `limit` deliveries whose time has come; they are this caller's until finished or superseded."""
        claimed: list[ClaimedDelivery] = await self._database.commits.store(self._claiming, limit)
        return claimed

    async def whole(self, work: ClaimedDelivery) -> ClaimedDelivery:
        """`work` with its body, also when that was left out of the claim. Raises `GiveUp` when it cannot be read any
        more, and `Unavailable`."""
        if not work.left_out:
            return work
        query = select(bodies.c.body, bodies.c.headers_size).where(bodies.c.delivery_id == work.delivery_id)
        async with self._database.read() as connection:
            found = (await connection.execute(query)).one_or_none()
        if found is None:
            raise GiveUp(NOT_KEPT)
        try:
            body = await asyncio.to_thread(self._body, (found[0], found[1]), work.delivery_id, work.user_id)
        except Unsealable as error:
            raise GiveUp(error.line()) from None
        return msgspec.structs.replace(work, body=body, left_out=False)

    async def finish(self, work: ClaimedDelivery, outcome: Outcome) -> None:
        """Store how `work` ended. Raises `Superseded` when a newer attempt has begun; then nothing is stored."""
        await self._database.commits.store(self._finishing, Ending(work, outcome, milliseconds(self._clock)))

    async def renew(self, works: Sequence[ClaimedDelivery]) -> set[str]:
        """Renew the leases of `works`; return the ids of those that are still this caller's."""
        rows = sorted((work.delivery_id, work.attempt) for work in works)

        def renew(connection: Connection) -> set[str]:
            held = bulk.find(connection, deliveries, ("id", "attempt"), ("state",), rows, lock="UPDATE")
            until = self._lease_until(connection)
            keys = [(row[0], row[1]) for row in held if row[2] == RUNNING]
            bulk.update(connection, deliveries, ("id", "attempt"), ("lease_until",), [(*key, until) for key in keys])
            return {key[0] for key in keys}

        return await self._database.transact(renew)

    def _claim(self, connection: Connection, limits: Sequence[int]) -> list[list[ClaimedDelivery]]:
        now = milliseconds(self._clock)
        rows = self._due(connection, now, sum(limits))
        # Large bodies are for `whole`: this holds up the event loop, or all other writers.
        small = [(row.id,) for row in rows if row.size <= OFF_THE_LOOP]
        found = bulk.find(connection, bodies, ("delivery_id",), ("body", "headers_size"), small)
        sealed = {row[0]: (row[1], row[2]) for row in found}
        works: list[ClaimedDelivery] = []
        hopeless: list[tuple[Any, str]] = []
        for row in rows:
            work = self._work(row, sealed.get(row.id))
            if isinstance(work, ClaimedDelivery):
                works.append(work)
            else:
                hopeless.append((row, work))
        _bury(connection, hopeless, now)
        until = self._lease_until(connection) if works else None
        bulk.update(
            connection,
            deliveries,
            ("id",),
            ("state", "attempt", "tries", "run_id", "lease_until", "lane"),
            [(work.delivery_id, RUNNING, work.attempt, work.tries, work.run_id, until, None) for work in works],
        )
        known = {row.run_id for row in rows}
        run.begin(
            connection,
            [
                run.Begin(w.run_id, w.user_id, w.delivery_id, w.agent, w.attempt, now, new=w.run_id not in known)
                for w in works
            ],
        )
        rest = iter(works)
        return [list(islice(rest, limit)) for limit in limits]

    def _due(self, connection: Connection, now: int, limit: int) -> list[Any]:
        """Up to `limit` deliveries whose time and turn has come, those that waited longest first."""
        concurrency = self._concurrency()
        self.again = None
        if self.shared and concurrency and not lanes.turn(connection):
            self.again = SOON_SECONDS
            return claimable.claimable(connection, now, limit, shared=True, without=list(concurrency))
        found: list[Any] = []
        wanted = limit
        for _ in range(ROUNDS):
            rows = claimable.claimable(connection, now, wanted, shared=self.shared)
            found = [row for row in rows if row.webhook not in concurrency]
            lanes.line_up(connection, [row for row in rows if row.webhook in concurrency])
            if len(found) >= limit or len(rows) < wanted:
                break
            wanted = limit + LINED_UP
        else:
            self.again = 0.0
        chosen = [(row.next_attempt_at, row.id, row) for row in found]
        # In its lane a delivery has the place that it came with, also when it is tried again.
        chosen += [(row.received_at, row.id, row) for row in self._in_lanes(connection, concurrency, now, limit)]
        return [row for *_, row in sorted(chosen, key=itemgetter(0, 1))[:limit]]

    def _in_lanes(self, connection: Connection, concurrency: Mapping[str, int], now: int, limit: int) -> list[Any]:
        looked = self._clock.monotonic()
        if not concurrency and looked - self._lanes_seen < LANES_SECONDS:
            return []
        rows = lanes.take(connection, concurrency, now, limit, shared=self.shared)
        if not concurrency and not rows:
            self._lanes_seen = looked
        return rows

    def _work(self, row: Any, sealed: tuple[bytes, int] | None) -> ClaimedDelivery | str:
        """The claimed row as work, or why it never will be."""
        if row.tries >= TRIES:
            return f"the daemon stopped during each of {TRIES} tries"
        left_out = row.size > OFF_THE_LOOP
        if sealed is None and not left_out:
            return NOT_KEPT
        try:
            body = b"" if sealed is None else self._body(sealed, row.id, row.user_id)
            headers = self._headers.decode(row.headers)
        except Unsealable as error:
            return error.line()
        except msgspec.DecodeError:
            return "its headers were changed"
        return ClaimedDelivery(
            delivery_id=row.id,
            run_id=row.run_id or uuid7(self._clock),
            attempt=row.attempt + 1,
            tries=row.tries + 1,
            webhook=row.webhook,
            agent=row.agent,
            provider=row.provider,
            event=row.event,
            provider_delivery_id=row.provider_delivery_id,
            body=body,
            content_type=row.content_type,
            headers=headers,
            source=row.source,
            received_at=row.received_at,
            verified=bool(row.verified),
            user_id=row.user_id,
            left_out=left_out,
        )

    def _body(self, sealed: tuple[bytes, int], row: str, user_id: str) -> bytes:
        """The body of a delivery. Raises Unsealable."""
        return body_of(self._seal.open(sealed[0], row=row, user_id=user_id), sealed[1])

    def _lease_until(self, connection: Connection) -> int | None:
        if not self.shared:
            return None
        return int(connection.execute(_DATABASE_NOW).scalar_one()) + int(self.lease * 1000)

    def _finish(self, connection: Connection, endings: Sequence[Ending]) -> list[Exception | None]:
        keys = sorted((ending.work.delivery_id,) for ending in endings)
        rows = bulk.find(connection, deliveries, ("id",), ("attempt", "state", "keep_body"), keys, lock="UPDATE")
        current = {row[0]: row for row in rows}
        valid = [e for e in endings if _holds(current.get(e.work.delivery_id), e.work)]
        bulk.update(
            connection,
            deliveries,
            ("id",),
            ("state", "tries", "next_attempt_at", "lease_until", "finished_at", "last_error"),
            [_ended(ending) for ending in valid],
        )
        run.end(connection, [_run_end(ending) for ending in valid])
        ids = [ending.work.delivery_id for ending in valid if ending.outcome.state == DONE]
        bulk.delete(connection, bodies, "delivery_id", [row for row in ids if not current[row][3]])
        return [
            None
            if _holds(current.get(e.work.delivery_id), e.work)
            else Superseded(f"run {e.work.run_id} goes on elsewhere")
            for e in endings
        ]


_DATABASE_NOW = text(f"SELECT {claimable.DATABASE_NOW}")


def _requeue_running(connection: Connection, now: int) -> None:
    """What was running was broken off by the daemon's end. The try counts: it may be what ended the daemon."""
    connection.execute(
        text("UPDATE runs SET state = 'waiting' WHERE id IN (SELECT run_id FROM deliveries WHERE state = 'running')")
    )
    connection.execute(
        text("UPDATE deliveries SET state = 'queued', next_attempt_at = :now WHERE state = 'running'"), {"now": now}
    )


def _bury(connection: Connection, hopeless: Sequence[tuple[Any, str]], now: int) -> None:
    """Make dead letters of deliveries that cannot be run, each for its reason."""
    for row, error in hopeless:
        # In the transaction, which may be tried again: better said twice than not at all.
        log.error("a delivery became a dead letter", delivery_id=row.id, agent=row.agent, reason=error)
    dead = [(row.id, DEAD, None, None, now, error) for row, error in hopeless]
    bulk.update(connection, deliveries, ("id",), ("state", "lane", "lease_until", "finished_at", "last_error"), dead)
    run.end(
        connection, [run.End(row.run_id, row.attempt, run.DEAD, now, error) for row, error in hopeless if row.run_id]
    )


def _holds(row: tuple[Any, ...] | None, work: ClaimedDelivery) -> bool:
    return row is not None and row[1] == work.attempt and row[2] == RUNNING


def _ended(ending: Ending) -> tuple[Any, ...]:
    work, outcome, at = ending
    tries = work.tries if outcome.counts else work.tries - 1
    next_at = at + int(outcome.wait * 1000)
    finished = None if outcome.state == QUEUED else at
    return work.delivery_id, outcome.state, tries, next_at, None, finished, _error(outcome)


def _run_end(ending: Ending) -> run.End:
    state = {DONE: run.DONE, DEAD: run.DEAD, QUEUED: run.WAITING, AGENT_GONE: run.WAITING}[ending.outcome.state]
    return run.End(ending.work.run_id, ending.work.attempt, state, ending.at, _error(ending.outcome))


def _error(outcome: Outcome) -> str | None:
    """The error as it is stored: it may hold whatever the delivery held."""
    return None if outcome.error is None else storable(outcome.error[:_ERROR_LENGTH])
