"""Selection and counts of the diagnostics in a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from dslc.diagnostics.diagnostic import Diagnostic, Severity

MOST_IN_A_FILE = 100


def limit_per_file(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the first 100 diagnostics of every file; the others are only counted."""
    seen: Counter[str] = Counter()
    kept = []
    for diagnostic in diagnostics:
        seen[diagnostic.file] += 1
        if seen[diagnostic.file] <= MOST_IN_A_FILE:
            kept.append(diagnostic)
    return kept


def omission_note(diagnostics: Sequence[Diagnostic]) -> list[str]:
    """Line with the number of diagnostics that `limit_per_file` omits; empty list if there are none."""
    hidden = len(diagnostics) - len(limit_per_file(diagnostics))
    return [f"and {hidden} more, not shown (at most {MOST_IN_A_FILE} per file)"] if hidden else []


def count(diagnostics: Iterable[Diagnostic], severity: Severity) -> int:
    """Number of diagnostics of one severity."""
    return sum(diagnostic.severity is severity for diagnostic in diagnostics)
