"""The queue of one kind of turn: claim, lease, finish, retry and recovery, each fenced by the attempt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, ClassVar, Generic

import structlog
from sqlalchemy import Connection, Table, text

from runtime.clock import Clock, milliseconds, uuid7
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.group_commit import Stage
from runtime.database.schema import runs
from runtime.database.text import storable
from runtime.threads import run
from runtime.threads.step import Superseded
from runtime.threads.turns.backoff import TRIES
from runtime.threads.turns.claimable import DATABASE_NOW, claim_queries
from runtime.threads.turns.concurrency import (
    UNLIMITED,
    ConcurrencyLimits,
    queue_by_group,
    queue_queries,
    try_lock_queues,
)
from runtime.threads.turns.turn import AGENT_GONE, DEAD, DONE, QUEUED, RUNNING, ClaimedTurn, Ending, Outcome, T

log = structlog.get_logger("symbiont.dispatcher")

LEASE_SECONDS = 30.0
"""Seconds that a claim on PostgreSQL is valid without renewal."""

QUEUED_AT_A_TIME = 128
"""Number of turns moved into concurrency queues in one batch."""

ROUNDS = 2
"""Maximum number of such batches per claim: on SQLite they block the event loop."""

LEFT_QUEUES_SECONDS = 30.0
"""Interval of reading concurrency queues if no group has a limit: an earlier program may have left turns there."""

LOCKED_SECONDS = 0.02
"""Seconds until the concurrency queues are read again after another daemon had locked them."""

_ERROR_LENGTH = 500


class TurnQueue(ABC, Generic[T]):
    """The turns of one table: the source that a dispatcher claims them from.

    The table has the columns of `runtime.database.schema.turn_columns` and the indexes of `index_turns`. On SQLite only
    the process that holds the root's lock uses the table, and `recover` requeues at start the turns that were running,
    as suspects: one of them may have killed the daemon. A suspect is not claimed with others, and only a kill while a
    suspect runs counts as its try. On PostgreSQL several daemons share the table: a claim is a lease by the database's
    clock, and one that is not renewed is claimed again by another daemon, as another try.

    A new kind of turn is a subclass of this and of `ClaimedTurn`: `read` creates turns from rows, `load` completes one
    outside of the claim, `ended` writes an outcome to its own tables.
    """

    kind: ClassVar[type[ClaimedTurn]]
    table: ClassVar[Table]
    columns: ClassVar[tuple[str, ...]]
    """Columns that `read` needs beyond `claimable.COLUMNS`."""
    group: ClassVar[str]
    """The column by which concurrency is limited."""
    arrived: ClassVar[str]
    """The column with the time at which a turn arrived (Unix milliseconds)."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        lease: float = LEASE_SECONDS,
        limits: Callable[[], ConcurrencyLimits] = lambda: UNLIMITED,
    ) -> None:
        """`lease`: seconds. `limits`: returns the current limits, called at each claim."""
        self.lease = lease
        self.shared = database.kind == "postgresql"
        self.again: float | None = None
        """Seconds after which another claim should follow the last one, whatever it found; None: when something
        happens."""
        self.suspects = 0
        """How many suspects wait."""
        self._database = database
        self._clock = clock
        self._limits = limits
        self._queues_read_at = -LEFT_QUEUES_SECONDS
        self._queries = claim_queries(self.table.name, self.columns, self.group, self.arrived)
        self._queue_queries = queue_queries(self.table.name, self.group, self._queries)
        self._claiming = Stage(2, self._claim)
        self._claiming_suspects = Stage(2, self._claim_suspects)
        self._releasing = Stage(2, self._release_others)
        # Stored after the steps: the last steps of a run are usually stored with its end, and are valid only before it.
        self._finishing = Stage(4, self._finish)

    @abstractmethod
    def read(self, connection: Connection, rows: Sequence[Any]) -> list[T | str]:
        """Create a turn from each row, in the claim's transaction; for one that can never run, the reason instead.

        A turn's `run_id`, `attempt` and `tries` are `run_id(row)`, `row.attempt + 1` and `row.tries + 1`.
        """

    async def load(self, turn: T) -> T:
        """Return `turn` with the data that was too large for the claim. Raises `GiveUp` if it is lost, and
        `Unavailable`."""
        return turn

    def ended(self, connection: Connection, endings: Sequence[Ending[T]]) -> None:
        """Write these outcomes to other tables, in the transaction that stores them."""

    def run_id(self, row: Any) -> str:
        """Return the run that a claimed row continues, or the id of a new one."""
        return row.run_id or uuid7(self._clock)

    async def recover(self) -> None:
        """Requeue the turns that were running when the last daemon was killed (SQLite; on PostgreSQL leases expire)."""
        if not self.shared:
            self.suspects = await self._database.transact(self._requeue_running)

    async def claim(self, limit: int) -> list[T]:
        """Claim up to `limit` turns that are due; they belong to the caller until finished or superseded."""
        claimed: list[T] = await self._database.commits.store(self._claiming, limit)
        return claimed

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

    async def finish(self, turn: T, outcome: Outcome) -> None:
        """Store how `turn` ended; if it is stored already, nothing changes. Raises `Superseded` when a newer attempt
        has begun; nothing is stored then."""
        await self._database.commits.store(self._finishing, Ending(turn, outcome, milliseconds(self._clock)))

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
        """Requeue the turns that were interrupted by the daemon's end, as suspects. If a turn was already a suspect,
        its try counts.

        Returns how many suspects wait.
        """
        name = self.table.name
        connection.execute(
            text(f"UPDATE runs SET state = 'waiting' WHERE id IN (SELECT run_id FROM {name} WHERE state = 'running')")  # noqa: S608
        )
        requeue = f"""
            UPDATE {name} SET state = 'queued', next_attempt_at = :now, suspect = true,
            tries = CASE WHEN suspect THEN tries ELSE tries - 1 END WHERE state = 'running'
        """  # noqa: S608 - the name of a table
        connection.execute(text(requeue), {"now": milliseconds(self._clock)})
        count = f"SELECT count(*) FROM {name} WHERE state = 'queued' AND suspect"  # noqa: S608
        return int(connection.execute(text(count)).scalar_one())

    def _release_others(self, connection: Connection, held: Sequence[frozenset[str]]) -> list[None]:
        query = text(f"SELECT id, run_id, tries FROM {self.table.name} WHERE state = 'running'")  # noqa: S608
        others = [row for row in connection.execute(query) if row.id not in frozenset().union(*held)]
        released = [(row.id, QUEUED, row.tries - 1) for row in others]
        bulk.update(connection, self.table, ("id",), ("state", "tries"), released)
        bulk.update(connection, runs, ("id",), ("state",), [(row.run_id, run.WAITING) for row in others])
        return [None for _ in held]

    def _claim(self, connection: Connection, limits: Sequence[int]) -> list[list[T]]:
        now = milliseconds(self._clock)
        turns = iter(self._take(connection, self._claimable(connection, now, sum(limits)), now))
        return [list(islice(turns, limit)) for limit in limits]

    def _claim_suspects(self, connection: Connection, callers: Sequence[None]) -> list[T | None]:
        turns: list[T] = []
        while not turns and (rows := list(connection.execute(self._queries.suspects))):
            turns = self._take(connection, rows, milliseconds(self._clock))
        return [*turns, *[None] * (len(callers) - len(turns))]

    def _take(self, connection: Connection, rows: Sequence[Any], now: int) -> list[T]:
        """Create claimed turns from these rows; those that can never run become dead letters."""
        exhausted = [row for row in rows if row.tries >= TRIES]
        rest = [row for row in rows if row.tries < TRIES]
        turns: list[T] = []
        hopeless = [(row, f"the daemon stopped during each of {TRIES} tries") for row in exhausted]
        for row, turn in zip(rest, self.read(connection, rest), strict=True):
            if isinstance(turn, str):
                hopeless.append((row, turn))
            else:
                turns.append(turn)
        self._bury(connection, hopeless, now)
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

    def _claimable(self, connection: Connection, now: int, limit: int) -> list[Any]:
        """Return up to `limit` turns that are due and have a place in their queue, the longest waiting first."""
        limits = self._limits()
        self.again = None
        if self.shared and limits.any and not try_lock_queues(connection):
            self.again = LOCKED_SECONDS
            if limits.others is not None:
                return []
            return self._queries.claimable(connection, now, limit, shared=True, without=list(limits.by_group))
        found: list[Any] = []
        wanted = limit
        for _ in range(ROUNDS):
            rows = self._queries.claimable(connection, now, wanted, shared=self.shared)
            limited = [row for row in rows if limits.of(row.queue_group) is not None]
            found = [row for row in rows if limits.of(row.queue_group) is None]
            queue_by_group(connection, self.table, limited)
            if len(found) >= limit or len(rows) < wanted:
                break
            wanted = limit + QUEUED_AT_A_TIME
        else:
            self.again = 0.0
        chosen = [(row.next_attempt_at, row.id, row) for row in found]
        # A turn in a queue keeps its place by arrival, also if it is retried.
        chosen += [(row.arrived_at, row.id, row) for row in self._from_queues(connection, limits, now, limit)]
        return [row for *_, row in sorted(chosen, key=itemgetter(0, 1))[:limit]]

    def _from_queues(self, connection: Connection, limits: ConcurrencyLimits, now: int, limit: int) -> list[Any]:
        read_at = self._clock.monotonic()
        if not limits.any and read_at - self._queues_read_at < LEFT_QUEUES_SECONDS:
            return []
        rows = self._queue_queries.claimable(connection, limits, now, limit, shared=self.shared)
        if not limits.any and not rows:
            self._queues_read_at = read_at
        return rows

    def _bury(self, connection: Connection, hopeless: Sequence[tuple[Any, str]], now: int) -> None:
        """Turn turns that cannot be run into dead letters, each with its reason."""
        for row, error in hopeless:
            # Logged in the transaction, which may be repeated: an entry logged twice is better than a missing one.
            log.error("dead_letter", **{f"{self.kind.trigger}_id": row.id}, agent=row.agent, error=error)
        dead = [(row.id, DEAD, None, None, now, error, False) for row, error in hopeless]
        columns = ("state", "lane", "lease_until", "finished_at", "last_error", "suspect")
        bulk.update(connection, self.table, ("id",), columns, dead)
        ends = [run.End(row.run_id, row.attempt, run.DEAD, now, error) for row, error in hopeless if row.run_id]
        run.end(connection, ends)

    def _lease_until(self, connection: Connection) -> int | None:
        if not self.shared:
            return None
        return int(connection.execute(_DATABASE_NOW).scalar_one()) + int(self.lease * 1000)

    def _finish(self, connection: Connection, endings: Sequence[Ending[T]]) -> list[Exception | None]:
        keys = sorted((ending.turn.id,) for ending in endings)
        rows = bulk.find(connection, self.table, ("id",), ("attempt", "state"), keys, lock="UPDATE")
        current = {row[0]: (row[1], row[2]) for row in rows}
        valid = [ending for ending in endings if current.get(ending.turn.id) == (ending.turn.attempt, RUNNING)]
        bulk.update(
            connection,
            self.table,
            ("id",),
            ("state", "tries", "next_attempt_at", "lease_until", "finished_at", "last_error", "suspect"),
            [_row_end(ending) for ending in valid],
        )
        run.end(connection, [_run_end(ending) for ending in valid])
        self.ended(connection, valid)
        return [
            # Another state is the end of this attempt, if its commit was lost.
            None
            if current.get(turn.id) in ((turn.attempt, RUNNING), (turn.attempt, outcome.state))
            else Superseded(f"run {turn.run_id} continues elsewhere")
            for turn, outcome, _ in endings
        ]


