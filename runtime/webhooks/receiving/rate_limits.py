"""Limits of deliveries per minute: counted in the transaction that stores the deliveries, for all daemons together.

The row of a limit has the number of accepted deliveries in each of the last seconds. A second counts until sixty whole
seconds have passed after it, so no span of sixty seconds has more than the quota, and the whole quota may come at once.
Two weighted counters or a token bucket allow nearly twice as many. Only accepted deliveries count, neither refused ones
nor repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
from sqlalchemy import Connection

from runtime.database import bulk
from runtime.database.schema import rates
from runtime.webhooks.deliveries.delivery import Candidate, Quota

WINDOW: Final = 60
"""Seconds for which a second counts after it ended."""

Key = tuple[str, str, str]
"""User, scope, name: the primary key of a row."""

_KEY = ("user_id", "scope", "name")
_STATE = ("newest", "counts")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[int]).decode


class Limit(NamedTuple):
    """At most `quota` deliveries per minute under `key`."""

    key: Key
    quota: int


class Window:
    """Accepted deliveries by second: the last of `counts` is that of `newest` (Unix seconds), at most `WINDOW` + 1 of
    them."""

    __slots__ = ("counts", "newest")

    def __init__(self, newest: int, counts: list[int]) -> None:
        self.newest = newest
        self.counts = counts

    def advance(self, now: int) -> None:
        """Advance to the time `now` (Unix milliseconds).

        A clock that is slightly behind (another daemon's, or one that was set back a little) counts into the newest
        second. One that was set back further keeps the counts and moves them to now. Neither opens the limit, nor
        closes it for longer than two minutes.
        """
        second = now // 1000
        ahead = second - self.newest
        if ahead > 0:
            self.counts = [*self.counts, *[0] * min(ahead, WINDOW + 1)][-WINDOW - 1 :]
        if ahead > 0 or ahead < -WINDOW:
            self.newest = second

    def until_at_most(self, count: int, now: int) -> int:
        """Return the whole seconds from `now` until at most `count` deliveries count; 0 if that is true now."""
        left, gone = sum(self.counts), now
        for second, counted in enumerate(self.counts, self.newest - len(self.counts) + 1):
            if left <= count:
                break
            left, gone = left - counted, max(now + 1, (second + WINDOW + 1) * 1000)
        return -((now - gone) // 1000)


def limits_of(candidate: Candidate) -> tuple[Limit, ...]:
    """Return the limits that apply to `candidate`; empty for most."""
    if candidate.per_minute is None and candidate.user_per_minute is None:
        return ()
    limits = []
    if candidate.per_minute is not None:
        limits.append(Limit((candidate.user_id, "webhook", candidate.webhook), candidate.per_minute))
    if candidate.user_per_minute is not None:
        limits.append(Limit((candidate.user_id, "user", ""), candidate.user_per_minute))
    return tuple(limits)


class Rates:
    """The counters of one transaction: read with a lock, incremented, written back."""

    def __init__(self, windows: Mapping[Key, Window]) -> None:
        self._windows = windows

    @classmethod
    def lock(cls, connection: Connection, keys: Iterable[Key], now: int) -> Rates:
        """Read and lock the rows of `keys` until the end of the transaction; insert missing ones. In the order of the
        keys, so that daemons do not deadlock."""
        wanted = sorted(set(keys))
        found = bulk.find(connection, rates, _KEY, _STATE, wanted, lock="UPDATE")
        if len(found) < len(wanted):
            missing = sorted(set(wanted) - {row[:3] for row in found})
            bulk.insert(
                connection, rates, (*_KEY, *_STATE), [(*key, now // 1000, "[]") for key in missing], ignore=True
            )
            found += bulk.find(connection, rates, _KEY, _STATE, missing, lock="UPDATE")
        return cls({(row[0], row[1], row[2]): Window(row[3], _decode(row[4]) or [0]) for row in found})

    def take(self, limits: Sequence[Limit], now: int) -> tuple[int, tuple[Quota, ...]]:
        """Count one delivery under all `limits`, or under none. Returns the seconds to wait before it would be
        accepted, and the state of each limit."""
        windows = [self._windows[limit.key] for limit in limits]
        for window in windows:
            window.advance(now)
        waits = [window.until_at_most(limit.quota - 1, now) for window, limit in zip(windows, limits, strict=True)]
        if not any(waits):
            for window in windows:
                window.counts[-1] += 1
        return max(waits), tuple(_quota(*each, now) for each in zip(windows, limits, waits, strict=True))

    def write(self, connection: Connection) -> None:
        """Write the rows, in the order of their keys."""
        rows = [(*key, window.newest, _encode(window.counts).decode()) for key, window in sorted(self._windows.items())]
        bulk.update(connection, rates, _KEY, _STATE, rows)


def _quota(window: Window, limit: Limit, wait: int, now: int) -> Quota:
    used = sum(window.counts)
    more_in = wait or window.until_at_most(max(0, used - 1), now)
    return Quota(limit.key[1], limit.quota, max(0, limit.quota - used), more_in)


def header_lines(quotas: Sequence[Quota], retry_after: int = 0) -> bytes:
    """Return the header lines that describe limits: `RateLimit-Policy` and `RateLimit`
    (draft-ietf-httpapi-ratelimit-headers-10: quota and window; remaining count, and seconds until more) and, for a
    sender that has to wait, `Retry-After` (RFC 9110 section 10.2.3)."""
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
