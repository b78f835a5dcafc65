"""Retention: delete old deliveries and other turns, and bodies for which there is no room, in small transactions.

What waits or runs stays, however old. Only the bodies of deliveries that are done or were only stored are
deleted to make room, oldest first. Their rows stay for the configured days, so a sender's repeat is still recognized.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import structlog
from sqlalchemy import Connection, Table, delete, func, or_, select, text, update

from dslc.blocks.values.quantity import write_size
from runtime.clock import Clock, milliseconds
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.drivers.sqlite import vacuum
from runtime.database.errors import Unavailable
from runtime.database.schema import (
    TURN_TABLES,
    approvals,
    attempts,
    bodies,
    deliveries,
    meta,
    rates,
    replay_keys,
    reservations,
    runs,
    steps,
    usage,
    usage_totals,
)
from runtime.models.budgets.limits import DAY_MS
from runtime.threads import run
from runtime.threads.turns.backoff import TRIES, delay
from runtime.threads.turns.claimable import DATABASE_NOW
from runtime.threads.turns.turn import DONE, LIVING, QUEUED
from runtime.webhooks.deliveries.delivery import KEPT
from runtime.webhooks.deliveries.expiry_clock import SlowClock
from runtime.webhooks.deliveries.queries import first_id
from runtime.webhooks.deliveries.storage_usage import FULL, StorageUsage

log = structlog.get_logger("symbiont.retention")

CHUNK = 500
"""Maximum number of rows that one transaction deletes."""

CHUNK_BYTES = 8 * 1024 * 1024
"""Approximate bytes of bodies that one transaction deletes."""

GIVEN_BACK = 128
"""Transactions of one pruning that return space to the file system: 128 MiB."""

KEY_MARGIN_MS = 86_400_000
"""Replay keys are stored a day longer than a copy of their request would be fresh, so no request is refused because a
clock was set back by less. Requests older than a deleted key are refused: see `Retention`."""

PRUNE_SECONDS = 600.0
FULL_SECONDS = 5.0
"""Seconds between attempts to make room while deliveries are refused for lack of it."""

GIVE_WAY_SECONDS: Final = 1.0
"""Maximum seconds that a transaction which frees space waits for deliveries to be stored."""
PRESSURE: Final = 16
"""Queued writes from which on deliveries arrive faster than they are stored."""

KEYS_FROM: Final = "replay_keys_from"
"""The row of `meta` with the time (Unix milliseconds) before which replay keys may have been deleted."""


async def _delete_nothing(now: int) -> int:
    return 0


class Retention:
    """Keeps `usage` within its bounds, and deletes old rows from the database. One per daemon.

    A replay key is deleted when a copy of its request would be too old anyway. If the clock is set back, such a copy
    would look fresh again. So the latest expiry of a deleted key is stored, and admission refuses requests that would
    have expired before it.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        usage: StorageUsage,
        *,
        keep_seconds: float,
        also: Callable[[int], Awaitable[int]] = _delete_nothing,
    ) -> None:
        """`also`: deletes other old data. Called with the time to use, in Unix milliseconds; returns how much it
        deleted."""
        self._database = database
        self._also = also
        self._clock = clock
        self._usage = usage
        self._keep_ms = int(keep_seconds * 1000)
        self._time = SlowClock(clock)
        self._said_full = False

    async def open(self) -> None:
        """Read the stored state; call before the first delivery is admitted."""
        async with self._database.read() as connection:
            newest = select(deliveries.c.received_at).order_by(deliveries.c.id.desc()).limit(1)
            received = (await connection.execute(newest)).scalar()
            keys_from = (await connection.execute(select(meta.c.value).where(meta.c.name == KEYS_FROM))).scalar()
        self._usage.keys_from = int(keys_from or 0)
        self._time = SlowClock(self._clock, None if received is None else received / 1000)
        await self._measure()

    async def run(self) -> None:
        """Delete every ten minutes, and whenever there is no room, until cancelled."""
        while True:
            self._usage.prune_requested.clear()
            try:
                await self.prune()
            except Unavailable as error:
                log.warning("retention_skipped", error=str(error))
            await self._pause(FULL_SECONDS if self._usage.full else PRUNE_SECONDS)

    async def prune(self) -> int:
        """Delete what is due now; return the number of rows, and of what else was deleted."""
        now = await self._now()
        gone = await forget(self._database, now - self._keep_ms)
        gone += await self._forget_keys(now - KEY_MARGIN_MS)
        gone += await self._also(now)
        gone += await _chunks(self._database, lambda connection: _usage(connection, now - self._keep_ms))
        await self._database.transact(lambda connection: self._tidy(connection, now))
        await self._make_room()
        await self._give_back()
        return gone

    async def _now(self) -> int:
        """Return the time to use: the earliest of all daemons on the database."""
        now = self._time.milliseconds()
        if self._database.kind == "postgresql":
            async with self._database.read() as connection:
                theirs = int((await connection.execute(text(f"SELECT {DATABASE_NOW}"))).scalar_one())
            now = min(now, theirs)
        return now

    async def _forget_keys(self, before: int) -> int:
        keys_from = await self._database.transact(lambda connection: _raise_keys_from(connection, before))
        # Before the first of them is deleted.
        self._usage.keys_from = keys_from
        return await _chunks(self._database, lambda connection: _keys(connection, min(before, keys_from)))

    def _tidy(self, connection: Connection, now: int) -> None:
        connection.execute(delete(rates).where(rates.c.newest < (now - KEY_MARGIN_MS) // 1000))
        # A reservation counts for its day only. A clock that is set back by less than a day finds it still.
        connection.execute(delete(reservations).where(reservations.c.day < now // DAY_MS - 1))
        connection.execute(delete(usage_totals).where(usage_totals.c.day < (now - self._keep_ms) // DAY_MS))
        # No turn waits longer than the last backoff, unless it is parked or the clock was set back.
        wall = milliseconds(self._clock)
        late = wall + int(delay(TRIES - 1, spread=1) * 1000)
        for table in TURN_TABLES.values():
            due_later = (text(f"state = '{QUEUED}'"), table.c.next_attempt_at > late)
            parked = select(runs.c.id).where(run.is_parked())
            not_parked = or_(table.c.run_id.is_(None), table.c.run_id.not_in(parked))
            connection.execute(update(table).where(*due_later, not_parked).values(next_attempt_at=wall))

    async def _make_room(self) -> None:
        await self._measure()
        after = ""
        while self._usage.used > self._usage.keep:
            await self._give_way()
            excess = self._usage.used - self._usage.keep
            freed, after = await self._database.transact(partial(self._drop, after=after, excess=excess))
            if not after:
                break
            self._usage.used -= freed
        await self._measure()
        self._say_full()

    async def _give_way(self) -> None:
        """Wait while deliveries arrive faster than they are stored; not for long, and not if storage may soon be
        full."""
        loop = asyncio.get_running_loop()
        end = loop.time() + GIVE_WAY_SECONDS
        while (  # noqa: ASYNC110 - looking now and then costs less than an event that every delivery would set
            self._database.commits.pressure >= PRESSURE
            and self._usage.used < 2 * self._usage.keep
            and loop.time() < end
        ):
            await asyncio.sleep(0.02)

    async def _give_back(self) -> None:
        """Shrink a file that has become much too large, a little at a time."""
        for _ in range(GIVEN_BACK):
            if not await self._database.transact(vacuum):
                return

    async def _measure(self) -> None:
        began = self._usage.counted
        async with self._database.read() as connection:
            used = (await connection.execute(select(func.sum(func.length(bodies.c.body))))).scalar()
        self._usage.set_measured(int(used or 0), began=began)

    def _drop(self, connection: Connection, *, after: str, excess: int) -> tuple[int, str]:
        """Delete the oldest bodies of done and stored deliveries after `after`. Returns the bytes freed and the last
        id; an empty id if there was none."""
        oldest = (
            select(bodies.c.delivery_id, func.length(bodies.c.body))
            .join(deliveries, deliveries.c.id == bodies.c.delivery_id)
            .where(deliveries.c.state.in_((DONE, KEPT)), bodies.c.delivery_id > after)
            .order_by(bodies.c.delivery_id)
            .limit(CHUNK)
            .with_for_update(of=deliveries, skip_locked=True)
        )
        wanted, freed = [], 0
        for delivery_id, size in connection.execute(oldest):
            wanted.append(delivery_id)
            freed += size
            if freed >= min(excess, CHUNK_BYTES):
                break
        if not wanted:
            return 0, ""
        bulk.delete(connection, bodies, "delivery_id", wanted)
        return freed, wanted[-1]

    def _say_full(self) -> None:
        """Log once when storage is full, and once when it no longer is."""
        if self._usage.full and not self._said_full:
            log.error(
                "inbox_full",
                bytes=self._usage.used,
                limit=FULL * self._usage.keep,
                keep_size=write_size(self._usage.keep),
            )
        elif self._said_full and not self._usage.full:
            log.info("inbox_has_room")
        self._said_full = self._usage.full

    async def _pause(self, seconds: float) -> None:
        tasks = {
            asyncio.create_task(self._clock.sleep(seconds), name="retention pause"),
            asyncio.create_task(self._usage.prune_requested.wait(), name="retention wake-up"),
        }
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()


async def forget(database: Database, before: int) -> int:
    """Delete turns that ended before `before` (Unix milliseconds), with their bodies, runs and steps, and older rows of
    the audit. Returns the number of rows."""
    gone = 0
    for table in TURN_TABLES.values():
        gone += await _chunks(database, partial(_turns, table=table, before=before))
    return gone + await _chunks(database, lambda connection: _attempts(connection, before))


async def prune(database: Database, clock: Clock, *, keep_seconds: float) -> int:
    """Delete once, by `clock` as it is, what ended more than `keep_seconds` ago. Returns the number of rows."""
    return await Retention(database, clock, StorageUsage(), keep_seconds=keep_seconds).prune()


async def _chunks(database: Database, chunk: Callable[[Connection], int]) -> int:
    deleted = count = await database.transact(chunk)
    while count >= CHUNK:
        count = await database.transact(chunk)
        deleted += count
    return deleted


def _turns(connection: Connection, *, table: Table, before: int) -> int:
    # Locked on PostgreSQL: another daemon may redeliver one of them in the meantime.
    # An id begins with its creation time, and nothing ends before it is received. A delivery without an agent has no
    # end.
    has_ended = table.c.state.not_in(LIVING), func.coalesce(table.c.finished_at, 0) < before
    query = (
        select(table.c.id)
        .where(table.c.id < first_id(before), *has_ended)
        .order_by(table.c.id)
        .limit(CHUNK)
        .with_for_update(skip_locked=True)
    )
    gone = list(connection.execute(query).scalars())
    keys = [(each,) for each in gone]
    # A run without a delivery has the id of its turn.
    ended = [row[1] for row in bulk.find(connection, runs, ("delivery_id",), ("id",), keys)] + gone
    bulk.delete(connection, steps, "run_id", ended)
    bulk.delete(connection, approvals, "run_id", ended)
    bulk.delete(connection, runs, "id", ended)
    bulk.delete(connection, bodies, "delivery_id", gone)
    bulk.delete(connection, table, "id", gone)
    return len(gone)


def _attempts(connection: Connection, before: int) -> int:
    old = select(attempts.c.id).where(attempts.c.received_at < before).limit(CHUNK)
    return connection.execute(delete(attempts).where(attempts.c.id.in_(old))).rowcount


def _usage(connection: Connection, before: int) -> int:
    # An id begins with its creation time.
    old = select(usage.c.id).where(usage.c.id < first_id(before)).limit(CHUNK)
    return connection.execute(delete(usage).where(usage.c.id.in_(old))).rowcount


def _raise_keys_from(connection: Connection, before: int) -> int:
    """Record that keys which expire before `before` are about to be deleted; return the time from which all keys are
    present."""
    ends = replay_keys.c.expires_at
    last = connection.execute(select(func.max(ends)).where(ends < before)).scalar()
    bulk.insert(connection, meta, ("name", "value"), [(KEYS_FROM, "0")], ignore=True)
    row = connection.execute(select(meta.c.value).where(meta.c.name == KEYS_FROM).with_for_update())
    known = int(row.scalar_one())
    if last is None or last < known:
        return known
    connection.execute(update(meta).where(meta.c.name == KEYS_FROM).values(value=str(last + 1)))
    return int(last) + 1


def _keys(connection: Connection, before: int) -> int:
    """Delete the oldest keys that expire before `before`, with all that expire in the same millisecond as the last of
    them. Returns their number."""
    ends = replay_keys.c.expires_at
    last = connection.execute(select(ends).order_by(ends).offset(CHUNK - 1).limit(1)).scalar()
    until = before if last is None else min(before, last + 1)
    return connection.execute(delete(replay_keys).where(ends < until)).rowcount
