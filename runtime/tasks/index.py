"""Tasks as a store of items, over which the product's index searches them. Its truth are the rows: it writes nothing.

What is an agent to a memory is a user here, so that the index of one user is brought up to date and searched by itself.
An item is a chunk of a task, with the task's status as its project.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from operator import itemgetter
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from sqlalchemy import distinct, func, select

from runtime.clock import SYSTEM, Clock, utc
from runtime.database.connection import Database
from runtime.database.schema import task_parts, tasks
from runtime.memory.chunking import chunks
from runtime.memory.collection.errors import rows_errors
from runtime.memory.errors import Unsupported
from runtime.memory.item import RESERVED, Item
from runtime.memory.store import Store
from runtime.memory.store_types import Inspection, ItemLocation, Part, Scan, StoreStats, position_of
from runtime.tasks.rows import COLUMNS, TaskRows
from runtime.tasks.task import Task

_TASK: Final = f"{RESERVED}task/"
_NAMESPACE: Final = uuid5(NAMESPACE_URL, "urn:symbiont:tasks")
_CHARACTERS: Final = 2_000
_ITEMS: Final = 1
"""Version of the items that a part has. After it has changed, indexes read every part again."""
_errors = partial(rows_errors, "tasks", "a task")


class TaskItems(Store):
    """The tasks of all users of a database, to be searched."""

    def __init__(self, database: Database, clock: Clock = SYSTEM) -> None:
        super().__init__(clock)
        self._database = database
        self._rows = TaskRows(database.keys)

    @property
    def identity(self) -> str:
        return f"tasks:{self._database.id}"

    @property
    def index_keys(self) -> Sequence[bytes]:
        return self._database.keys.index_keys(self.identity)

    def changed(self, user_id: str) -> None:
        """Note that tasks of this user changed."""
        self._notify_change({user_id})

    async def parts(self, agent_id: str | None = None) -> tuple[Part, ...]:
        query = select(task_parts.c.user_id, task_parts.c.part, task_parts.c.revision).where(task_parts.c.count > 0)
        if agent_id is not None:
            query = query.where(task_parts.c.user_id == agent_id)
        with _errors():
            async with self._database.read() as connection:
                rows = await connection.execute(query)
                return tuple([Part(f"{user}/{part}", user, f"{_ITEMS}.{revision}") for user, part, revision in rows])

    async def read(self, part: Part) -> Sequence[tuple[Item, ItemLocation | None]]:
        number = int(part.name.rpartition("/")[2])
        chosen = tasks.c.user_id == part.agent_id, tasks.c.part == number
        # Sorted here: to sort by id, SQLite reads all tasks of the user by the index that has them in this order.
        query = select(*(tasks.c[name] for name in COLUMNS)).where(*chosen)
        with _errors():
            await self._database.learn_keys(part.agent_id)
            async with self._database.read() as connection:
                rows = sorted((await connection.execute(query)).all(), key=itemgetter(COLUMNS.index("id")))
            return await asyncio.to_thread(self._items, rows)

    def _items(self, rows: Sequence[Sequence[object]]) -> list[tuple[Item, ItemLocation | None]]:
        return [(item, None) for row in rows for item in items_of(self._rows.task(row))]

    async def scan(self, wanted: Scan | None = None) -> AsyncIterator[Item]:
        wanted = wanted or Scan()
        found = [
            item
            for part in await self.parts(wanted.agent_id)
            for item, _ in await self.read(part)
            if wanted.wants(item)
        ]
        found.sort(key=position_of, reverse=wanted.newest_first)
        for item in found[: wanted.limit]:
            yield item

    async def stats(self, agent_id: str | None = None) -> StoreStats:
        query = select(
            func.count(distinct(tasks.c.user_id)), func.min(tasks.c.created_at), func.max(tasks.c.created_at)
        )
        if agent_id is not None:
            query = query.where(tasks.c.user_id == agent_id)
        with _errors():
            async with self._database.read() as connection:
                users, oldest, newest = (await connection.execute(query)).one()
        return StoreStats(users, 0, 0, _day(oldest), _day(newest))

    async def agents(self) -> tuple[str, ...]:
        query = select(task_parts.c.user_id).where(task_parts.c.count > 0).distinct().order_by(task_parts.c.user_id)
        with _errors():
            async with self._database.read() as connection:
                return tuple((await connection.execute(query)).scalars())

    async def locate(self, items: Sequence[Item]) -> dict[str, ItemLocation]:
        return {}

    async def inspect(self, agent_id: str, day: date | None = None) -> Inspection:
        day = day or utc(self._clock.now()).date()
        return Inspection(agent_id, day, None, None, "tasks of the database", "tasks of the database")

    async def _append(self, items: tuple[Item, ...], gates: Mapping[str, str]) -> tuple[Item, ...]:
        raise Unsupported("nothing can be appended to tasks", hint="create a task")

    async def _forget_user(self, user_id: str, agent_id: str) -> int:
        """Delete nothing: the rows of a removed user are deleted with those of every table."""
        return 0


def items_of(task: Task) -> Iterator[Item]:
    """Yield the items of a task: one for each chunk of its title and description."""
    text = task.title if task.description is None else f"{task.title}\n\n{task.description}"
    for number, chunk in enumerate(chunks(text, _CHARACTERS)):
        yield Item(
            memory_id=str(uuid5(_NAMESPACE, f"{task.id}/{number}")),
            project_id=task.status,
            agent_id=task.user_id,
            user_id=task.user_id,
            memory_type="semantic",
            timestamp=utc(task.created_at / 1000),
            source_uri=f"{_TASK}{task.id}",
            tags=task.tags,
            text=chunk,
            subject=task.subject,
        )


def task_of(item: Item) -> str:
    """Return the id of the task that an item is of."""
    return (item.source_uri or "").removeprefix(_TASK)


def _day(milliseconds: int | None) -> date | None:
    return None if milliseconds is None else utc(milliseconds / 1000).date()
