"""Messages of a thread that a summary absorbs, before its context becomes too large. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from runtime.agents.context.fields import Budget, Entry

_KEPT_SHARE: Final = 0.5
"""Part of the room for messages that a summary leaves to them, so that the next summary is far away."""


def oldest_entries(
    entries: Sequence[Entry], sizes: Sequence[int], *, wanted: int, budget: Budget, threshold: float
) -> Sequence[Entry]:
    """Return the oldest entries, whose summary makes room; none while the context is within `threshold`.

    `sizes`: the tokens of each entry as it is shown. `wanted`: those of the context with all of them. The newest group
    always stays, and groups are not parted.
    """
    allowed = int(budget.request * threshold)
    if wanted <= allowed:
        return ()
    sized = zip(entries, sizes, strict=True)
    groups = [list(group) for _, group in groupby(sized, lambda each: each[0].group)]
    totals = [sum(size for _, size in group) for group in groups]
    others = wanted - sum(sizes)
    keep = max(int((allowed - others) * _KEPT_SHARE), 0)
    first = len(groups) - 1
    kept = totals[-1] if totals else 0
    while first > 0 and kept + totals[first - 1] <= keep:
        first -= 1
        kept += totals[first]
    return [entry for group in groups[: max(first, 0)] for entry, _ in group]
