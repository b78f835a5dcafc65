"""The parts of a store that changed since all of them were compared with the index, if the store knows that."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from runtime.clock import Clock
from runtime.memory.store import Store
from runtime.memory.store_types import Part
from runtime.search.index.index import Index

COMPLETE_SECONDS: Final = 600.0
"""Seconds after which the background compares all parts again."""
MOST: Final = 20_000
"""Maximum number of parts to compare; if more wait, all are compared."""


class Comparison(NamedTuple):
    """A comparison of all parts: the store's mark at its beginning, and how often everything had been forgotten."""

    mark: str
    forgotten: int


class ChangedParts:
    """The parts to compare, by agent. `comparison_lock`: the lock of a comparison of all parts."""

    def __init__(self, store: Store, index: Index, clock: Clock) -> None:
        self.comparison_lock = asyncio.Lock()
        self._store = store
        self._index = index
        self._clock = clock
        self._mark: str | None = None
        self._forgotten = 0
        self._compared_at = 0.0
        self._rebuilt = index.rebuilt
        self._waiting = defaultdict[str, dict[str, Part | None]](dict)
        self._refresh_lock = asyncio.Lock()

    @property
    def agents(self) -> list[str]:
        """Return the agents with parts to compare, by name."""
        return sorted(agent for agent, parts in self._waiting.items() if parts)

    @property
    def is_tracking(self) -> bool:
        """Return True if all parts were compared, and only changes have to be looked for."""
        return self._mark is not None

    @property
    def overdue(self) -> bool:
        """Return True if all parts should be compared again: what another program changed may not be known."""
        return self._mark is not None and self._clock.monotonic() - self._compared_at > COMPLETE_SECONDS

    async def refresh(self) -> bool:
        """Ask the store what changed. False: all parts must be compared. Raises StoreError."""
        async with self._refresh_lock:
            if self._mark is None:
                return False
            if self._index.rebuilt != self._rebuilt or sum(map(len, self._waiting.values())) > MOST:
                self._restart()
                return False
            changes = await self._store.changes(self._mark)
            if changes is None:
                self._restart()
                return False
            self._mark = changes.mark
            self.add(changes.parts)
            for name in changes.gone:
                self._waiting[name.partition("/")[0]][name] = None
            return True

    async def begin(self) -> Comparison | None:
        """Begin a comparison of all parts. None: the store does not know what changes. Raises StoreError."""
        self._rebuilt = self._index.rebuilt
        changes = await self._store.changes(None)
        return None if changes is None else Comparison(changes.mark, self._forgotten)

    def finish(self, begun: Comparison) -> None:
        """Note that all parts were compared."""
        if begun.forgotten == self._forgotten:
            self._mark, self._compared_at = begun.mark, self._clock.monotonic()

    def add(self, parts: Iterable[Part]) -> None:
        """Add parts to compare."""
        for part in parts:
            self._waiting[part.agent_id][part.name] = part

    def of(self, agent: str) -> dict[str, Part | None]:
        """Return the agent's parts to compare, by name; None: it is gone."""
        return dict(self._waiting.get(agent, {}))

    def discard(self, agent: str, parts: Mapping[str, Part | None]) -> None:
        """Note that these parts of `of` are in the index as they are, except those that have changed since."""
        waiting = self._waiting[agent]
        for name, part in parts.items():
            if name in waiting and waiting[name] == part:
                del waiting[name]

    def forget(self) -> None:
        """Forget everything, also what is being compared: all parts must be compared."""
        self._forgotten += 1
        self._restart()

    def _restart(self) -> None:
        self._mark = None
        self._waiting.clear()
