"""The state that all callers of one service share: its free slots and its availability."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary, finalize

from runtime.clock import SYSTEM, Clock
from runtime.database.errors import Unavailable
from runtime.errors import Retry
from runtime.models.budgets.limits import BudgetExceeded
from runtime.outbound.http import CallFailed, passes

FAILURES: Final = 3
"""Number of consecutive failed calls after which a service is away; one is enough if it did not answer at all and a
search waits for it (`Service.impatient`)."""
AWAY_SECONDS: Final = 10.0
"""Seconds for which a service that is away is not called; doubled each time it is still away."""
LONGEST_AWAY_SECONDS: Final = 30.0
RECENT_SECONDS: Final = 2 * LONGEST_AWAY_SECONDS
"""Seconds for which a failed call says that a service fails: runs that wait for it try again within half of them."""


class ServiceAway(Retry):
    """The service is not called, because it failed before. The message is that of the last failure, and `retry_after`
    the seconds until it is called again."""

    def __init__(self, message: str, *, hint: str | None = None, retry_after: float) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class Service:
    """One model of a service with one key. One event loop uses it.

    At most `slots` calls run at once; the others wait in order. After `FAILURES` failed calls in a row it is away:
    calls fail at once, until one of them, the probe, is let through and succeeds.
    """

    def __init__(self, slots: int, clock: Clock = SYSTEM, *, impatient: bool = False) -> None:
        """`impatient`: searches wait for it. One of the slots is for urgent calls, and one call without an answer is
        enough to be away."""
        self.impatient = impatient
        self._labels: Counter[str] = Counter()
        self.refused: str | None = None
        """The reason for which it refused the last call and refuses every other, in one line; None if it does not."""
        self.waiting = 0
        """Number of callers that wait for a slot."""
        self._clock = clock
        self._slots = asyncio.Semaphore(slots)
        self._patient = asyncio.Semaphore(max(1, slots - 1) if impatient else slots)
        self._failures = 0
        self._last: tuple[str, str | None] | None = None
        """Message and hint of the failure that took it away. Not the error, whose traceback holds the request."""
        self._latest: tuple[float, str] | None = None
        """The time of the last failure, by the monotonic clock, and its reason."""
        self._away_until = 0.0
        self._away_for = 0.0
        self._probing = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The names under which it is used. May be read in another thread."""
        return tuple(self._labels)

    def add_label(self, user: object, label: str) -> None:
        """Show it in metrics as `label` for as long as `user` exists."""
        self._labels[label] += 1
        finalize(user, self._forget, label).atexit = False

    def _forget(self, label: str) -> None:
        self._labels[label] -= 1
        if not self._labels[label]:
            del self._labels[label]

    @property
    def is_away(self) -> bool:
        """True after failed calls, until one succeeds or none was made for a while, so that nothing is known."""
        return self._last is not None and self._clock.monotonic() < self._away_until + LONGEST_AWAY_SECONDS

    @property
    def failure(self) -> str | None:
        """Return the failure of its last call in one line; None if it was answered, or is too long ago to matter."""
        if self._latest is None:
            return None
        at, line = self._latest
        return line if self.is_away or self._clock.monotonic() < at + RECENT_SECONDS else None

    @asynccontextmanager
    async def slot(self, *, urgent: bool = False) -> AsyncIterator[None]:
        """Wait for a slot and keep it while inside; how that ends tells whether the service is away.

        Raises ServiceAway at once if it is, also after waiting.
        """
        self._check()
        async with AsyncExitStack() as slots:
            self.waiting += 1
            try:
                if not urgent:
                    await slots.enter_async_context(self._patient)
                await slots.enter_async_context(self._slots)
            finally:
                self.waiting -= 1
            self._check()
            probing = self._probing = self._last is not None
            try:
                yield
            except (asyncio.CancelledError, GeneratorExit, BudgetExceeded, Unavailable):
                # Nothing was learnt about the service.
                raise
            except Retry as failure:
                if passes(failure):
                    self._note_failure(failure)
                else:
                    self.note_answer()
                raise
            except Exception:
                # Any answer, also a refusal, shows that it is there.
                self.note_answer()
                raise
            else:
                self.note_answer()
            finally:
                if probing:
                    self._probing = False

    def _check(self) -> None:
        """Raise ServiceAway, unless the service is there or a probe is due."""
        if self._last is None:
            return
        left = self._away_until - self._clock.monotonic()
        if left > 0 or self._probing:
            message, hint = self._last
            raise ServiceAway(message, hint=hint, retry_after=max(left, 1.0))

    def note_answer(self) -> None:
        """Note that the service is there, and refuses no calls."""
        self._failures, self._last, self._latest, self._away_for, self.refused = 0, None, None, 0.0, None

    def _note_failure(self, failure: Retry) -> None:
        self._failures += 1
        self._latest = self._clock.monotonic(), failure.line()
        silent = self.impatient and isinstance(failure, CallFailed) and failure.status is None
        if self._failures < FAILURES and not silent and self._last is None:
            return
        self._last = str(failure), failure.hint
        if self._clock.monotonic() < self._away_until:
            return  # one of several calls that were running when it went away
        self._away_for = min(max(AWAY_SECONDS, 2 * self._away_for), LONGEST_AWAY_SECONDS)
        self._away_until = self._clock.monotonic() + max(
            self._away_for, min(failure.retry_after or 0.0, LONGEST_AWAY_SECONDS)
        )


class Services:
    """The services in use, by what they physically are. A service that nothing uses any more is forgotten."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._known: WeakValueDictionary[Hashable, Service] = WeakValueDictionary()

    def of(self, identity: Hashable, slots: int, *, impatient: bool = False) -> Service:
        """Return the service with this `identity` (kind, address, model, key); the first call determines the rest."""
        service = self._known.get(identity)
        if service is None:
            service = self._known[identity] = Service(slots, self._clock, impatient=impatient)
        return service

    def waiting(self) -> dict[str, float]:
        """Return the number of callers that wait, by label. May be called in another thread, as `available`."""
        found: dict[str, float] = {}
        for label, service in self._by_label():
            found[label] = found.get(label, 0) + service.waiting
        return found

    def available(self) -> dict[str, float]:
        """Return 0 for each label of a service that is away, 1 for the others."""
        found: dict[str, float] = {}
        for label, service in self._by_label():
            found[label] = min(found.get(label, 1), 0 if service.is_away else 1)
        return found

    def _by_label(self) -> Iterator[tuple[str, Service]]:
        for reference in self._known.valuerefs():
            if (service := reference()) is not None:
                for label in service.labels:
                    yield label, service