_DATABASE_NOW = text(f"SELECT {DATABASE_NOW}")


def _run_begin(turn: ClaimedTurn, now: int, *, new: bool) -> run.Begin:
    ids = (turn.run_id, turn.user_id, turn.trigger, turn.delivery_id, turn.thread_id)
    return run.Begin(*ids, turn.agent, turn.attempt, now, new=new)


_RUN_STATES = {DONE: run.DONE, DEAD: run.DEAD, QUEUED: run.WAITING, AGENT_GONE: run.WAITING}


def _row_end(ending: Ending[Any]) -> tuple[Any, ...]:
    turn, outcome, at = ending
    tries = turn.tries if outcome.counts else turn.tries - 1
    next_at = at + int(outcome.wait * 1000)
    finished = None if outcome.state == QUEUED else at
    return turn.id, outcome.state, tries, next_at, None, finished, _error(outcome), False


def _run_end(ending: Ending[Any]) -> run.End:
    turn, outcome, at = ending
    return run.End(turn.run_id, turn.attempt, _RUN_STATES[outcome.state], at, _error(outcome))


def _error(outcome: Outcome) -> str | None:
    """Return the error as it is stored, in clear text and shortened; it may quote any part of the turn."""
    return None if outcome.error is None else storable(outcome.error[:_ERROR_LENGTH])
