"""Rows of tasks and of their changes: to a task and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection

from runtime.database import bulk
from runtime.database.keys.ring import KeyRing
from runtime.database.schema import task_changes, tasks
from runtime.database.sealed import Seal
from runtime.database.text import hash_key
from runtime.search.entry import ALL_SUBJECTS, WantedSubject
from runtime.tasks.due import due_text
from runtime.tasks.task import Actor, Due, FieldChange, Task, TaskChange, Value

COLUMNS: Final = tuple(column.name for column in tasks.columns)
CHANGE_COLUMNS: Final = tuple(column.name for column in task_changes.columns)

EPOCH: Final = date(1970, 1, 1)
_READ_AS_THEY_ARE: Final = tuple(
    name for name in COLUMNS if name not in {"due_at", "due_day", "tags", "subject_key", "content"}
)


def of_subject(wanted: WantedSubject) -> list[ColumnElement[bool]]:
    """Return the conditions of the tasks of a subject."""
    key = tasks.c.subject_key
    if wanted is ALL_SUBJECTS:
        return []
    return [key.is_(None) if wanted is None else key == hash_key(wanted)]


class TaskRows:
    """Converts and seals rows, with the keys of one database."""

    def __init__(self, keys: KeyRing) -> None:
        self._content = Seal(keys, tasks.c.content)
        self._changes = Seal(keys, task_changes.c.content)

    def find(self, connection: Connection, user_id: str, task_ids: Sequence[str], subject: WantedSubject) -> list[Task]:
        """Return those of these tasks that a user has and that are of the subject, in this order. Raises Unsealable."""
        keys = [(task_id, user_id) for task_id in task_ids]
        rows = {row[0]: row for row in bulk.find(connection, tasks, ("id", "user_id"), COLUMNS[2:], keys)}
        found = [self.task(rows[task_id]) for task_id in task_ids if task_id in rows]
        return [task for task in found if subject in (ALL_SUBJECTS, task.subject)]

    def row(self, task: Task) -> tuple[Any, ...]:
        """Return the row of a task, in the order of COLUMNS."""
        said = {"title": task.title, "description": task.description}
        said |= {name: value for name in ("webhook", "subject") if (value := getattr(task, name)) is not None}
        content = json.dumps(said, ensure_ascii=False).encode()
        fields: dict[str, Any] = {name: getattr(task, name) for name in _READ_AS_THEY_ARE}
        due = task.due
        fields["due_at"] = None if due is None else due.at
        fields["due_day"] = None if due is None or due.day is None else (due.day - EPOCH).days
        fields["tags"] = json.dumps(task.tags, ensure_ascii=False)
        fields["subject_key"] = hash_key(task.subject)
        fields["content"] = self._content.close(content, row=task.id, user_id=task.user_id, version=task.version)
        return tuple(fields[name] for name in COLUMNS)

    def task(self, row: Sequence[Any]) -> Task:
        """Return the task of a row. Raises Unsealable."""
        fields = dict(zip(COLUMNS, row, strict=True))
        sealed, tags = fields.pop("content"), json.loads(fields.pop("tags"))
        del fields["subject_key"]
        at, day = fields.pop("due_at"), fields.pop("due_day")
        opened = self._content.open(sealed, row=fields["id"], user_id=fields["user_id"], version=fields["version"])
        due = None if at is None else Due(at, None if day is None else EPOCH + timedelta(days=day))
        return Task(**fields, **json.loads(opened), due=due, tags=tuple(tags))

    def change_row(self, task: Task, changes: Mapping[Any, tuple[Value, Value]], actor: Actor) -> tuple[Any, ...]:
        """Return the row of a change that made this version of the task, in the order of CHANGE_COLUMNS. `changes`:
        the values of fields before and after."""
        fields = {name: [_json(value) for value in values] for name, values in changes.items()}
        content = json.dumps(fields, ensure_ascii=False).encode()
        sealed = self._changes.close(content, row=_change_id(task.id, task.version), user_id=task.user_id)
        who = (actor.source, actor.agent, actor.run_id, actor.key)
        return (task.id, task.version, task.user_id, *who, task.updated_at, sealed)

    def change(self, row: Sequence[Any]) -> TaskChange:
        """Return the change of a row. Raises Unsealable."""
        task_id, version, user_id, source, agent, run_id, _, created_at, sealed = row
        fields = json.loads(self._changes.open(sealed, row=_change_id(task_id, version), user_id=user_id))
        changes = [FieldChange(name, *values) for name, values in fields.items()]
        return TaskChange(version, source, agent, run_id, created_at, changes)


def _json(value: Value) -> str | list[str] | None:
    if value is None or isinstance(value, str):
        return value
    return due_text(value) if isinstance(value, Due) else [*map(str, value)]


def _change_id(task_id: str, version: int) -> str:
    return f"{task_id}/{version}"
