"""Counters, histograms and gauges as plain numbers.

Those of prometheus-client take a lock and look up labels at each step, which is too slow for every delivery. These are
changed only in the event loop; a scrape in another thread copies each collection in one step.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import accumulate
from typing import Final

OTHER: Final = "other"
"""Counts values that are not in the table. This should not happen, and adds no further series."""


class Counter:
    """Counts by one label with a fixed set of values, so that requests cannot add series."""

    __slots__ = ("help", "label", "name", "values")

    def __init__(self, name: str, help: str, label: str, values: Iterable[str]) -> None:  # noqa: A002 - its name there
        self.name = name
        self.help = help
        self.label = label
        self.values = dict.fromkeys((*values, OTHER), 0)

    def also(self, values: Iterable[str]) -> None:
        """Add values to the set."""
        for value in values:
            self.values.setdefault(value, 0)

    def add(self, value: str) -> None:
        """Increment the count of `value`."""
        self.values[value if value in self.values else OTHER] += 1


class PairCounter:
    """Counts by two labels. The first has a value for each name that the program gives; those of the second are
    fixed. A request cannot add series."""

    __slots__ = ("counts", "fixed", "help", "labels", "name")

    def __init__(self, name: str, help: str, labels: tuple[str, str], fixed: tuple[str, ...]) -> None:  # noqa: A002
        """`fixed`: the values of the second label."""
        self.name = name
        self.help = help
        self.labels = labels
        self.fixed = fixed
        self.counts: dict[str, dict[str, float]] = {}

    def add(self, first: str, second: str, number: float = 1) -> None:
        """Add `number` to the count of a pair."""
        counts = self.counts.get(first)
        if counts is None:
            counts = self.counts[first] = dict.fromkeys(self.fixed, 0)
        counts[second] += number

    def values(self) -> list[tuple[str, str, float]]:
        """Return both labels and the count of each series."""
        counts = [(first, dict(each)) for first, each in list(self.counts.items())]
        return [(first, second, count) for first, each in counts for second, count in each.items()]


class Histogram:
    """Counts values in buckets; a bucket contains values up to and including its bound."""

    __slots__ = ("bounds", "counts", "help", "name", "total")

    def __init__(self, name: str, help: str, bounds: tuple[float, ...]) -> None:  # noqa: A002
        """`bounds`: ascending, in the unit with which the name ends."""
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
        """Return for each bound the number of values not above it, then the total number."""
        return list(accumulate(list(self.counts)))


class Gauge:
    """A value that is read at each scrape. `ask` returns a number, a number for each value of `label`, or None if it is
    unknown at present; a gauge without `ask` is not shown."""

    __slots__ = ("ask", "help", "label", "name")

    def __init__(self, name: str, help: str, label: str | None = None) -> None:  # noqa: A002
        self.name = name
        self.help = help
        self.label = label
        self.ask: Callable[[], float | Mapping[str, float] | None] = lambda: None


class DeliveryCounter:
    """Counts by webhook and verdict.

    A webhook has series while it is declared; webhooks created through the API share `shared`. Until its first request
    a webhook has only the series of the first verdict and uses no memory, because a program may declare thousands.
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
        """Set the declared webhooks; the series of others are removed. The collection must not change afterwards."""
        self._webhooks = webhooks
        for name in [name for name in self._counts if name != self.shared and name not in webhooks]:
            del self._counts[name]

    def add(self, webhook: str, verdict: str) -> None:
        """Count a request for `webhook`. Not counted if a reload has removed the webhook in the meantime."""
        counts = self._counts.get(webhook)
        if counts is None:
            if webhook != self.shared and webhook not in self._webhooks:
                return
            counts = self._counts[webhook] = dict.fromkeys(self.verdicts, 0)
        counts[verdict] += 1

    def values(self) -> list[tuple[str, str, int]]:
        """Return webhook, verdict and count of each series."""
        counts = {webhook: dict(each) for webhook, each in list(self._counts.items())}
        nothing = {self.verdicts[0]: 0}
        webhooks = (self.shared, *self._webhooks)
        return [(name, verdict, count) for name in webhooks for verdict, count in counts.get(name, nothing).items()]
