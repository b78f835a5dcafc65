"""A task of a user, who acts on it, and what changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal, NamedTuple, get_args

from runtime.errors import UsageError
from runtime.search.entry import ALL_SUBJECTS, WantedSubject

Status = Literal["pending", "in_progress", "completed", "cancelled"]
Priority = Literal["low", "normal", "high", "urgent"]
Source = Literal["agent", "user", "api"]
Field = Literal["title", "description", "status", "priority", "due_date", "tags"]

OPEN: Final[tuple[Status, ...]] = ("pending", "in_progress")
"""The states of a task that is still to be done."""
FIELDS: Final[tuple[Field, ...]] = get_args(Field)

LONGEST_TITLE: Final = 500
LONGEST_DESCRIPTION: Final = 10_000
LONGEST_TAG: Final = 64
MOST_TAGS: Final = 20


class Due(NamedTuple):
    """The due date of a task. `at`: Unix milliseconds. `day`: it is due at the end of this day, which is `at`; None: it
    is due at a time."""

    at: int
    day: date | None


Value = str | Due | tuple[str, ...] | None
"""The value of a field."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task as it is stored. Times are Unix milliseconds. `tags` are sorted. `version` is the number of its changes,
    with the creation.

    `source`, `created_by_agent`, `origin_run_id`: who created it; `updated_…`: who changed it last. `said_at`: when
    the context of the main agent last had it as urgent or overdue. `webhook`: whose delivery woke a run that wrote its
    title or description; None: no such run did. `subject`: of the keyed threads to which it belongs; None: to none.
    """

    id: str
    user_id: str
    title: str
    description: str | None
    status: Status
    priority: Priority
    due: Due | None
    tags: tuple[str, ...]
    source: Source
    created_by_agent: str | None
    origin_run_id: str | None
    updated_source: Source
    updated_by_agent: str | None
    updated_run_id: str | None
    created_at: int
    updated_at: int
    completed_at: int | None
    said_at: int | None
    part: int
    version: int
    webhook: str | None = None
    subject: str | None = None

    def is_overdue(self, now: int) -> bool:
        """True if it is still to be done, and was due before `now` (Unix milliseconds)."""
        return self.due is not None and self.due.at <= now and self.status in OPEN

    def value(self, name: Field) -> Value:
        """Return the value of a field."""
        value: Value = self.due if name == "due_date" else getattr(self, name)
        return value


class Actor(NamedTuple):
    """The actor of a change. `agent`, `run_id`, `attempt`, `key` and `webhook`: of an acting agent, see
    `runtime.tools.context.Acting`. `subject`: whose tasks exist for it."""

    source: Source
    agent: str | None = None
    run_id: str | None = None
    attempt: int | None = None
    key: str | None = None
    webhook: str | None = None
    subject: WantedSubject = ALL_SUBJECTS


class TaskFilter(NamedTuple):
    """Criteria of tasks: the status, tags of which a task has all, and the subject. A status of None and no tags
    exclude nothing."""

    status: Status | None = None
    tags: tuple[str, ...] = ()
    subject: WantedSubject = ALL_SUBJECTS

    def wants(self, task: Task) -> bool:
        """True if a task passes."""
        return (
            self.status in (None, task.status)
            and set(self.tags).issubset(task.tags)
            and self.subject in (ALL_SUBJECTS, task.subject)
        )


class TaskPage(NamedTuple):
    """Some of the tasks that were asked for, and how many there are in all."""

    tasks: list[Task]
    total: int


class FieldChange(NamedTuple):
    """The change of a field. Times are shown as `runtime.tasks.due.due_text` does."""

    field: Field
    before: str | list[str] | None
    after: str | list[str] | None


class TaskChange(NamedTuple):
    """An entry of the history of a task. Version 1 is the creation."""

    version: int
    source: Source
    agent: str | None
    run_id: str | None
    created_at: int
    changes: list[FieldChange]


OK: Final = "ok"
"""The result of a task that can be changed."""


class BulkRefused(UsageError):  # noqa: N818
    """Some of several tasks cannot be changed, so none was. `results`: `OK` or the reason, by the id of each task."""

    def __init__(self, results: Mapping[str, str]) -> None:
        failed = [reason for reason in results.values() if reason != OK]
        reasons = "; ".join(dict.fromkeys(failed))
        super().__init__(
            f"{len(failed)} of {len(results)} tasks cannot be changed, so none was: {reasons}",
            hint="call it again without them; `results` has the reason for each",
        )
        self.results = results
