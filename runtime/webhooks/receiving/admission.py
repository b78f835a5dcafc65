"""Admission: all deliveries that wait at a moment are decided and stored in one transaction, and answered after it.

What is stored of one delivery is stored together: its row, its body, its replay key and what counts towards its
limits. Whatever is not accepted leaves nothing.
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
from runtime.database.group_commit import Plain, Stage
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
"""Bytes of their bodies."""

_IDENTITY = ("user_id", "webhook", "provider_delivery_id")
_KEY = ("user_id", "webhook", "mac")
_KEY_COLUMNS = (*_KEY, "expires_at", "delivery_id")
_BODY_COLUMNS = ("delivery_id", "user_id", "body", "headers_size")


class Busy(Retry):
    """Too many deliveries wait already; `retry_after` is in seconds, `reason` one of `refusal.REASONS`."""

    retry_after = 1
    reason = "overloaded"


class Full(Busy):
    """So much that was accepted is not handled yet that the disk would fill up."""

    retry_after = 60
    reason = "inbox_full"


class First(NamedTuple):
    """The delivery that has an id already."""

    delivery_id: str
    state: str


class Admission:
    """Decides and stores candidates. One for each daemon; several daemons may share a PostgreSQL database.

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
        self._seal = Seal(database.master_key, bodies.c.body)
        self._stage = Stage(1, self._admit, self._plainly)

    async def admit(self, candidate: Candidate) -> Decision:
        """Decide about `candidate`; when this returns, the decision is committed.

        Raises `Busy` when too much waits, and `runtime.database.errors.Unavailable` when nothing could be stored.
        """
        size = len(candidate.body)
        if size <= OFF_THE_LOOP:
            return await self.put(candidate)
        self._must_have_room(size)
        entry = prepare_delivery(candidate, self._clock, self._usage)
        self._bytes += size
        try:
            sealed = await asyncio.to_thread(self._sealed, entry, entry.delivery_id)
        finally:
            self._bytes -= size
        return await self.put(candidate, entry._replace(sealed=sealed))

    def put(self, candidate: Candidate, entry: PendingDelivery | None = None) -> asyncio.Future[Decision]:
        """Like `admit`, without waiting: the future is done after the commit. `entry`: that of `candidate`, when it was
        made already. Raises `Busy` here and now."""
        size = len(candidate.body)
        self._must_have_room(size)
        entry = entry or prepare_delivery(candidate, self._clock, self._usage)
        answer: asyncio.Future[Decision] = self._commits.put(self._stage, entry)
        self._bytes += size
        answer.add_done_callback(partial(self._done, size, candidate.agent is not None))
        return answer

    def _must_have_room(self, size: int) -> None:
        if self._commits.depth >= self._capacity or (self._bytes and self._bytes + size > CAPACITY_BYTES):
            raise Busy("too many deliveries wait to be stored")
        if self._usage.full:
            raise Full("too many deliveries wait to be handled")

    def _done(self, size: int, waits: bool, answer: asyncio.Future[Decision]) -> None:
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
        """Take no more; what waits is stored before the database is closed."""
        self._capacity = 0

    def _admit(self, connection: Connection, entries: Sequence[PendingDelivery]) -> list[Decision]:
        """Decide about all entries and store what is accepted. Runs in the writer's transaction."""
        # The counters before anything else, in every daemon alike.
        rates = Rates.locked(connection, [limit.key for entry in entries for limit in entry.limits], entries[0].now)
        # The keys first: what another daemon commits in between is then found by its id too, and is a repeat.
        seen = _seen(connection, entries)
        firsts = _firsts(connection, entries)
        # Entries of a commit whose answer was lost with the connection: they are stored already.
        stored = {first.delivery_id for first in firsts.values()} | set(seen.values())
        others = [(entry.delivery_id,) for entry in entries if not entry.identity and not entry.key]
        stored |= {row[0] for row in bulk.find(connection, deliveries, ("id",), (), others)}
        decisions: list[Decision] = []
        accepted: list[PendingDelivery] = []
        again: list[tuple[str, PendingDelivery]] = []
        for entry in entries:
            if entry.delivery_id in stored:
                decisions.append(entry.accepted())
                continue
            first = firsts.get(entry.identity) if entry.identity else None
            verdict = decide(first, seen=entry.forgotten or entry.key in seen)
            if verdict == "accepted":
                decision = _within_limits(entry, rates)
                if decision.verdict == "accepted":
                    accepted.append(entry)
                    if entry.identity:
                        firsts[entry.identity] = First(entry.delivery_id, QUEUED)
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

    def _plainly(self, entries: Sequence[PendingDelivery]) -> Plain[Decision] | None:
        """Statements that store all entries, to be rolled back if one is a repeat or a replay. None if `_admit` has to
        decide: where limits are counted, or a replay key may have been forgotten."""
        if any([entry.limits or entry.forgotten for entry in entries]):  # noqa: C419 - a list is quicker
            return None
        statements = [
            *bulk.inserting("sqlite", deliveries, COLUMNS, [entry.row for entry in entries]),
            *bulk.inserting("sqlite", replay_keys, _KEY_COLUMNS, _keys(entries)),
            *bulk.inserting("sqlite", bodies, _BODY_COLUMNS, self._bodies(_with_bodies(entries))),
        ]
        return Plain(statements, [entry.accepted() for entry in entries])

    def _insert(self, connection: Connection, accepted: list[PendingDelivery]) -> None:
        """Store the accepted rows, their bodies and their replay keys.

        Two daemons may store one id or key at the same time; both insert in the order of the keys, so that one
        waits for the other, finds a row missing, and decides again.
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
        """Rows of sealed bodies, each with the delivery that it belongs to."""
        rows = []
        for row, entry in of:
            known = entry.sealed if row == entry.delivery_id else None
            sealed, headers_size = known or self._sealed(entry, row)
            rows.append((row, entry.candidate.user_id, sealed, headers_size))
        return rows

    def _sealed(self, entry: PendingDelivery, row: str) -> tuple[SealedBytes, int]:
        """What is kept of the request, sealed for the delivery `row`, and how many bytes of it are headers."""
        piece, headers_size = pack(entry.candidate.received, entry.candidate.body)
        return self._seal.close(piece, row=row, user_id=entry.candidate.user_id), headers_size

    def _queue_again(self, connection: Connection, again: list[tuple[str, PendingDelivery]]) -> None:
        """Queue dead letters that their sender sent again; a body that is gone is taken from the repeat."""
        again.sort(key=lambda pair: pair[0])
        for delivery_id, entry in again:
            connection.execute(
                deliveries.update()
                .where(deliveries.c.id == delivery_id, deliveries.c.state == DEAD)
                .values(state=QUEUED, tries=0, next_attempt_at=entry.now, finished_at=None)
            )
        self._insert_bodies(connection, again)


def _within_limits(entry: PendingDelivery, rates: Rates) -> Decision:
    """Count the entry, or say how long to wait."""
    if not entry.limits:
        return entry.accepted()
    wait, quotas = rates.take(entry.limits, entry.now)
    return Decision("limited", "", retry_after=wait, quotas=quotas) if wait else entry.accepted(quotas)


def _with_bodies(entries: Iterable[PendingDelivery]) -> Iterable[tuple[str, PendingDelivery]]:
    """Those whose bodies are stored, each with its id: all but what is only kept, without its body."""
    return (
        (entry.delivery_id, entry)
        for entry in entries
        if entry.candidate.keep_body or entry.candidate.agent is not None
    )


def _keys(entries: Sequence[PendingDelivery]) -> list[tuple[Any, ...]]:
    """Rows of replay keys, in the order of the keys."""
    return sorted(
        (*entry.key, int(entry.candidate.replay_until * 1000), entry.delivery_id) for entry in entries if entry.key
    )


def decide(first: First | None, *, seen: bool) -> Verdict:
    """The whole rule. `first`: the delivery with this id; `seen`: this request's replay key is known.

    The id comes first: a sender's retry may be byte for byte the same request, and deserves the first one's answer.
    """
    if first is not None:
        return "repeated"
    return "replayed" if seen else "accepted"


def _firsts(connection: Connection, entries: Sequence[PendingDelivery]) -> dict[tuple[str, str, str] | None, First]:
    wanted = [entry.identity for entry in entries if entry.identity]
    rows = bulk.find(connection, deliveries, _IDENTITY, ("id", "state"), wanted)
    return {(row[0], row[1], row[2]): First(row[3], row[4]) for row in rows}


def _seen(connection: Connection, entries: Sequence[PendingDelivery]) -> dict[tuple[str, str, bytes] | None, str]:
    wanted = [entry.key for entry in entries if entry.key]
    rows = bulk.find(connection, replay_keys, _KEY, ("delivery_id",), wanted)
    return {(row[0], row[1], bytes(row[2])): row[3] for row in rows}
