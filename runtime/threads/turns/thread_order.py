"""The order of turns on a thread: one after the other, across daemons and kinds of turn.

A turn *enters* its thread and is the active one, or waits there in the order of arrival. The active turn keeps the
thread until it has ended or is *parked*, also between its attempts; the transaction that ends or parks it makes the
next turn the active one, and queues that if it is `waiting`. Every function here first locks the rows of the threads,
then those of turns, so that what it reads about a thread is valid until the commit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, Table, text

from runtime.clock import Clock, milliseconds
from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.group_commit import Stage
from runtime.database.schema import TURN_TABLES, runs, thread_turns, threads
from runtime.errors import Retry
from runtime.threads import stage_ranks
from runtime.threads.removal.deletion import DELETED
from runtime.threads.step import Superseded
from runtime.threads.turns.turn import LIVING, QUEUED, RUNNING, WAITING, ClaimedTurn, ThreadBusy

REPAIRED: Final = 500
"""Threads that one transaction repairs."""

_COLUMNS: Final = ("turn_id", "user_id", "thread_id", "kind", "arrived_at", "active")


class NoThread(Retry):
    """The thread of a turn was deleted before the turn could enter it; the next attempt may find another."""


class ThreadHold(NamedTuple):
    """The place of a turn on its thread. `active`: it has the thread; else it waits, unless it is `parked`."""

    thread_id: str
    active: bool
    parked: bool = False


class Entry(NamedTuple):
    """A running turn that enters a thread, at `now` (Unix milliseconds)."""

    turn: ClaimedTurn
    thread_id: str
    now: int


class Arrival(NamedTuple):
    """A turn that belongs to a thread from its arrival, in the order of the fields of the table."""

    turn_id: str
    user_id: str
    thread_id: str
    kind: str
    arrived_at: int


class ThreadOrder:
    """Lets the running turns of one database enter threads."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._entering = Stage(stage_ranks.ENTER, enter, threads=_threads_to_enter)

    async def enter(self, turn: ClaimedTurn, thread_id: str) -> None:
        """Make `turn`, which runs, the active one of the thread; any attempt may repeat it.

        Raises `ThreadBusy` if it has to wait, with which its attempt must end; `NoThread`, `Superseded`,
        `Unavailable`.
        """
        entry = Entry(turn, thread_id, milliseconds(self._clock))
        if not await self._database.commits.store(self._entering, entry):
            raise ThreadBusy(thread_id)


def enter(connection: Connection, entries: Sequence[Entry]) -> list[bool | Exception]:
    """Enter these turns into their threads, and the runs too. True for each that is active now, False for one that has
    to wait, else `NoThread` or `Superseded`.

    A turn that entered another thread before, because its agent was changed since, leaves that. One that was parked
    waits again, before those that arrived after it.
    """
    before = _holds(connection, [entry.turn.id for entry in entries])
    existing = lock(connection, {entry.thread_id for entry in entries} | {held.thread_id for held in before.values()})
    current = _current(connection, entries)
    valid = [e for e in entries if e.turn.id in current and e.thread_id in existing]
    now = max(entry.now for entry in entries)
    held = _holds(connection, [entry.turn.id for entry in valid])
    moved = [e.turn.id for e in valid if e.turn.id in held and held[e.turn.id].thread_id != e.thread_id]
    leave(connection, moved, held, now)
    back = [(e.turn.id, False) for e in valid if e.turn.id in held and held[e.turn.id].parked]
    bulk.update(connection, thread_turns, ("turn_id",), ("parked",), back)
    new = [entry for entry in valid if entry.turn.id not in held or entry.turn.id in moved]
    wait(connection, [_arrival(entry) for entry in new])
    bulk.update(connection, runs, ("id",), ("thread_id",), [(entry.turn.run_id, entry.thread_id) for entry in new])
    settle(connection, {entry.thread_id for entry in valid}, now)
    held = _holds(connection, [entry.turn.id for entry in valid])
    answers: list[bool | Exception] = []
    for entry in entries:
        if entry.turn.id not in current:
            answers.append(Superseded(f"run {entry.turn.run_id} continues elsewhere"))
        elif entry.thread_id not in existing:
            answers.append(NoThread(f"the thread {entry.thread_id} was deleted"))
        else:
            answers.append(held[entry.turn.id].active)
    return answers


