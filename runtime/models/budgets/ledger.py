"""Stored amounts that count against limits: totals of each day, reservations of calls, and runs that began.

All writes are items of one stage, which locks the totals of its transaction together, in the order of their keys: so no
two daemons exceed a limit together, and none waits for another in a circle.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, func, select, tuple_

from runtime.database import bulk
from runtime.database.bulk import Statement
from runtime.database.group_commit import PlainWrites, Stage
from runtime.database.schema import reservations, runs, usage, usage_totals
from runtime.models.budgets.limits import (
    HOUR_MS,
    Amount,
    BudgetExceeded,
    LimitName,
    Limits,
    Total,
    day_of,
    exceeded_error,
    too_large_error,
)

USAGE_COLUMNS: Final = (
    *("id", "user_id", "agent", "thread_id", "run_id", "purpose", "model", "service_model"),
    *("tokens_in", "tokens_out", "cached", "cost", "duration", "outcome", "created_at"),
)
_TOTAL: Final = ("user_id", "agent", "day")
_RESERVED: Final = ("id", *_TOTAL, "tokens", "cost")

Key = tuple[str, str, int]
"""The key of a total and its day."""


class CallEnd(NamedTuple):
    """A call that ended, or is known not to have begun. `row`: of the table `usage`; None: nothing was called.
    `again`: the row may be stored already. `reservation`: of the call, with what it used until then."""

    row: tuple[Any, ...] | None
    totals: tuple[Total, ...] = ()
    day: int = 0
    used: Amount = Amount()
    reservation: str | None = None
    again: bool = False


class CallStart(NamedTuple):
    """A call that is about to begin, at `now` (Unix milliseconds). `most`: what it may use."""

    id: str
    limits: Mapping[Total, Limits]
    most: Amount
    now: int


class RunStart(NamedTuple):
    """A run, by its id, that is about to begin, or goes on. `calls`: it calls models, whose limits must not be used
    up."""

    id: str
    limits: Mapping[Total, Limits]
    now: int
    calls: bool


class BudgetBusy(NamedTuple):
    """Not granted: only what calls that have not ended may use is too much. They may use less."""

    error: BudgetExceeded


class Grant(NamedTuple):
    """A call may begin. `shares`: what each of its totals has used or reserved of its limits per day, from 0 to 1."""

    shares: Mapping[Total, float]


Item = CallEnd | CallStart | RunStart
Answer = Grant | BudgetBusy | None
"""None: done, or the run may begin."""


def _apply(connection: Connection, items: Sequence[Item]) -> list[Answer | Exception]:
    counted = _lock_runs(connection, [each.id for each in items if isinstance(each, RunStart)])
    ended = _insert(connection, [each for each in items if isinstance(each, CallEnd)])
    over = {each.reservation for each in ended}
    # A call that was cancelled meanwhile is in the same transaction as its end, and reserves nothing.
    asked = [each for each in items if not isinstance(each, CallEnd) and each.id not in over]
    # Keys that are only asked for are locked too.
    _add(connection, _changes(ended), {key for each in asked for key in _keys(each)})
    bulk.delete(connection, reservations, "id", _reservations(ended))
    if not asked:
        return [None] * len(items)
    book = _Ledger(connection, asked, counted)
    answers: list[Answer | Exception] = [
        None if isinstance(each, CallEnd) or each.id in over else book.decide(each) for each in items
    ]
    book.store()
    return answers


def _plain_writes(items: Sequence[Item]) -> PlainWrites[Answer] | None:
    """Return the rows of calls that had no reservation as plain statements."""
    ended = [each for each in items if isinstance(each, CallEnd) and each.row and not (each.again or each.reservation)]
    if len(ended) < len(items):
        return None
    rows = [each.row for each in ended if each.row is not None]
    statements = bulk.insert_statements("sqlite", usage, USAGE_COLUMNS, rows)
    return PlainWrites([*statements, *_add_statements("sqlite", _changes(ended))], [None] * len(ended))


LEDGER: Final[Stage[Item, Answer]] = Stage(10, _apply, _plain_writes)


class _Ledger:
    """The totals, reservations and runs that items ask for, as they are under the locks."""

    def __init__(self, connection: Connection, asked: Sequence[CallStart | RunStart], counted: set[str]) -> None:
        """`counted`: runs that were counted before."""
        self._connection = connection
        self._counted = counted
        self._runs_begun: list[tuple[str, int]] = []
        self._reservations_made: list[tuple[Any, ...]] = []
        keys = sorted({key for each in asked for key in _keys(each)})
        self._used = used_amounts(connection, keys)
        self._reserved = reserved_amounts(connection, keys)
        self._runs: Counter[tuple[Total, int]] = Counter()
        for each in asked:
            if isinstance(each, RunStart):
                self._count_runs(each)

    def _count_runs(self, item: RunStart) -> None:
        hour = item.now // HOUR_MS
        for total, limits in item.limits.items():
            if limits.runs_per_hour is not None and (total, hour) not in self._runs:
                self._runs[total, hour] = runs_in(self._connection, total, hour)

    def decide(self, item: CallStart | RunStart) -> Answer | BudgetExceeded:
        """Grant an item, or say why not."""
        return self._reserve(item) if isinstance(item, CallStart) else self._begin(item)

    def _reserve(self, item: CallStart) -> Answer | BudgetExceeded:
        busy: BudgetBusy | None = None
        for total, limits in item.limits.items():
            key = (*total, day_of(item.now))
            for name, most, done, held in zip(_DAILY, item.most, self._used[key], self._reserved[key], strict=True):
                limit = getattr(limits, name)
                if limit is None or done + held + most <= limit:
                    continue
                if most > limit:
                    return too_large_error(total, limits, name, item.most, item.now)
                error = exceeded_error(total, limits, name, item.now)
                if done + most > limit:
                    return error
                busy = BudgetBusy(error)
        return busy or self._grant(item)

    def _grant(self, item: CallStart) -> Grant:
        shares = {}
        for total, limits in item.limits.items():
            key = (*total, day_of(item.now))
            self._reserved[key] = self._reserved[key].plus(item.most)
            self._reservations_made.append((item.id, *key, *item.most))
            counted = zip(limits, self._used[key].plus(self._reserved[key]), strict=False)
            shares[total] = max(number / limit for limit, number in counted if limit is not None)
        return Grant(shares)

    def _begin(self, item: RunStart) -> BudgetExceeded | None:
        hour = item.now // HOUR_MS
        for total, limits in item.limits.items():
            if item.calls and (error := used_up_error(total, limits, self._used[*total, day_of(item.now)], item.now)):
                return error
            if limits.runs_per_hour is None or item.id in self._counted:
                continue
            if self._runs[total, hour] >= limits.runs_per_hour:
                return exceeded_error(total, limits, "runs_per_hour", item.now)
        limited = any(limits.runs_per_hour is not None for limits in item.limits.values())
        if limited and item.id not in self._counted:
            self._counted.add(item.id)
            self._runs_begun.append((item.id, item.now))
            self._runs.update((total, hour) for total in item.limits)
        return None

    def store(self) -> None:
        """Store what was granted."""
        bulk.insert(self._connection, reservations, _RESERVED, self._reservations_made)
        bulk.update(self._connection, runs, ("id",), ("begun_at",), self._runs_begun)


_DAILY: Final[tuple[LimitName, ...]] = ("tokens_per_day", "cost_per_day")


def used_up_error(total: Total, limits: Limits, used: Amount, now: int) -> BudgetExceeded | None:
    """Return the error of a total that allows no call any more at `now` (Unix milliseconds); None if it does."""
    for name, number in zip(_DAILY, used, strict=True):
        limit = getattr(limits, name)
        if limit is not None and number >= limit:
            return exceeded_error(total, limits, name, now)
    return None


def used_amounts(connection: Connection, keys: Sequence[Key]) -> defaultdict[Key, Amount]:
    """Return the amounts that ended calls used, by total and day."""
    found = bulk.find(connection, usage_totals, _TOTAL, ("tokens", "cost"), keys)
    return defaultdict(Amount, {(row[0], row[1], row[2]): Amount(*row[3:]) for row in found})


def reserved_amounts(connection: Connection, keys: Sequence[Key]) -> defaultdict[Key, Amount]:
    """Return the amounts that running calls may use, by total and day."""
    key = [reservations.c[name] for name in _TOTAL]
    sums = [func.sum(reservations.c[name]) for name in ("tokens", "cost")]
    query = select(*key, *sums).where(tuple_(*key).in_(keys)).group_by(*key)
    found = connection.execute(query) if keys else ()
    return defaultdict(Amount, {(row[0], row[1], row[2]): Amount(int(row[3]), int(row[4])) for row in found})


def runs_in(connection: Connection, total: Total, hour: int) -> int:
    """Return the number of runs of a total that were counted in an hour (hours since 1970)."""
    whose = runs.c.agent == total.agent if total.agent else runs.c.user_id == total.user_id
    within = runs.c.begun_at.between(hour * HOUR_MS, (hour + 1) * HOUR_MS - 1)
    return int(connection.execute(select(func.count()).where(whose, within)).scalar_one())


def _keys(item: CallStart | RunStart) -> Iterable[Key]:
    return ((*total, day_of(item.now)) for total in item.limits)


def _lock_runs(connection: Connection, run_ids: Sequence[str]) -> set[str]:
    """Lock these runs; return those that were counted before."""
    keys = [(each,) for each in sorted(set(run_ids))]
    found = bulk.find(connection, runs, ("id",), ("begun_at",), keys, lock="NO KEY UPDATE")
    return {row[0] for row in found if row[1] is not None}


def _insert(connection: Connection, ended: Sequence[CallEnd]) -> list[CallEnd]:
    """Insert the rows of these calls; return the calls whose end was not stored before."""
    new = [each for each in ended if not each.again]
    bulk.insert(connection, usage, USAGE_COLUMNS, [each.row for each in new if each.row is not None])

    def was_missing(row: tuple[Any, ...]) -> bool:
        return bulk.insert(connection, usage, USAGE_COLUMNS, [row], ignore=True) > 0

    return new + [each for each in ended if each.again and (each.row is None or was_missing(each.row))]


def _reservations(ended: Iterable[CallEnd]) -> list[str]:
    return [each.reservation for each in ended if each.reservation is not None]


def _changes(ended: Iterable[CallEnd]) -> dict[Key, Amount]:
    changes: defaultdict[Key, Amount] = defaultdict(Amount)
    for each in ended:
        if any(each.used):
            for total in each.totals:
                changes[*total, each.day] = changes[*total, each.day].plus(each.used)
    return changes


def _add(connection: Connection, changes: Mapping[Key, Amount], locked: Iterable[Key]) -> None:
    for statement in _add_statements(connection.dialect.name, {**dict.fromkeys(locked, Amount()), **changes}):
        connection.exec_driver_sql(statement.sql, statement.parameters)


def _add_statements(dialect: str, changes: Mapping[Key, Amount]) -> list[Statement]:
    """Return the statements that add to totals, in the order of their keys, and make those that are missing."""
    rows = [(*key, *changes[key]) for key in sorted(changes)]
    return bulk.add_statements(dialect, usage_totals, _TOTAL, ("tokens", "cost"), rows)
