"""The queue of one kind of turn: claim, lease, finish, retry and recovery, each fenced by the attempt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, ClassVar, Generic

import structlog
from sqlalchemy import Column, Connection, Table, text

from runtime.clock import Clock, milliseconds, uuid7
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.group_commit import Stage
from runtime.database.sealed import Seal
from runtime.threads import run, stage_ranks
from runtime.threads.step import Superseded
from runtime.threads.turns import ending, parking, recovery, thread_order
from runtime.threads.turns.backoff import TRIES
from runtime.threads.turns.cancellation import Cancellation, cancel, threads_to_free
from runtime.threads.turns.claimable import DATABASE_NOW, claim_queries
from runtime.threads.turns.concurrency import UNLIMITED, ConcurrencyLimits
from runtime.threads.turns.due import DueTurns
from runtime.threads.turns.ending import CANCELLED_BY_PERSON, EndedTurn, OnEnded
from runtime.threads.turns.thread_order import ThreadHold
from runtime.threads.turns.turn import (
    CANCELLED,
    DEAD,
    DONE,
    LIVING,
    QUEUED,
    RUNNING,
    WAITING,
    ClaimedTurn,
    Outcome,
    T,
    TurnOutcome,
)

log = structlog.get_logger("symbiont.dispatcher")

LEASE_SECONDS = 30.0
"""Seconds that a claim on PostgreSQL is valid without renewal."""


class TurnQueue(ABC, Generic[T]):
    """The turns of one table: the source that a dispatcher claims them from.

    The table has the columns of `runtime.database.schema.turn_columns` and the indexes of `index_turns`. On SQLite only
    the process that holds the root's lock uses the table, and `recover` requeues at start the turns that were running,
    as suspects: one of them may have killed the daemon. A suspect is not claimed with others. On PostgreSQL several
    daemons share the table: a claim is a lease by the database's clock, and one that is not renewed is claimed again by
    another daemon.

    A kill counts as a try of a turn that ran, on SQLite of a suspect, unless the attempt recorded the result of a step:
    the run got further then, and its tries are counted anew.

    A new kind of turn is a subclass of this and of `ClaimedTurn`: `read` creates turns from rows, `load` completes one
    outside of the claim, `store_outcomes` writes an outcome to its own tables.
    """

    kind: ClassVar[type[ClaimedTurn]]
    table: ClassVar[Table]
    columns: ClassVar[tuple[str, ...]]
    """Columns that `read` needs beyond `claimable.COLUMNS`."""
    group: ClassVar[str]
    """The column by which concurrency is limited."""
    arrived: ClassVar[str]
    """The column with the time at which a turn arrived (Unix milliseconds)."""
    content: ClassVar[Column[bytes]]
    """The sealed column with what a turn says."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        lease: float = LEASE_SECONDS,
        limits: Callable[[], ConcurrencyLimits] = lambda: UNLIMITED,
        on_ended: OnEnded = lambda connection, ended: None,
    ) -> None:
        """`lease`: seconds. `limits`: returns the limits of the groups, called at each claim. `on_ended` is told of the
        runs that end."""
        self.lease = lease
        self.shared = database.kind == "postgresql"
        self.suspects = 0
        """Number of suspects that wait."""
        self._database = database
        self._clock = clock
        self._on_ended = on_ended
        self._seal = Seal(database.keys, self.content)
        self._queries = claim_queries(self.table.name, self.columns, self.group, self.arrived)
        self._due = DueTurns(self.table, self.group, self._queries, clock, limits, shared=self.shared)
        self._claiming = Stage(stage_ranks.CLAIM, self._claim)
        self._claiming_suspects = Stage(stage_ranks.CLAIM, self._claim_suspects)
        self._releasing = Stage(stage_ranks.CLAIM, self._release_others)
        self._finishing = Stage(stage_ranks.FINISH, self._finish, threads=_threads_of_endings)
        self._cancelling = Stage(stage_ranks.FINISH, self._cancel, threads=threads_to_free)

    @abstractmethod
    def read(self, connection: Connection, rows: Sequence[Any]) -> list[T | str]:
        """Create a turn from each row, in the claim's transaction, with `turn_fields`; for one that can never run, the
        reason instead."""

    async def load(self, turn: T) -> T:
        """Return `turn` with the data that was too large for the claim. Raises `GiveUp` if it is lost, and
        `Unavailable`."""
        return turn

    def store_outcomes(self, connection: Connection, endings: Sequence[TurnOutcome[T]]) -> None:
        """Write these outcomes to other tables, in the transaction that stores them."""

    def turn_fields(self, row: Any) -> dict[str, Any]:
        """Return the fields that every turn has, from a claimed row."""
        run_id = row.run_id or uuid7(self._clock)
        given = {"id": row.id, "agent": row.agent, "user_id": row.user_id, "run_id": run_id}
        return {**given, "attempt": row.attempt + 1, "tries": row.tries + 1}

    @property
    def again(self) -> float | None:
        """Seconds after which another claim should follow the last one, whatever it found; None: when something
        happens."""
        return self._due.again

    async def recover(self) -> None:
        """Requeue the turns that were running when the last daemon was killed (SQLite; on PostgreSQL leases expire),
        and let the turns go on that wait for a thread which nobody has."""
        if not self.shared:
            self.suspects = await self._database.transact(self._requeue_running)
        while await self._database.transact(self._repair) == thread_order.REPAIRED:
            pass

    def _repair(self, connection: Connection) -> int:
        return thread_order.repair(connection, self.kind.trigger, milliseconds(self._clock))

    async def claim(self, limit: int) -> list[T]:
        """Claim up to `limit` turns that are due; they belong to the caller until finished or superseded."""
        claimed: list[T] = await self._database.commits.store(self._claiming, limit)
        return claimed

    def claim_in(self, connection: Connection, limit: int) -> list[T]:
        """Claim as `claim` does, in the caller's transaction."""
        return self._claim(connection, [limit])[0]

    async def claim_suspect(self) -> T | None:
        """Claim one turn that was running when a daemon was killed, to run it alone; None if none is left."""
        claimed: T | None = await self._database.commits.store(self._claiming_suspects, None)
        self.suspects = 0 if claimed is None else self.suspects - 1
        return claimed

    async def release_others(self, held: Sequence[T]) -> None:
        """Requeue the turns that are stored as running, but are not among `held`, the running turns of this process
        (SQLite; on PostgreSQL their leases expire).

        A claim that raised `Unavailable`, because the database was slow, may be stored later. It does not count as a
        try.
        """
        if not self.shared:
            await self._database.commits.store(self._releasing, frozenset(turn.id for turn in held))

    async def clear_suspect(self, turn: T) -> None:
        """Record that `turn`, a running suspect, has run for so long that it did not kill the daemon."""

        def clear(connection: Connection) -> None:
            bulk.update(connection, self.table, ("id", "attempt"), ("suspect",), [(turn.id, turn.attempt, False)])

        await self._database.transact(clear)

    async def finish(self, turn: T, outcome: Outcome) -> bool:
        """Store how `turn` ended; if it is stored already, nothing changes. True if a turn was queued that may be
        claimed now, because its thread is free. Raises `Superseded` when a newer attempt has begun; nothing is stored
        then.

        A turn that waits for its thread is queued if it has the thread by now, and one that a person cancelled in the
        meantime is not tried again.
        """
        ended = TurnOutcome(turn, outcome, milliseconds(self._clock))
        queued: bool = await self._database.commits.store(self._finishing, ended)
        return queued

    async def cancel(self, turn_id: str, user_id: str) -> str:
        """Cancel a turn of the user: one that is not running ends now. Returns its state: `cancelled`, or `running` if
        its attempt has to be stopped.

        Raises `NotFound`, `Conflict` if it has ended otherwise, and `Unavailable`.
        """
        asked = Cancellation(user_id, milliseconds(self._clock), turn_id=turn_id)
        state = await self._database.commits.store(self._cancelling, asked)
        assert state is not None
        return state

    async def cancel_run(self, run_id: str, user_id: str) -> str | None:
        """Cancel the run of a turn, as `cancel` does; None if it is not a run of this kind of turn."""
        asked = Cancellation(user_id, milliseconds(self._clock), run_id=run_id)
        return await self._database.commits.store(self._cancelling, asked)

    async def renew(self, turns: Sequence[T]) -> set[tuple[str, int]]:
        """Renew the leases of `turns`; return id and attempt of those that are still this process's."""
        rows = sorted((turn.id, turn.attempt) for turn in turns)

        def renew(connection: Connection) -> set[tuple[str, int]]:
            held = bulk.find(connection, self.table, ("id", "attempt"), ("state",), rows, lock="UPDATE")
            until = self._lease_until(connection)
            keys = [(row[0], row[1]) for row in held if row[2] == RUNNING]
            bulk.update(connection, self.table, ("id", "attempt"), ("lease_until",), [(*key, until) for key in keys])
            return set(keys)

        return await self._database.transact(renew)

    def _requeue_running(self, connection: Connection) -> int:
        return recovery.requeue_running(connection, self.table, milliseconds(self._clock))

    def _release_others(self, connection: Connection, held: Sequence[frozenset[str]]) -> list[None]:
        recovery.release_others(connection, self.table, frozenset().union(*held))
        return [None for _ in held]

    def _claim(self, connection: Connection, limits: Sequence[int]) -> list[list[T]]:
        now = milliseconds(self._clock)
        turns = iter(self._take(connection, self._due.find(connection, now, sum(limits)), now))
        return [list(islice(turns, limit)) for limit in limits]

    def _claim_suspects(self, connection: Connection, callers: Sequence[None]) -> list[T | None]:
        turns: list[T] = []
        while not turns and (rows := list(connection.execute(self._queries.suspects))):
            turns = self._take(connection, rows, milliseconds(self._clock))
        return [*turns, *[None] * (len(callers) - len(turns))]

    def _take(self, connection: Connection, rows: Sequence[Any], now: int) -> list[T]:
        """Create claimed turns from these rows; those that can never run become dead letters, and those whose run was
        cancelled during an attempt that was interrupted end as well."""
        asked = run.find_cancelled(connection, [row.run_id for row in rows if row.run_id])
        closed = [EndedTurn(row, CANCELLED, CANCELLED_BY_PERSON) for row in rows if row.run_id in asked]
        rows = [row for row in rows if row.run_id not in asked]
        exhausted = f"the daemon stopped during the last of {TRIES} tries, which recorded nothing new"
        closed += [EndedTurn(row, DEAD, exhausted) for row in rows if row.tries >= TRIES]
        rest = [row for row in rows if row.tries < TRIES]
        turns: list[T] = []
        for row, turn in zip(rest, self.read(connection, rest), strict=True):
            if isinstance(turn, str):
                closed.append(EndedTurn(row, DEAD, turn))
            else:
                turns.append(turn)
        if self._close(connection, closed, now):
            self._due.again = 0.0
        until = self._lease_until(connection) if turns else None
        bulk.update(
            connection,
            self.table,
            ("id",),
            ("state", "attempt", "tries", "run_id", "lease_until", "lane"),
            [(turn.id, RUNNING, turn.attempt, turn.tries, turn.run_id, until, None) for turn in turns],
        )
        known = {row.run_id for row in rows}
        run.begin(connection, [_run_begin(turn, now, new=turn.run_id not in known) for turn in turns])
        return turns

    def _close(
        self, connection: Connection, closed: Sequence[EndedTurn], now: int, held: dict[str, ThreadHold] | None = None
    ) -> bool:
        """End turns that no attempt ends, and free their threads. True if a turn was queued because of it.

        `held`: their places on threads, if those are locked already.
        """
        if not closed:
            return False
        for row, state, error in closed:
            # Logged in the transaction, which may be repeated: an entry logged twice is better than a missing one.
            names = {f"{self.kind.trigger}_id": row.id, "agent": row.agent}
            if state == CANCELLED:
                log.info("run_cancelled", **names)
            else:
                log.error("dead_letter", **names, error=error)
        ids = [row.id for row, *_ in closed]
        if held is None:
            # Unlike elsewhere, the turns are locked already. Of the transactions that wait for each other because of
            # it, which is rare, one is repeated.
            held = thread_order.lock_threads_of(connection, ids)
        ending.close(connection, self.table, closed, now)
        queued = thread_order.leave(connection, ids, held, now)
        self._on_ended(connection, ending.closed_runs(closed, held, now))
        return queued

    def _lease_until(self, connection: Connection) -> int | None:
        if not self.shared:
            return None
        return int(connection.execute(_DATABASE_NOW).scalar_one()) + int(self.lease * 1000)

    def _finish(self, connection: Connection, endings: Sequence[TurnOutcome[T]]) -> list[bool | Exception]:
        held = thread_order.lock_threads_of(connection, [each.turn.id for each in endings])
        keys = sorted((each.turn.id,) for each in endings)
        rows = bulk.find(connection, self.table, ("id",), ("attempt", "state"), keys, lock="UPDATE")
        current = {row[0]: (row[1], row[2]) for row in rows}
        valid = [each for each in endings if current.get(each.turn.id) == (each.turn.attempt, RUNNING)]
        valid = self._final_outcomes(connection, valid, held)
        ending.store(connection, self.table, valid)
        now = max(each.at for each in endings)
        gone = [each.turn.id for each in valid if each.outcome.state not in LIVING]
        parked = [each.turn.id for each in valid if each.outcome.frees_thread]
        queued = thread_order.leave(connection, gone, held, now)
        queued = thread_order.park(connection, parked, held, now) or queued
        self.store_outcomes(connection, valid)
        self._on_ended(connection, ending.ended_runs(valid, held))
        return [
            queued
            if current.get(turn.id) == (turn.attempt, RUNNING) or ending.is_stored(current.get(turn.id), turn, outcome)
            else Superseded(f"run {turn.run_id} continues elsewhere")
            for turn, outcome, _ in endings
        ]

    def _final_outcomes(
        self, connection: Connection, endings: Sequence[TurnOutcome[T]], held: dict[str, ThreadHold]
    ) -> list[TurnOutcome[T]]:
        """Return these endings as they are to be stored: what the attempts could not know is known under the locks."""
        undone = [each.turn.run_id for each in endings if each.outcome.state not in (DONE, DEAD, CANCELLED)]
        asked = run.find_cancelled(connection, undone)
        parking_runs = [each.turn.run_id for each in endings if each.outcome.until is not None]
        woken = run.find_woken(connection, parking_runs)
        decided = []
        for each in endings:
            outcome, place = each.outcome, held.get(each.turn.id)
            if each.turn.run_id in asked:
                outcome = Outcome(CANCELLED, CANCELLED_BY_PERSON, counts=False)
            elif outcome.state == WAITING and (place is None or place.active):
                outcome = outcome._replace(state=QUEUED)
            elif outcome.until is not None:
                outcome = parking.parked_outcome(outcome, each.at, woken=each.turn.run_id in woken, shared=self.shared)
            decided.append(each._replace(outcome=outcome))
        return decided

    def _cancel(self, connection: Connection, asked: Sequence[Cancellation]) -> list[str | Exception | None]:
        def close(connection: Connection, closed: EndedTurn, now: int, held: dict[str, ThreadHold]) -> None:
            self._close(connection, [closed], now, held)

        return [cancel(connection, self.table, self.kind.trigger, each, close) for each in asked]


def _threads_of_endings(connection: Connection, endings: Sequence[TurnOutcome[Any]]) -> set[str]:
    return thread_order.threads_of(connection, [each.turn.id for each in endings])


_DATABASE_NOW = text(f"SELECT {DATABASE_NOW}")


def _run_begin(turn: ClaimedTurn, now: int, *, new: bool) -> run.Begin:
    ids = (turn.run_id, turn.user_id, turn.trigger, turn.delivery_id, turn.thread_id)
    return run.Begin(*ids, turn.agent, turn.attempt, now, new=new)
