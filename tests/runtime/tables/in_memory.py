"""SQL tables of users in memory, which understand nothing but their names."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.errors import SymbiontError
from runtime.tables.quota import Quota
from runtime.tables.sql_database import MOST_ROWS, Dialect, Parameters, StatementResult, TableInfo, TablePage
from runtime.tables.storage import UserStorage

TABLE_BYTES = 4096


class TablesInMemory:
    """`fails`: the error of the next drops. `dropped`: the users whose tables were dropped. `closed`: it is closed."""

    dialect: Dialect = "sqlite"

    def __init__(self, storage: UserStorage) -> None:
        self._storage = storage
        self._tables: dict[str, list[str]] = {}
        self.fails: SymbiontError | None = None
        self.dropped: list[str] = []
        self.closed = False

    @property
    def connections(self) -> int:
        return len(self._tables)

    async def run(self, user_id: str, statement: str, parameters: Parameters, quota: Quota) -> StatementResult:
        """Make the table that `statement` names with its last word."""
        made = [*self._tables.get(user_id, []), statement.rsplit(maxsplit=1)[-1]]
        await self._storage.note_tables(user_id, len(made), len(made) * TABLE_BYTES, quota)
        self._tables[user_id] = made
        return StatementResult((), (), 0, truncated=False)

    async def run_for_each(
        self, user_id: str, statement: str, rows: Sequence[Parameters], quota: Quota
    ) -> StatementResult:
        raise NotImplementedError

    async def tables(self, user_id: str) -> Sequence[TableInfo]:
        return [TableInfo(name, (), 0) for name in sorted(self._tables.get(user_id, []))]

    async def page(self, user_id: str, table: str, *, after: str | None = None, limit: int = MOST_ROWS) -> TablePage:
        raise NotImplementedError

    async def drop(self, user_id: str) -> None:
        if self.fails is not None:
            raise self.fails
        self._tables.pop(user_id, None)
        self.dropped.append(user_id)

    async def close(self) -> None:
        self.closed = True
