"""The tasks of users. Every call is on those of one user, and no other user's exist for it; on those of one subject if
it names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Select, exists, func, select

from runtime.clock import Clock
from runtime.database.connection import Database
from runtime.database.schema import task_changes, task_parts, task_tags, tasks
from runtime.errors import NotFound
from runtime.memory.item import well_formed
from runtime.memory.redaction.redact import redact
from runtime.search.entry import ALL_SUBJECTS, WantedSubject
from runtime.tasks.rate import PER_HOUR
from runtime.tasks.rows import CHANGE_COLUMNS, TaskRows, of_subject
from runtime.tasks.task import (
    MOST_TAGS,
    OK,
    Actor,
    BulkRefused,
    Due,
    Priority,
    Status,
    Task,
    TaskChange,
    TaskFilter,
    TaskPage,
)
from runtime.tasks.writing import TaskTransaction

Result = TypeVar("Result")

EVERY: Final = TaskFilter()
MOST_CHANGES: Final = 100
"""The newest changes of a task that are read."""

_COUNTED: Final = 100_000
"""Maximum number of tasks of a tag that are counted to compare it with others."""
_ABSENT: Final = "there is no such task"


class TaskStore:
    """The tasks in one database. Methods raise NotFound for a task that the user does not have, or that is of another
    subject, or a user who was removed, Superseded for an attempt at a run that another one follows, and `Unavailable`.

    Secrets in titles and descriptions are redacted, as in all that agents remember.
    """

    def __init__(self, database: Database, clock: Clock, *, per_hour: int = PER_HOUR) -> None:
        """`per_hour`: how many tasks a user may create in an hour; 0: no limit."""
        self._database = database
        self._clock = clock
        self._per_hour = per_hour
        self._rows = TaskRows(database.keys)
        self.on_change: Callable[[str], None] = lambda user_id: None
        """Called with the id of a user after a change of their tasks."""

    async def create(
        self,
        user_id: str,
        actor: Actor,
        *,
        title: str,
        description: str | None = None,
        priority: Priority = "normal",
        due: Due | None = None,
        tags: Sequence[str] = (),
        subject: str | None = None,
    ) -> Task:
        """Add a task. A call of an agent that is repeated returns the task that it added. Raises RateLimited."""
        fields = clean({"title": title, "description": description, "priority": priority, "due": due, "tags": tags})
        fields["subject"] = subject

        def work(transaction: TaskTransaction) -> Task:
            before = transaction.find([each for each, number in transaction.earlier_versions().items() if number == 1])
            return next(iter(before.values()), None) or transaction.create(self._per_hour, fields)

        return await self._write(user_id, actor, work)

    async def update(self, user_id: str, task_id: str, changes: Mapping[str, Any], actor: Actor) -> Task:
        """Change fields of a task: `title`, `description`, `status`, `priority`, `due` and `tags`; None removes a
        description or a due date. A call of an agent that is repeated changes nothing more."""
        fields = clean(changes)

        def work(transaction: TaskTransaction) -> Task:
            task = transaction.find([task_id]).get(task_id)
            if task is None:
                raise NotFound(_ABSENT)
            return task if task_id in transaction.earlier_versions() else transaction.change(task, fields)

        return await self._write(user_id, actor, work)

    async def bulk_update(
        self,
        user_id: str,
        task_ids: Sequence[str],
        actor: Actor,
        *,
        status: Status | None = None,
        tags_add: Sequence[str] = (),
        tags_remove: Sequence[str] = (),
    ) -> None:
        """Change several tasks together. Raises BulkRefused if one of them cannot be changed; then none is."""

        def work(transaction: TaskTransaction) -> None:
            found, earlier = transaction.find(task_ids), transaction.earlier_versions()
            results: dict[str, str] = {}
            for task_id in task_ids:
                task = found.get(task_id)
                if task is None:
                    results[task_id] = _ABSENT
                    continue
                tags = tuple(sorted({*task.tags, *tags_add} - set(tags_remove)))
                results[task_id] = (
                    OK if len(tags) <= MOST_TAGS else f"it would have {len(tags)} tags; at most {MOST_TAGS} are allowed"
                )
                if results[task_id] == OK and task_id not in earlier:
                    transaction.change(task, {"tags": tags} | ({} if status is None else {"status": status}))
            if set(results.values()) != {OK}:
                raise BulkRefused(results)

        await self._write(user_id, actor, work)

    async def delete(self, user_id: str, task_id: str, actor: Actor) -> None:
        """Delete a task with its history."""

        def work(transaction: TaskTransaction) -> None:
            task = transaction.find([task_id]).get(task_id)
            if task is None:
                raise NotFound(_ABSENT)
            transaction.delete(task)

        await self._write(user_id, actor, work)
        self._database.empty_log()

    async def get(self, user_id: str, task_id: str, subject: WantedSubject = ALL_SUBJECTS) -> Task:
        """Return a task."""
        found = await self.by_ids(user_id, [task_id], subject)
        if not found:
            raise NotFound(_ABSENT)
        return found[0]

    async def by_ids(self, user_id: str, task_ids: Sequence[str], subject: WantedSubject = ALL_SUBJECTS) -> list[Task]:
        """Return those of these tasks that the user has, and that are of the subject, in this order."""
        async with self._database.read() as connection:
            return await connection.run_sync(self._rows.find, user_id, task_ids, subject)

    async def page(self, user_id: str, wanted: TaskFilter = EVERY, *, limit: int, offset: int = 0) -> TaskPage:
        """Return the tasks from number `offset` on, the newest first, and how many there are."""

        def read(connection: Connection) -> TaskPage:
            ids = _id_query(user_id, wanted._replace(tags=_rarest_first(connection, user_id, wanted.tags)))
            page = ids.order_by(ids.selected_columns[0].desc()).limit(limit).offset(offset)
            found = list(connection.execute(page).scalars())
            total = connection.execute(_count_query(user_id, wanted, ids)).scalar_one()
            return TaskPage(self._rows.find(connection, user_id, found, wanted.subject), int(total or 0))

        async with self._database.read() as connection:
            return await connection.run_sync(read)

    async def history(self, user_id: str, task_id: str, limit: int = MOST_CHANGES) -> Sequence[TaskChange]:
        """Return the newest changes of a task, newest first."""
        mine = task_changes.c.task_id == task_id, task_changes.c.user_id == user_id
        query = select(*(task_changes.c[name] for name in CHANGE_COLUMNS)).where(*mine)
        async with self._database.read() as connection:
            rows = await connection.execute(query.order_by(task_changes.c.version.desc()).limit(limit))
            return [self._rows.change(row) for row in rows]

    async def _write(self, user_id: str, actor: Actor, work: Callable[[TaskTransaction], Result]) -> Result:
        def write(connection: Connection) -> tuple[Result, bool]:
            transaction = TaskTransaction(connection, self._rows, user_id, actor, self._clock)
            return work(transaction), transaction.finish()

        result, changed = await self._database.transact(write)
        if changed:
            self.on_change(user_id)
        return result


def clean(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields as they are stored: the title in one line, texts without secrets, tags sorted and each once."""
    cleaned = dict(fields)
    if "title" in cleaned:
        cleaned["title"] = " ".join(redact(well_formed(cleaned["title"])).split())
    if cleaned.get("description") is not None:
        cleaned["description"] = redact(well_formed(cleaned["description"]))
    if "tags" in cleaned:
        cleaned["tags"] = tuple(sorted(set(cleaned["tags"])))
    return cleaned