def lock(connection: Connection, thread_ids: Collection[str]) -> set[str]:
    """Lock these threads until the end of the transaction; return those that exist."""
    # The weaker of the two locks for an update: runs refer to threads, and may be inserted meanwhile.
    keys = [(each,) for each in sorted(thread_ids)]
    found = bulk.find(connection, threads, ("id",), ("kind",), keys, lock="NO KEY UPDATE")
    return {row[0] for row in found if row[1] != DELETED}


def threads_of(connection: Connection, turn_ids: Sequence[str]) -> set[str]:
    """Return the ids of the threads that these turns are in."""
    return {held.thread_id for held in _holds(connection, turn_ids).values()}


def lock_threads_of(connection: Connection, turn_ids: Sequence[str]) -> dict[str, ThreadHold]:
    """Lock the threads that these turns are in; return the place of each turn that is in one."""
    before = _holds(connection, turn_ids)
    if not before:
        return {}
    lock(connection, {held.thread_id for held in before.values()})
    return _holds(connection, list(before))


def arrivals_at_end(connection: Connection, arrivals: Sequence[Arrival]) -> list[Arrival]:
    """Return these arrivals with times after those of all turns that wait for their locked threads, in the given order:
    the clocks of daemons differ, and a clock may be set back."""
    newest: dict[str, int] = {}
    for thread_id in sorted({each.thread_id for each in arrivals}):
        found = connection.execute(_NEWEST, {"thread_id": thread_id, "active": False}).scalar()
        newest[thread_id] = -1 if found is None else found
    placed: list[Arrival] = []
    for each in arrivals:
        at = max(each.arrived_at, newest[each.thread_id] + 1)
        newest[each.thread_id] = at
        placed.append(each._replace(arrived_at=at))
    return placed


def wait(connection: Connection, arrivals: Sequence[Arrival]) -> None:
    """Add turns to their threads, which are locked, as waiting ones."""
    bulk.insert(connection, thread_turns, _COLUMNS, [(*arrival, False) for arrival in arrivals], ignore=True)


def leave(connection: Connection, turn_ids: Iterable[str], held: dict[str, ThreadHold], now: int) -> bool:
    """Remove turns that have ended, or will be deleted, from their locked threads, and queue the next turn of each.
    True if one was queued.

    `held`: their places, from `lock_threads_of`; turns that are in no thread are ignored.
    """
    going = [turn_id for turn_id in turn_ids if turn_id in held]
    bulk.delete(connection, thread_turns, "turn_id", going)
    return settle(connection, {held[turn_id].thread_id for turn_id in going}, now)


def park(connection: Connection, turn_ids: Iterable[str], held: dict[str, ThreadHold], now: int) -> bool:
    """Let the locked threads of these turns go on without them until they enter again, and queue the next turn of each.
    True if one was queued. `held`: as of `leave`."""
    going = [turn_id for turn_id in turn_ids if turn_id in held]
    rows = [(turn_id, False, True) for turn_id in going]
    bulk.update(connection, thread_turns, ("turn_id",), ("active", "parked"), rows)
    return settle(connection, {held[turn_id].thread_id for turn_id in going}, now)


def settle(connection: Connection, thread_ids: Collection[str], now: int) -> bool:
    """Make the first living turn of each of these locked threads the active one, if none is. True if one was queued.

    Turns that ended or were deleted without leaving are removed, so that they block nobody.
    """
    open_ = set(thread_ids)
    queued = False
    while open_:
        rows = bulk.find(
            connection,
            thread_turns,
            ("thread_id", "active"),
            ("turn_id", "kind"),
            [(each, True) for each in sorted(open_)],
        )
        chosen = {row[0]: (row[2], row[3]) for row in rows}
        waiting = [
            (thread_id, row.turn_id, row.kind)
            for thread_id in sorted(open_ - set(chosen))
            if (row := connection.execute(_FIRST, {"thread_id": thread_id, "active": False}).first()) is not None
        ]
        chosen |= {thread_id: (turn_id, kind) for thread_id, turn_id, kind in waiting}
        states = _states(connection, list(chosen.values()))
        dead = [turn_id for turn_id, _ in chosen.values() if states.get(turn_id) not in LIVING]
        bulk.delete(connection, thread_turns, "turn_id", dead)
        bulk.update(connection, thread_turns, ("turn_id",), ("active",), [(each, True) for _, each, _ in waiting])
        free = [(turn_id, kind) for turn_id, kind in chosen.values() if states.get(turn_id) == WAITING]
        _queue(connection, free, now)
        queued = queued or bool(free)
        # The next round is for those whose first turn was removed.
        open_ = {thread_id for thread_id, (turn_id, _) in chosen.items() if turn_id in dead}
    return queued


