"""Base class of stores whose items are made of other rows of the database, to be searched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date
from typing import Any, ClassVar

from sqlalchemy import ColumnElement, Executable, func, select

from runtime.clock import SYSTEM, Clock, utc
from runtime.database.connection import Database
from runtime.memory.collection.errors import rows_errors
from runtime.memory.errors import Unsupported
from runtime.memory.item import Item
from runtime.memory.store import Store
from runtime.memory.store_types import Inspection, ItemLocation, Scan, StoreStats, position_of


class RowItems(Store):
    """A store that writes nothing: its truth are the rows."""

    kind: ClassVar[str]
    """Of its identity."""
    many: ClassVar[str]
    one: ClassVar[str]
    """Names of the rows, as messages use them."""
    instead: ClassVar[str]
    """Hint: the action in place of appending an item."""

    def __init__(self, database: Database, clock: Clock = SYSTEM) -> None:
        super().__init__(clock)
        self._database = database

    @property
    def identity(self) -> str:
        return f"{self.kind}:{self._database.id}"

    @property
    def index_keys(self) -> Sequence[bytes]:
        return self._database.keys.index_keys(self.identity)

    def _errors(self) -> AbstractContextManager[None]:
        return rows_errors(self.many, self.one)

    async def _select(self, query: Executable) -> Sequence[Any]:
        """Return the rows of a query. Raises StoreError."""
        with self._errors():
            async with self._database.read() as connection:
                found: Sequence[Any] = (await connection.execute(query)).all()
                return found

    async def scan(self, wanted: Scan | None = None) -> AsyncIterator[Item]:
        wanted = wanted or Scan()
        parts = await self.parts(wanted.agent_id)
        found = [item for part in parts for item, _ in await self.read(part) if wanted.wants(item)]
        found.sort(key=position_of, reverse=wanted.newest_first)
        for item in found[: wanted.limit]:
            yield item

    async def _stats(
        self,
        agent: ColumnElement[Any],
        began: ColumnElement[Any],
        ended: ColumnElement[Any],
        *only: ColumnElement[bool],
    ) -> StoreStats:
        """Return the numbers of these rows: how many agents, and the days of the earliest and the latest time (Unix
        milliseconds)."""
        query = select(func.count(agent.distinct()), func.min(began), func.max(ended)).where(*only)
        ((agents, oldest, newest),) = await self._select(query)
        return StoreStats(agents, 0, 0, _day(oldest), _day(newest))

    async def locate(self, items: Sequence[Item]) -> dict[str, ItemLocation]:
        return {}

    async def inspect(self, agent_id: str, day: date | None = None) -> Inspection:
        place = f"{self.many} of the database"
        return Inspection(agent_id, day or utc(self._clock.now()).date(), None, None, place, place)

    async def _append(self, items: tuple[Item, ...], gates: Mapping[str, str]) -> tuple[Item, ...]:
        raise Unsupported(f"nothing can be appended to {self.many}", hint=self.instead)


def _day(milliseconds: int | None) -> date | None:
    return None if milliseconds is None else utc(milliseconds / 1000).date()
