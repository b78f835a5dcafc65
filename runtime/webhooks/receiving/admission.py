"""Admission: all waiting deliveries are decided and stored in one transaction, and answered after it.

Everything about one delivery is stored together: its row, its body, its replay key and its count towards limits. A
delivery that is not accepted leaves nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Connection

from runtime.clock import Clock
from runtime.crypto import SealedBytes
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.errors import Collision
from runtime.database.group_commit import PlainWrites, Stage
from runtime.database.schema import bodies, deliveries, replay_keys
from runtime.database.sealed import Seal
from runtime.errors import Retry
from runtime.threads.turns.turn import DEAD, QUEUED
from runtime.webhooks.deliveries.delivery import Candidate, Decision, Verdict
from runtime.webhooks.deliveries.storage_usage import StorageUsage
from runtime.webhooks.deliveries.stored_request import pack
from runtime.webhooks.receiving.pending_delivery import COLUMNS, PendingDelivery, prepare_delivery
from runtime.webhooks.receiving.rate_limits import Rates
from runtime.webhooks.request.payload import OFF_THE_LOOP

CAPACITY = 1024
"""Deliveries that may wait for a transaction."""

CAPACITY_BYTES = 64 * 1024 * 1024
"""Bytes of the bodies that may wait."""

_IDENTITY = ("user_id", "webhook", "provider_delivery_id")
_KEY = ("user_id", "webhook", "mac")
_KEY_COLUMNS = (*_KEY, "expires_at", "delivery_id")
_BODY_COLUMNS = ("delivery_id", "user_id", "body", "headers_size")


class Busy(Retry):
    """Too many deliveries wait; `retry_after` is in seconds, `reason` a key of `refusal.REASONS`."""

    retry_after = 1
    reason = "overloaded"


class Full(Busy):
    """Refused: so many accepted deliveries are unhandled that the disk would fill up."""

    retry_after = 60
    reason = "inbox_full"


class Original(NamedTuple):
    """The stored delivery that already has the id."""

    delivery_id: str
    state: str


class Admission:
    """Decides and stores candidates. One per daemon; several daemons may share a PostgreSQL database.

    `on_admitted` is called, in the event loop, for each delivery that is committed and waits to run.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        capacity: int = CAPACITY,
        usage: StorageUsage | None = None,
        on_admitted: Callable[[], None] = lambda: None,
    ) -> None:
        self._commits = database.commits
        self._clock = clock
        self._capacity = capacity
        self._usage = usage or StorageUsage()
        self.on_admitted = on_admitted
        self._bytes = 0
        self._seal = Seal(database.keys, bodies.c.body)
        self._stage = Stage(1, self._admit, self._plain_writes)

    async def admit(self, candidate: Candidate) -> Decision:
        """Decide about `candidate` and return the decision after it is committed.

        Raises `Busy` if too many deliveries wait, and `runtime.database.errors.Unavailable` if nothing could be stored.
        """
        size = len(candidate.body)
        if size <= OFF_THE_LOOP:
            return await self.put(candidate)
        self._check_room(size)
        entry = prepare_delivery(candidate, self._clock, self._usage)
        self._bytes += size
        try:
            sealed = await asyncio.to_thread(self._seal_request, entry, entry.delivery_id)
        finally:
            self._bytes -= size
        return await self.put(candidate, entry._replace(sealed=sealed))

    def put(self, candidate: Candidate, entry: PendingDelivery | None = None) -> asyncio.Future[Decision]:
        """Like `admit`, without waiting: the future is done after the commit. `entry`: the prepared `candidate`, if it
        exists already. Raises `Busy` immediately."""
        size = len(candidate.body)
        self._check_room(size)
        entry = entry or prepare_delivery(candidate, self._clock, self._usage)
        answer: asyncio.Future[Decision] = self._commits.put(self._stage, entry)
        self._bytes += size
        answer.add_done_callback(partial(self._finish, size, candidate.agent is not None))
        return answer

    def _check_room(self, size: int) -> None:
        if self._commits.depth >= self._capacity or (self._bytes and self._bytes + size > CAPACITY_BYTES):
            raise Busy("too many deliveries wait to be stored")
        if self._usage.full:
            raise Full("too many deliveries wait to be handled")

    def _finish(self, size: int, waits: bool, answer: asyncio.Future[Decision]) -> None:
        self._bytes -= size
        if answer.cancelled() or answer.exception() is not None:
            return
        decision = answer.result()
        if decision.verdict == "accepted":
            self._usage.add(size)
            if waits:
                self.on_admitted()
        elif decision.queued_again:
            self.on_admitted()

    async def close(self) -> None:
        """Accept no more; what waits is stored before the database is closed."""
        self._capacity = 0

    def _admit(self, connection: Connection, entries: Sequence[PendingDelivery]) -> list[Decision]:
        """Decide about all deliveries and store the accepted ones. Runs in the writer's transaction."""
        # Counters first, so that all daemons lock in the same order.
        rates = Rates.lock(connection, [limit.key for entry in entries for limit in entry.limits], entries[0].now)
        # Keys before ids: a delivery that another daemon commits in between is then found by its id and is a repeat.
        seen = _known_keys(connection, entries)
        firsts = _originals(connection, entries)
        # Deliveries of a commit whose confirmation was lost with the connection: already stored.
        stored = {first.delivery_id for first in firsts.values()} | set(seen.values())
        others = [(entry.delivery_id,) for entry in entries if not entry.identity and not entry.key]
        stored |= {row[0] for row in bulk.find(connection, deliveries, ("id",), (), others)}
        decisions: list[Decision] = []
        accepted: list[PendingDelivery] = []
        again: list[tuple[str, PendingDelivery]] = []
        for entry in entries:
            if entry.delivery_id in stored:
                decisions.append(entry.acceptance())
                continue
            first = firsts.get(entry.identity) if entry.identity else None
            verdict = decide(first, seen=entry.forgotten or entry.key in seen)
            if verdict == "accepted":
                decision = _within_limits(entry, rates)
                if decision.verdict == "accepted":
                    accepted.append(entry)
                    if entry.identity:
                        firsts[entry.identity] = Original(entry.delivery_id, QUEUED)
                    if entry.key:
                        seen[entry.key] = entry.delivery_id
            elif verdict == "repeated" and first is not None:
                decision = Decision("repeated", first.delivery_id, first.state == DEAD)
                if first.state == DEAD and entry.identity:
                    again.append((first.delivery_id, entry))
                    firsts[entry.identity] = first._replace(state=QUEUED)
            else:
                decision = Decision("replayed", seen.get(entry.key, ""))
            decisions.append(decision)
        self._insert(connection, accepted)
        rates.write(connection)
        if again:
            self._queue_again(connection, again)
        return decisions

    def _plain_writes(self, entries: Sequence[PendingDelivery]) -> PlainWrites[Decision] | None:
        """Return statements that store all deliveries, to be rolled back if one is a repeat or a replay. None if
        `_admit` has to decide: if limits are counted, or a replay key may have been deleted."""
        if any([entry.limits or entry.forgotten for entry in entries]):  # noqa: C419 - a list is quicker
            return None
        statements = [
            *bulk.insert_statements("sqlite", deliveries, COLUMNS, [entry.row for entry in entries]),
            *bulk.insert_statements("sqlite", replay_keys, _KEY_COLUMNS, _keys(entries)),
            *bulk.insert_statements("sqlite", bodies, _BODY_COLUMNS, self._bodies(_with_bodies(entries))),
        ]
        return PlainWrites(statements, [entry.acceptance() for entry in entries])

    def _insert(self, connection: Connection, accepted: list[PendingDelivery]) -> None:
        """Store the accepted rows, their bodies and their replay keys.

        Two daemons may store one id or key at the same time. Both insert in the order of the keys, so one waits for the
        other, finds a row missing, and decides again.
        """
        accepted.sort(key=lambda entry: entry.identity or ())
        made = bulk.insert(connection, deliveries, COLUMNS, [entry.row for entry in accepted], ignore=True)
        if made != len(accepted):
            raise Collision
        keys = _keys(accepted)
        made = bulk.insert(connection, replay_keys, _KEY_COLUMNS, keys, ignore=True)
        if made != len(keys):
            raise Collision
        self._insert_bodies(connection, _with_bodies(accepted))

    def _insert_bodies(self, connection: Connection, of: Iterable[tuple[str, PendingDelivery]]) -> None:
        bulk.insert(connection, bodies, _BODY_COLUMNS, self._bodies(of), ignore=True)

    def _bodies(self, of: Iterable[tuple[str, PendingDelivery]]) -> list[tuple[Any, ...]]:
        """Return rows of encrypted bodies, each with the delivery that it belongs to."""
        rows = []
        for row, entry in of:
            known = entry.sealed if row == entry.delivery_id else None
            sealed, headers_size = known or self._seal_request(entry, row)
            rows.append((row, entry.candidate.user_id, sealed, headers_size))
        return rows

    def _seal_request(self, entry: PendingDelivery, row: str) -> tuple[SealedBytes, int]:
        """Return the stored request, encrypted for the delivery `row`, and the number of bytes that are headers."""
        piece, headers_size = pack(entry.candidate.received, entry.candidate.body)
        return self._seal.close(piece, row=row, user_id=entry.candidate.user_id), headers_size

    def _queue_again(self, connection: Connection, again: list[tuple[str, PendingDelivery]]) -> None:
        """Queue dead letters that their sender sent again; a deleted body is restored from the repeat."""
        again.sort(key=lambda pair: pair[0])
        for delivery_id, entry in again:
            queued = connection.execute(
                deliveries.update()
                .where(deliveries.c.id == delivery_id, deliveries.c.state == DEAD)
                .values(state=QUEUED, tries=0, next_attempt_at=entry.now, finished_at=None)
            )
            if queued.rowcount != 1:
                raise Collision
        self._insert_bodies(connection, again)