def repair(connection: Connection, kind: str, now: int, limit: int = REPAIRED) -> int:
    """Queue turns of this kind that wait without being in a thread, and settle up to `limit` threads whose active turn
    ended without leaving it, or that have none. Returns how many threads were settled."""
    table = TURN_TABLES[kind].name
    given = {"now": now, "kind": kind, "limit": limit, "yes": True, "no": False}
    connection.execute(text(_ASTRAY.format(table=table)), given)
    broken = list(connection.execute(text(_BLOCKED.format(table=table)), given).scalars())
    lock(connection, broken)
    settle(connection, broken, now)
    return len(broken)


_FIRST = text("""
    SELECT turn_id, kind FROM thread_turns WHERE thread_id = :thread_id AND active = :active AND NOT parked
    ORDER BY arrived_at, turn_id LIMIT 1
""")

_NEWEST = text("SELECT max(arrived_at) FROM thread_turns WHERE thread_id = :thread_id AND active = :active")

_ASTRAY: Final = """
    UPDATE {table} SET state = 'queued', next_attempt_at = :now WHERE state = 'waiting'
    AND NOT EXISTS (SELECT 1 FROM thread_turns WHERE turn_id = {table}.id)
"""

# Both are small: turns that have ended are in no thread.
_BLOCKED: Final = """
    SELECT DISTINCT thread_id FROM thread_turns WHERE kind = :kind AND (
        active = :yes AND NOT EXISTS (
            SELECT 1 FROM {table} WHERE id = turn_id AND state IN ('queued', 'running')
        ) OR active = :no AND NOT parked AND NOT EXISTS (
            SELECT 1 FROM thread_turns AS others
            WHERE others.thread_id = thread_turns.thread_id AND others.active = :yes
        )
    ) LIMIT :limit
"""


def _queue(connection: Connection, turns: Iterable[tuple[str, str]], now: int) -> None:
    """Queue those of these turns, each an id and a kind, that are `waiting`."""
    for table, ids in _by_table(turns):
        rows = [(turn_id, WAITING, QUEUED, now) for turn_id in sorted(ids)]
        bulk.update(connection, table, ("id", "state"), ("state", "next_attempt_at"), rows)


def _threads_to_enter(connection: Connection, entries: Sequence[Entry]) -> set[str]:
    return threads_of(connection, [each.turn.id for each in entries]) | {each.thread_id for each in entries}


def _arrival(entry: Entry) -> Arrival:
    turn = entry.turn
    return Arrival(turn.id, turn.user_id, entry.thread_id, turn.trigger, turn.arrived_at)


def _holds(connection: Connection, turn_ids: Sequence[str]) -> dict[str, ThreadHold]:
    keys = [(each,) for each in turn_ids]
    rows = bulk.find(connection, thread_turns, ("turn_id",), ("thread_id", "active", "parked"), keys)
    return {row[0]: ThreadHold(row[1], bool(row[2]), bool(row[3])) for row in rows}


def _current(connection: Connection, entries: Sequence[Entry]) -> set[str]:
    """Return the ids of the turns whose attempt is the current one; their rows are locked."""
    current = set()
    attempts = {entry.turn.id: entry.turn.attempt for entry in entries}
    for table, ids in _by_table((entry.turn.id, entry.turn.trigger) for entry in entries):
        keys = [(each,) for each in sorted(ids)]
        rows = bulk.find(connection, table, ("id",), ("attempt", "state"), keys, lock="UPDATE")
        current |= {row[0] for row in rows if (row[1], row[2]) == (attempts[row[0]], RUNNING)}
    return current


def _states(connection: Connection, turns: Sequence[tuple[str, str]]) -> dict[str, str]:
    states: dict[str, str] = {}
    for table, ids in _by_table(turns):
        rows = bulk.find(connection, table, ("id",), ("state",), [(each,) for each in sorted(ids)])
        states |= {row[0]: row[1] for row in rows}
    return states


def _by_table(turns: Iterable[tuple[str, str]]) -> list[tuple[Table, list[str]]]:
    """Return these turns, each an id and a kind, by their table; always in the same order."""
    found: dict[str, list[str]] = defaultdict(list)
    for turn_id, kind in turns:
        found[kind].append(turn_id)
    return sorted(((TURN_TABLES[kind], ids) for kind, ids in found.items()), key=lambda pair: pair[0].name)
