"""Number of calls of each tool since the process started."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class Counts:
    """Counts of a tool: `calls`, and how many of them failed."""

    calls: int = 0
    failures: int = 0


COUNTS: Final[defaultdict[str, defaultdict[str, Counts]]] = defaultdict(lambda: defaultdict(Counts))
"""Counts by the caller's user id and the tool's name."""


def counted_calls(user: str | None) -> dict[str, Counts]:
    """Return the calls of a user, or of all users, by the name of the tool; tools without a call are omitted."""
    found: defaultdict[str, Counts] = defaultdict(Counts)
    for by_tool in COUNTS.values() if user is None else [COUNTS[user]]:
        for name, each in by_tool.items():
            found[name].calls += each.calls
            found[name].failures += each.failures
    return dict(sorted(found.items()))
