"""Tasks as a store of items, over which the product's index searches them. Its truth are the rows: it writes nothing.

What is an agent to a memory is a user here, so that the index of one user is brought up to date and searched by itself.
An item is a chunk of a task, with the task's status as its project.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from sqlalchemy import select

from runtime.clock import SYSTEM, Clock, utc
from runtime.database.connection import Database
from runtime.database.schema import task_parts, tasks
from runtime.memory.chunking import chunks
from runtime.memory.collection.row_items import RowItems
from runtime.memory.item import RESERVED, Item
from runtime.memory.store_types import ItemLocation, Part, StoreStats
from runtime.tasks.rows import COLUMNS, TaskRows
from runtime.tasks.task import Task

_TASK: Final = f"{RESERVED}task/"
_NAMESPACE: Final = uuid5(NAMESPACE_URL, "urn:symbiont:tasks")
_CHARACTERS: Final = 2_000
_ITEMS: Final = 1
"""Version of the items that a part has. After it has changed, indexes read every part again."""


class TaskItems(RowItems):
    """The tasks of all users of a database, to be searched."""

    kind, many, one, instead = "tasks", "tasks", "a task", "create a task"

    def __init__(self, database: Database, clock: Clock = SYSTEM) -> None:
        super().__init__(database, clock)
        self._rows = TaskRows(database.keys)

    def note_change(self, user_id: str) -> None:
        """Note that tasks of this user changed."""
        self._notify_change({user_id})

    async def parts(self, agent_id: str | None = None) -> tuple[Part, ...]:
        query = select(task_parts.c.user_id, task_parts.c.part, task_parts.c.revision).where(task_parts.c.count > 0)
        if agent_id is not None:
            query = query.where(task_parts.c.user_id == agent_id)
        rows = await self._select(query)
        return tuple([Part(f"{user}/{part}", user, f"{_ITEMS}.{revision}") for user, part, revision in rows])

    async def read(self, part: Part) -> Sequence[tuple[Item, ItemLocation | None]]:
        number = int(part.name.rpartition("/")[2])
        chosen = tasks.c.user_id == part.agent_id, tasks.c.part == number
        # Sorted here: to sort by id, SQLite reads all tasks of the user by the index that has them in this order.
        query = select(*(tasks.c[name] for name in COLUMNS)).where(*chosen)
        with self._errors():
            await self._database.learn_keys(part.agent_id)
            rows = sorted(await self._select(query), key=itemgetter(COLUMNS.index("id")))
            return await asyncio.to_thread(self._items, rows)

    def _items(self, rows: Sequence[Sequence[object]]) -> list[tuple[Item, ItemLocation | None]]:
        return [(item, None) for row in rows for item in items_of(self._rows.task(row))]

    async def stats(self, agent_id: str | None = None) -> StoreStats:
        only = () if agent_id is None else (tasks.c.user_id == agent_id,)
        return await self._stats(tasks.c.user_id, tasks.c.created_at, tasks.c.created_at, *only)

    async def agents(self) -> tuple[str, ...]:
        query = select(task_parts.c.user_id).where(task_parts.c.count > 0).distinct().order_by(task_parts.c.user_id)
        return tuple(row.user_id for row in await self._select(query))

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