def _rarest_first(connection: Connection, user_id: str, tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tags, those that few tasks have first: a list reads all tasks of the first one."""
    if len(tags) < 2:
        return tuple(tags)
    counts = []
    for tag in tags:
        some = select(task_tags.c.task_id).where(task_tags.c.user_id == user_id, task_tags.c.tag == tag)
        counts.append(select(func.count()).select_from(some.limit(_COUNTED).subquery()).scalar_subquery())
    found = connection.execute(select(*counts)).one()
    return tuple(tag for _, tag in sorted(zip(found, tags, strict=True)))


def _id_query(user_id: str, wanted: TaskFilter) -> Select[Any]:
    """Return the query for the ids of tasks. It reads those of the subject, or else of the first tag, in the order of
    the ids, and looks up the other tags of each."""
    tags, mine = wanted.tags, of_subject(wanted.subject)
    if tags and not isinstance(wanted.subject, str):
        table, task_id = task_tags, task_tags.c.task_id
        first, tags = tags[0], tags[1:]
        mine = [task_tags.c.tag == first, *([exists().where(tasks.c.id == task_id, *mine)] if mine else [])]
    else:
        table, task_id = tasks, tasks.c.id
    query = select(task_id).where(table.c.user_id == user_id, *mine)
    if wanted.status is not None:
        query = query.where(table.c.status == wanted.status)
    for number, tag in enumerate(tags):
        other = task_tags.alias(f"tag{number}")
        same = other.c.user_id == user_id, other.c.tag == tag, other.c.task_id == task_id
        query = query.where(exists().where(*same))
    return query


def _count_query(user_id: str, wanted: TaskFilter, ids: Select[Any]) -> Select[Any]:
    """Return the query for the number of tasks, of which `ids` is that for their ids."""
    if wanted == EVERY:
        return select(func.sum(task_parts.c.count)).where(task_parts.c.user_id == user_id)
    return ids.with_only_columns(func.count())
