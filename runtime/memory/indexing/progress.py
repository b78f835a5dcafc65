"""How far the work on an index is, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Progress = Callable[[str, int, int], None]
"""Is told what is being done (`reading`, `embedding`), how much of it is done, and how much there is."""


class SyncReport(NamedTuple):
    """What bringing the index up to date did.

    `parts` that there are, and how many of them were `read`; entries that were `changed` (new ones among them),
    `removed` and `embedded`; one line for each part that could not be read and for what the index could not do.
    """

    parts: int = 0
    read: int = 0
    changed: int = 0
    removed: int = 0
    embedded: int = 0
    problems: tuple[str, ...] = ()

    def plus(self, other: SyncReport) -> SyncReport:
        """Both together."""
        return SyncReport(
            self.parts + other.parts,
            self.read + other.read,
            self.changed + other.changed,
            self.removed + other.removed,
            self.embedded + other.embedded,
            (*self.problems, *other.problems),
        )


class ReadProgress:
    """One progress over the parts of several agents."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._before = 0

    def told(self, what: str, done: int, of: int) -> None:
        """What the reading of one agent's parts says."""
        if self._progress is not None:
            self._progress(what, min(self._before + done, self._total), self._total)
        if done == of:
            self._before += of