def _within_limits(entry: PendingDelivery, rates: Rates) -> Decision:
    """Count the delivery, or decide how long its sender has to wait."""
    if not entry.limits:
        return entry.acceptance()
    wait, quotas = rates.take(entry.limits, entry.now)
    return Decision("limited", "", retry_after=wait, quotas=quotas) if wait else entry.acceptance(quotas)


def _with_bodies(entries: Iterable[PendingDelivery]) -> Iterable[tuple[str, PendingDelivery]]:
    """Return deliveries whose body is stored, with their ids: all except those without an agent when `keep_body` is
    false."""
    return (
        (entry.delivery_id, entry)
        for entry in entries
        if entry.candidate.keep_body or entry.candidate.agent is not None
    )


def _keys(entries: Sequence[PendingDelivery]) -> list[tuple[Any, ...]]:
    """Return the rows of replay keys, in the order of the keys."""
    return sorted(
        (*entry.key, int(entry.candidate.replay_until * 1000), entry.delivery_id) for entry in entries if entry.key
    )


def decide(first: Original | None, *, seen: bool) -> Verdict:
    """Return the verdict. `first`: the delivery with this id; `seen`: this request's replay key is known.

    The id is checked first: a sender's retry may be byte for byte the same request, and gets the first one's answer.
    """
    if first is not None:
        return "repeated"
    return "replayed" if seen else "accepted"


def _originals(
    connection: Connection, entries: Sequence[PendingDelivery]
) -> dict[tuple[str, str, str] | None, Original]:
    wanted = [entry.identity for entry in entries if entry.identity]
    rows = bulk.find(connection, deliveries, _IDENTITY, ("id", "state"), wanted)
    return {(row[0], row[1], row[2]): Original(row[3], row[4]) for row in rows}


def _known_keys(connection: Connection, entries: Sequence[PendingDelivery]) -> dict[tuple[str, str, bytes] | None, str]:
    wanted = [entry.key for entry in entries if entry.key]
    rows = bulk.find(connection, replay_keys, _KEY, ("delivery_id",), wanted)
    return {(row[0], row[1], bytes(row[2])): row[3] for row in rows}
