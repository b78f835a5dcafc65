"""Number of calls of each tool since the process began."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class Counts:
    """`calls`, and how many of them failed."""

    calls: int = 0
    failures: int = 0


COUNTS: Final[defaultdict[str, defaultdict[str, Counts]]] = defaultdict(lambda: defaultdict(Counts))
"""Counts by the caller's user id and the tool's name."""


def counted_calls(user: str | None) -> dict[str, Counts]:
    """The calls of a user, or of everybody, by the name of the tool; one that was never called is not among them."""
    found: defaultdict[str, Counts] = defaultdict(Counts)
    for by_tool in COUNTS.values() if user is None else [COUNTS[user]]:
        for name, each in by_tool.items():
            found[name].calls += each.calls
            found[name].failures += each.failures
    return dict(sorted(found.items()))
