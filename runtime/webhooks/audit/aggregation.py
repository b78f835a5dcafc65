"""Aggregation of similar rejected requests into few rows, so that a flood costs a counter and not a disk."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple

from runtime.clock import Clock, milliseconds, uuid7
from runtime.webhooks.deliveries.delivery import RejectedRequest

MINUTE_MS: Final = 60_000
ONE_BY_ONE: Final = 20
"""Similar refusals of one minute from one source that get a row each; further ones are counted in the last row."""

PER_MINUTE: Final = 200
"""Rows of one minute for a webhook and reason; refusals from further sources are counted in one row without a
source."""

WAITING: Final = 4096
"""Rows that may wait to be written; beyond that, only rows that count others are added."""

AttemptGroup = tuple[str, str | None, str, str]
"""User, webhook, verdict and reason: each group has its own bound, so a flood of one does not displace others."""


def group_of(rejected: RejectedRequest) -> AttemptGroup:
    """Return the group of `rejected`."""
    return rejected.user_id, rejected.webhook, rejected.verdict, rejected.reason


class AttemptCount(NamedTuple):
    """A row to write: `rejected`, and how often it occurred until `at` (Unix milliseconds)."""

    rejected: RejectedRequest
    at: int
    times: int
    many: bool
    """True: from several sources; only what they have in common is recorded."""


class AttemptAggregator:
    """The requests recorded since the last `take`. Bounded by the number of webhooks, whatever arrives."""

    def __init__(self, clock: Clock, *, waiting: int = WAITING) -> None:
        self._clock = clock
        self._limit = waiting
        self._minute = 0
        self._current: dict[tuple[Any, ...], tuple[str, int]] = {}
        self._rows: Counter[AttemptGroup] = Counter()
        self._new: dict[str, AttemptCount] = {}
        self._more: dict[str, tuple[int, int]] = {}

    def put(self, rejected: RejectedRequest) -> None:
        """Record `rejected`: as a row of its own, or as one more in an earlier row."""
        now = milliseconds(self._clock)
        if now // MINUTE_MS != self._minute:
            self.forget()
            self._minute = now // MINUTE_MS
        group = group_of(rejected)
        alike: tuple[Any, ...] = (*group, rejected.source)
        row_id, seen = self._current.get(alike, ("", 0))
        if seen >= ONE_BY_ONE and rejected.verdict == "refused":
            return self._count(row_id, now)
        many = self._rows[group] >= PER_MINUTE or len(self._new) >= self._limit
        if many:
            alike = group
            row_id, seen = self._current.get(alike, ("", 0))
            if seen:
                return self._count(row_id, now)
        row_id = uuid7(self._clock)
        self._new[row_id] = AttemptCount(rejected, now, 1, many)
        self._current[alike] = (row_id, seen + 1)
        self._rows[group] += 1
        return None

    def _count(self, row_id: str, now: int) -> None:
        row = self._new.get(row_id)
        if row is not None:
            self._new[row_id] = row._replace(at=now, times=row.times + 1)
        else:
            self._more[row_id] = (self._more.get(row_id, (0, 0))[0] + 1, now)

    def take(self) -> tuple[dict[str, AttemptCount], dict[str, tuple[int, int]]]:
        """Return new rows by id; and for rows taken before, the additional count and the latest time."""
        taken = self._new, self._more
        self._new, self._more = {}, {}
        return taken

    def forget(self) -> None:
        """Start new rows: a minute is over, or the rows taken were not written."""
        self._current.clear()
        self._rows.clear()
