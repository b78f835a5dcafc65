"""Counters, histograms and gauges as plain numbers.

Those of prometheus-client take a lock and look labels up at each step, which for every delivery is too dear. These are
changed by the event loop alone, and read by whoever scrapes: what is read in one go is copied in one step.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import accumulate
from typing import Final

OTHER: Final = "other"
"""Where something is counted that is not in the table; it cannot happen, and makes no series when it does."""


class Counter:
    """Counts by one label, whose values are a fixed table: no request brings another one in."""

    __slots__ = ("help", "label", "name", "values")

    def __init__(self, name: str, help: str, label: str, values: Iterable[str]) -> None:  # noqa: A002 - its name there
        self.name = name
        self.help = help
        self.label = label
        self.values = dict.fromkeys((*values, OTHER), 0)

    def also(self, values: Iterable[str]) -> None:
        """These values belong to the table too."""
        for value in values:
            self.values.setdefault(value, 0)

    def add(self, value: str) -> None:
        """Count one of `value`."""
        self.values[value if value in self.values else OTHER] += 1


class Histogram:
    """Counts values by the smallest of `bounds` that each is not above."""

    __slots__ = ("bounds", "counts", "help", "name", "total")

    def __init__(self, name: str, help: str, bounds: tuple[float, ...]) -> None:  # noqa: A002
        """`bounds`: ascending, in the unit that the name ends with."""
        self.name = name
        self.help = help
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count `value`."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[int]:
        """For each bound how many values were not above it; at the end how many there were in all."""
        return list(accumulate(list(self.counts)))


class Gauge:
    """What is asked when somebody scrapes. `ask` returns a number, one for each value of `label`, or None when that
    is not known now; a gauge that nobody gave one is not shown."""

    __slots__ = ("ask", "help", "label", "name")

    def __init__(self, name: str, help: str, label: str | None = None) -> None:  # noqa: A002
        self.name = name
        self.help = help
        self.label = label
        self.ask: Callable[[], float | Mapping[str, float] | None] = lambda: None


class DeliveryCounter:
    """Counts by webhook and verdict.

    A webhook has series while it is declared; those that were made at run time share `shared`. Until something comes
    in for a webhook it has the series of the first verdict only, and nothing is kept of it: a program may declare
    thousands.
    """

    __slots__ = ("_counts", "_webhooks", "help", "labels", "name", "shared", "verdicts")

    def __init__(self, name: str, help: str, verdicts: tuple[str, ...], shared: str) -> None:  # noqa: A002
        self.name = name
        self.help = help
        self.labels = ("webhook", "verdict")
        self.verdicts = verdicts
        self.shared = shared
        self._counts: dict[str, dict[str, int]] = {}
        self._webhooks: Collection[str] = ()

    def declare(self, webhooks: Collection[str]) -> None:
        """These are the declared webhooks from now on; the series of others end. They must not change any more."""
        self._webhooks = webhooks
        for name in [name for name in self._counts if name != self.shared and name not in webhooks]:
            del self._counts[name]

    def add(self, webhook: str, verdict: str) -> None:
        """Count a request for `webhook`. One that a reload removed while its request was under way is not counted."""
        counts = self._counts.get(webhook)
        if counts is None:
            if webhook != self.shared and webhook not in self._webhooks:
                return
            counts = self._counts[webhook] = dict.fromkeys(self.verdicts, 0)
        counts[verdict] += 1

    def values(self) -> list[tuple[str, str, int]]:
        """Webhook, verdict and count of each series."""
        counts = {webhook: dict(each) for webhook, each in list(self._counts.items())}
        nothing = {self.verdicts[0]: 0}
        webhooks = (self.shared, *self._webhooks)
        return [(name, verdict, count) for name in webhooks for verdict, count in counts.get(name, nothing).items()]
