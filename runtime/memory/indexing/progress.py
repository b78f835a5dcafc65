"""Progress and result of work on an index."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Progress = Callable[[str, int, int], None]
"""Called with the kind of work (`reading`, `embedding`), the amount done, and the total."""


class SyncReport(NamedTuple):
    """The result of a `sync`.

    `parts`: those that were compared, `read`: those that were read; entries that were `changed` (or new), `removed` and
    `embedded`; `problems`: one line for each unreadable part and each failure of the index.
    """

    parts: int = 0
    read: int = 0
    changed: int = 0
    removed: int = 0
    embedded: int = 0
    problems: tuple[str, ...] = ()

    def plus(self, other: SyncReport) -> SyncReport:
        """Return the sum of both."""
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

    def report(self, what: str, done: int, of: int) -> None:
        """Report the progress of one agent's parts."""
        if self._progress is not None:
            self._progress(what, min(self._before + done, self._total), self._total)
        if done == of:
            self._before += of
