"""Which diagnostics a report shows, and how many there are in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from dslc.diagnostics.diagnostic import Diagnostic, Severity

MOST_IN_A_FILE = 100


def shown(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The first 100 of every file; the rest are only counted."""
    seen: Counter[str] = Counter()
    kept = []
    for diagnostic in diagnostics:
        seen[diagnostic.file] += 1
        if seen[diagnostic.file] <= MOST_IN_A_FILE:
            kept.append(diagnostic)
    return kept


def rest(diagnostics: Sequence[Diagnostic]) -> list[str]:
    """A line about those that `shown` leaves out, if there are any."""
    hidden = len(diagnostics) - len(shown(diagnostics))
    return [f"and {hidden} more, not shown: at most {MOST_IN_A_FILE} a file are"] if hidden else []


def count(diagnostics: Iterable[Diagnostic], severity: Severity) -> int:
    """How many there are of one severity."""
    return sum(diagnostic.severity is severity for diagnostic in diagnostics)
