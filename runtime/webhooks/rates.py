"""How many deliveries a minute: counted where they are stored, in the same transaction, for all daemons together.

A rate's row holds how many were accepted in each of the last seconds. What is counted stays counted for sixty whole
seconds, so there is no span of sixty seconds in which more than the quota is accepted, wherever it begins; two
counters with a weight, and a bucket that refills, both let nearly twice as many through. Only what is accepted counts:
who is refused may come again, and a sender's repeat of a delivery is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
from sqlalchemy import Connection

from runtime.database import bulk
from runtime.database.schema import rates
from runtime.webhooks.delivery import Candidate, Quota

WINDOW: Final = 60
"""Seconds. A second is counted until so many whole ones have passed since it ended."""

Key = tuple[str, str, str]
"""User, scope, name: the primary key of a row."""

_KEY = ("user_id", "scope", "name")
_STATE = ("newest", "counts")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[int]).decode


class Limit(NamedTuple):
    """At most `quota` deliveries a minute under `key`."""

    key: Key
    quota: int


class Window:
    """Deliveries by second: the last of `counts` is that of `newest` (Unix seconds), at most `WINDOW` + 1 of them."""

    __slots__ = ("counts", "newest", "used")

    def __init__(self, newest: int, counts: list[int]) -> None:
        self.newest = newest
        self.counts = counts
        self.used = sum(counts)

    @classmethod
    def stored(cls, newest: int, counts: str) -> Window:
        """The window of a row."""
        return cls(newest, _decode(counts))

    def state(self) -> tuple[int, str]:
        """The row's values."""
        return self.newest, _encode(self.counts).decode()

    def turn(self, now: int) -> None:
        """Go on to the time `now` (Unix milliseconds).

        A clock that is behind, another daemon's or one that was set back a little, counts into the newest second; one
        that was set back by more keeps what was counted, as of now. Neither opens the limit, nor closes it for longer
        than two minutes.
        """
        second = now // 1000
        ahead = second - self.newest
        if ahead > 0:
            self.counts = [*self.counts, *[0] * ahead][-WINDOW - 1 :] if ahead <= WINDOW else []
            self.used = sum(self.counts)
        if ahead > 0 or ahead < -WINDOW:
            self.newest = second

    def add(self) -> None:
        """Count one now."""
        if self.counts:
            self.counts[-1] += 1
        else:
            self.counts = [1]
        self.used += 1

    def wait(self, now: int, quota: int) -> int:
        """Whole seconds from `now` until fewer than `quota` are counted; 0 when that is so now."""
        return self._until_at_most(quota - 1, now)

    def more_in(self, now: int) -> int:
        """Whole seconds from `now` until the oldest that is counted is not any more; 0 when none is."""
        return self._until_at_most(self.used - 1, now) if self.used else 0

    def _until_at_most(self, count: int, now: int) -> int:
        left, place = self.used, 0
        while left > count:
            left -= self.counts[place]
            place += 1
        return self._seconds_until_gone(len(self.counts) - place, now) if place else 0

    def _seconds_until_gone(self, age: int, now: int) -> int:
        gone = (self.newest - age + WINDOW + 1) * 1000
        return max(1, -((now - gone) // 1000))


def limits_of(candidate: Candidate) -> tuple[Limit, ...]:
    """The limits that `candidate` comes under; nothing for most."""
    if candidate.per_minute is None and candidate.user_per_minute is None:
        return ()
    limits = []
    if candidate.per_minute is not None:
        limits.append(Limit((candidate.user_id, "webhook", candidate.webhook), candidate.per_minute))
    if candidate.user_per_minute is not None:
        limits.append(Limit((candidate.user_id, "user", ""), candidate.user_per_minute))
    return tuple(limits)


class Rates:
    """The windows of one transaction: taken from, and then written back, or thrown away with it."""

    def __init__(self, windows: Mapping[Key, Window]) -> None:
        self._windows = windows
        self._before = {key: window.state() for key, window in windows.items()}

    @classmethod
    def locked(cls, connection: Connection, keys: Iterable[Key], now: int) -> Rates:
        """The rows of `keys`, made when they are missing; in the order of the keys, so that no two daemons wait for
        each other. They are this transaction's until its end."""
        wanted = sorted(set(keys))
        found = bulk.find(connection, rates, _KEY, _STATE, wanted, lock="UPDATE")
        if len(found) < len(wanted):
            missing = sorted(set(wanted) - {(row[0], row[1], row[2]) for row in found})
            fresh = [(*key, now // 1000, "[]") for key in missing]
            bulk.insert(connection, rates, (*_KEY, *_STATE), fresh, ignore=True)
            found += bulk.find(connection, rates, _KEY, _STATE, missing, lock="UPDATE")
        return cls({(row[0], row[1], row[2]): Window.stored(row[3], row[4]) for row in found})

    @classmethod
    def known(cls, states: Mapping[Key, tuple[int, str]], keys: Iterable[Key]) -> Rates | None:
        """The same of `states` as they were last seen; None when one of `keys` was not."""
        windows = {}
        for key in keys:
            state = states.get(key)
            if state is None:
                return None
            if key not in windows:
                windows[key] = Window.stored(*state)
        return cls(windows)

    def copy(self) -> Rates:
        """Another one to try things on."""
        return Rates({key: Window(window.newest, list(window.counts)) for key, window in self._windows.items()})

    def take(self, limits: Sequence[Limit], now: int) -> tuple[int, tuple[Quota, ...]]:
        """Count one delivery under all `limits`, or under none: the seconds to wait before it would be, and how each
        limit stands."""
        windows = [self._windows[limit.key] for limit in limits]
        for window in windows:
            window.turn(now)
        waits = [window.wait(now, limit.quota) for window, limit in zip(windows, limits, strict=True)]
        if not any(waits):
            for window in windows:
                window.add()
        return max(waits), tuple(
            Quota(limit.key[1], limit.quota, max(0, limit.quota - window.used), wait or window.more_in(now))
            for window, limit, wait in zip(windows, limits, waits, strict=True)
        )

    def states(self) -> dict[Key, tuple[int, str]]:
        """What the rows are to be."""
        return {key: window.state() for key, window in self._windows.items()}

    def changes(self) -> list[tuple[Key, tuple[int, str], tuple[int, str]]]:
        """The keys of the windows that are not as they were, before and after, in the order of the keys."""
        after = self.states()
        return sorted((key, before, after[key]) for key, before in self._before.items() if before != after[key])

    def write(self, connection: Connection) -> None:
        """Write the rows that are not as they were."""
        bulk.update(connection, rates, _KEY, _STATE, [(*key, *after) for key, _, after in self.changes()])

    def writing(self) -> list[bulk.Statement]:
        """The same as SQLite's statements, which change nothing where a row is not as it was thought to be."""
        rows = [(*key, *before, *after) for key, before, after in self.changes()]
        return bulk.updating("sqlite", rates, (*_KEY, *_STATE), _STATE, rows)


def fields(quotas: Sequence[Quota], retry_after: int = 0) -> bytes:
    """Header lines that say how limits stand: `RateLimit-Policy` and `RateLimit`
    (draft-ietf-httpapi-ratelimit-headers-10: quota and window; what remains, and for how many seconds no more), and
    `Retry-After` (RFC 9110 section 10.2.3) for who has to wait."""
    if not quotas:
        return b""
    policy = _policy(tuple((quota.name, quota.quota) for quota in quotas))
    now = ", ".join([f'"{quota.name}";r={quota.remaining};t={quota.seconds}' for quota in quotas])
    retry = f"Retry-After: {retry_after}\r\n" if retry_after else ""
    return f"{retry}{policy}RateLimit: {now}\r\n".encode()


@lru_cache(maxsize=256)
def _policy(quotas: tuple[tuple[str, int], ...]) -> str:
    policies = ", ".join(f'"{name}";q={quota};w={WINDOW}' for name, quota in quotas)
    return f"RateLimit-Policy: {policies}\r\n"
