"""Which messages of a thread a summary absorbs, before its context becomes too large. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from runtime.agents.context.build import entry_tokens
from runtime.agents.context.fields import Budget, Count, Entry

_KEPT_SHARE: Final = 0.5
"""Part of the room for messages that a summary leaves to them, so that the next summary is far away."""


def to_summarize(
    entries: Sequence[Entry], *, wanted: int, budget: Budget, threshold: float, count: Count
) -> Sequence[Entry]:
    """Return the oldest entries, whose summary makes room; none while the context is within `threshold`.

    `wanted`: the tokens of the context with all of `entries`. The newest group always stays, and groups are not parted.
    """
    allowed = int(budget.request * threshold)
    if wanted <= allowed:
        return ()
    groups = [list(group) for _, group in groupby(entries, lambda entry: entry.group)]
    sizes = [sum(entry_tokens(entry, count) for entry in group) for group in groups]
    others = wanted - sum(sizes)
    keep = max(int((allowed - others) * _KEPT_SHARE), 0)
    first = len(groups) - 1
    kept = sizes[-1] if sizes else 0
    while first > 0 and kept + sizes[first - 1] <= keep:
        first -= 1
        kept += sizes[first]
    return [entry for group in groups[: max(first, 0)] for entry in group]
