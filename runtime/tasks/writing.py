"""A write transaction on the tasks of one user."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, delete, select

from runtime.clock import Clock, milliseconds, uuid7
from runtime.database import bulk
from runtime.database.schema import task_changes, task_parts, task_tags, tasks
from runtime.identity import users
from runtime.tasks.rate import count_creation
from runtime.tasks.rows import CHANGE_COLUMNS, COLUMNS, TaskRows
from runtime.tasks.task import FIELDS, Actor, Field, Task, Value
from runtime.threads.run import running_attempts
from runtime.threads.step import Superseded

PART: Final = 128
"""Maximum number of tasks that are read together."""
KEPT_CHANGES: Final = 1000
"""The newest changes of a task, which its history has."""

_LONGEST_KEY: Final = 64
_TEXTS: Final = frozenset({"title", "description"})
_CHANGED: Final = tuple(name for name in COLUMNS if name not in {"id", "user_id", "said_at"})


class TaskTransaction:
    """A running transaction on the tasks of a user, which the user's other transactions wait for. Nothing is written
    before `finish`.

    Raises Superseded for an attempt at a run that another one follows, and NotFound for a user who was removed.
    """

    def __init__(self, connection: Connection, rows: TaskRows, user_id: str, actor: Actor, clock: Clock) -> None:
        if actor.key is not None and len(actor.key) > _LONGEST_KEY:
            actor = actor._replace(key=hashlib.sha256(actor.key.encode()).hexdigest())
        if actor.attempt is not None and actor.run_id is not None:
            current = running_attempts(connection, [actor.run_id])
            if current.get(actor.run_id) != actor.attempt:
                raise Superseded(f"run {actor.run_id} continues elsewhere")
        lock_tasks(connection, user_id)
        users.require(connection, user_id)
        self._connection = connection
        self._rows = rows
        self._user_id = user_id
        self._actor = actor
        self._clock = clock
        self._now = milliseconds(clock)
        self._newest: tuple[int, int] | None = None  # the newest part, and how many tasks it has
        self._new: list[Task] = []
        self._changed: dict[str, Task] = {}
        self._gone: list[Task] = []
        self._changes: list[tuple[Any, ...]] = []
        self._retagged: dict[str, Task] = {}

    def find(self, ids: Sequence[str]) -> dict[str, Task]:
        """Return those of these tasks that exist for who acts, by id."""
        found = self._rows.find(self._connection, self._user_id, ids, self._actor.subject)
        return {task.id: task for task in found}

    def earlier_versions(self) -> dict[str, int]:
        """Return the tasks that this call of an agent has changed before, and to which version: it is repeated after
        the end of the daemon that stored it."""
        if self._actor.run_id is None or self._actor.key is None:
            return {}
        key = [(self._actor.run_id, self._actor.key)]
        found = bulk.find(self._connection, task_changes, ("run_id", "key"), ("task_id", "version", "user_id"), key)
        return {task_id: version for _, _, task_id, version, user_id in found if user_id == self._user_id}

    def create(self, per_hour: int, fields: Mapping[str, Any]) -> Task:
        """Add a task with these fields. Raises RateLimited."""
        count_creation(self._connection, self._user_id, per_hour, self._now)
        actor = self._actor
        task = Task(
            id=uuid7(self._clock),
            user_id=self._user_id,
            **fields,
            status="pending",
            source=actor.source,
            created_by_agent=actor.agent,
            origin_run_id=actor.run_id,
            updated_source=actor.source,
            updated_by_agent=actor.agent,
            updated_run_id=actor.run_id,
            created_at=self._now,
            updated_at=self._now,
            completed_at=None,
            said_at=None,
            part=self._place(),
            version=1,
            webhook=actor.webhook,
        )
        self._new.append(task)
        self._retagged[task.id] = task
        given: dict[Field, tuple[Value, Value]] = {
            name: (None, value) for name in FIELDS if (value := task.value(name)) not in (None, ())
        }
        self._changes.append(self._rows.change_row(task, given, actor))
        return task

    def change(self, task: Task, fields: Mapping[str, Any]) -> Task:
        """Give a task other values of these fields. One that has them already stays as it is."""
        actor, now = self._actor, max(self._now, task.updated_at)  # the clock may have been set back
        changed = replace(task, **fields)
        differing: dict[Field, tuple[Value, Value]] = {
            name: (task.value(name), changed.value(name)) for name in FIELDS if task.value(name) != changed.value(name)
        }
        if not differing:
            return task
        if "status" in differing:
            changed = replace(changed, completed_at=now if changed.status == "completed" else None)
        changed = replace(
            changed,
            updated_source=actor.source,
            updated_by_agent=actor.agent,
            updated_run_id=actor.run_id,
            updated_at=now,
            version=task.version + 1,
            webhook=actor.webhook if actor.webhook and differing.keys() & _TEXTS else task.webhook,
        )
        self._changed[task.id] = changed
        if "tags" in differing or "status" in differing:
            self._retagged[task.id] = changed
        self._changes.append(self._rows.change_row(changed, differing, actor))
        return changed

    def delete(self, task: Task) -> None:
        """Delete a task with its history."""
        self._gone.append(task)

    def finish(self) -> bool:
        """Write everything. Returns True if anything changed."""
        connection = self._connection
        bulk.insert(connection, tasks, COLUMNS, [self._rows.row(task) for task in self._new])
        changed = [self._changed[task_id] for task_id in sorted(self._changed)]
        rows = [dict(zip(COLUMNS, self._rows.row(task), strict=True)) for task in changed]
        values = [tuple(row[name] for name in ("id", *_CHANGED)) for row in rows]
        bulk.update(connection, tasks, ("id",), _CHANGED, values)
        bulk.delete(connection, tasks, "id", [task.id for task in self._gone])
        bulk.delete(connection, task_tags, "task_id", [task.id for task in self._retagged.values() if task.version > 1])
        tags = [(self._user_id, tag, task.id, task.status) for task in self._retagged.values() for tag in task.tags]
        bulk.insert(connection, task_tags, ("user_id", "tag", "task_id", "status"), tags)
        bulk.insert(connection, task_changes, CHANGE_COLUMNS, self._changes)
        for task in changed:
            if task.version > KEPT_CHANGES:
                earlier = task_changes.c.version <= task.version - KEPT_CHANGES
                connection.execute(delete(task_changes).where(task_changes.c.task_id == task.id, earlier))
        self._write_parts()
        return bool(self._new or changed or self._gone)

    def _place(self) -> int:
        """Return the part of a new task."""
        if self._newest is None:
            mine = task_parts.c.user_id == self._user_id
            query = select(task_parts.c.part, task_parts.c.count).where(mine).order_by(task_parts.c.part.desc())
            part, count = self._connection.execute(query.limit(1)).first() or (0, 0)
            self._newest = part, count
        part, count = self._newest
        self._newest = (part, count + 1) if count < PART else (part + 1, 1)
        return self._newest[0]

    def _write_parts(self) -> None:
        counts = dict.fromkeys((task.part for task in (*self._new, *self._changed.values(), *self._gone)), 0)
        for task in self._new:
            counts[task.part] += 1
        for task in self._gone:
            counts[task.part] -= 1
        known = bulk.find(
            self._connection,
            task_parts,
            ("user_id", "part"),
            ("count",),
            [(self._user_id, part) for part in sorted(counts)],
        )
        before = {part: count for _, part, count in known}
        # A row stays without tasks, so that its number is not given to others.
        rows = [
            (self._user_id, part, uuid7(self._clock), before.get(part, 0) + count)
            for part, count in sorted(counts.items())
        ]
        columns = ("revision", "count")
        bulk.insert(
            self._connection, task_parts, ("user_id", "part", *columns), [row for row in rows if row[1] not in before]
        )
        bulk.update(
            self._connection, task_parts, ("user_id", "part"), columns, [row for row in rows if row[1] in before]
        )


def lock_tasks(connection: Connection, user_id: str) -> None:
    """Let other transactions on the tasks of a user wait for the end of this one."""
    if connection.dialect.name == "postgresql":
        number = int.from_bytes(hashlib.sha256(f"symbiont tasks {user_id}".encode()).digest()[:8], signed=True)
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({number})")
