"""Types of the parameters and results of the tools on tasks, from which their schemas are built."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final, Literal
from unicodedata import category

from pydantic import AfterValidator, Field

from runtime.clock import utc
from runtime.memory.item import tag_form
from runtime.tasks import task as stored
from runtime.tasks.due import shown
from runtime.tasks.task import LONGEST_DESCRIPTION, LONGEST_TAG, LONGEST_TITLE, MOST_TAGS, Priority, Source, Status
from runtime.tools.patterns import ONE_OR_MORE, UUID
from runtime.tools.result import Result

MOST_BULK = 100
"""Maximum number of tasks that are changed together."""

_INVISIBLE: Final = frozenset(("Cc", "Cf", "Zl", "Zp", "Zs"))
"""Categories of Unicode: control and format characters, and white space."""


def _tag(value: str) -> str:
    tag = tag_form(value.strip().lower())
    if not tag:
        raise ValueError("a tag is blank")
    if not tag.isprintable():
        raise ValueError("a tag has a character that cannot be printed")
    if len(tag) > LONGEST_TAG:
        raise ValueError(f"a tag has more than {LONGEST_TAG} characters")
    return tag


def _unique(values: list[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _not_blank(value: str) -> str:
    if all(category(each) in _INVISIBLE for each in value):
        raise ValueError("it is blank")
    return value


_Id = Annotated[str, Field(pattern=UUID)]
_Tag = Annotated[str, Field(min_length=1, max_length=LONGEST_TAG), AfterValidator(_tag)]
_TagList = Annotated[list[_Tag], Field(max_length=MOST_TAGS), AfterValidator(_unique), ONE_OR_MORE]
_Title = Annotated[str, Field(min_length=1, max_length=LONGEST_TITLE), AfterValidator(_not_blank)]
_DueDate = Annotated[str, Field(min_length=1, max_length=100)]
_Cleared = Literal["due_date", "description"]

TaskId = Annotated[str, Field(pattern=UUID, description="The task's id.")]
TaskIds = Annotated[
    Annotated[list[_Id], AfterValidator(_unique)],
    Field(min_length=1, max_length=MOST_BULK, description="The ids of the tasks."),
]
Title = Annotated[_Title, Field(description="What is to be done, in one line.")]
NewTitle = Annotated[_Title | None, Field(description="The new title.")]
Description = Annotated[
    Annotated[str, Field(max_length=LONGEST_DESCRIPTION)] | None, Field(description="Details, if any.")
]
DueDate = Annotated[
    _DueDate | None,
    Field(
        description="When it is due: a time (RFC 3339), or a date, at whose end in the user's time zone it is due.",
        examples=["2026-12-01"],
    ),
]
Tags = Annotated[_TagList, Field(description="Its tags, in lower case.")]
NewTags = Annotated[_TagList | None, Field(description="Its tags, in place of the present ones.")]
AllTags = Annotated[_TagList, Field(description="Only tasks with all of these tags.")]
TagsAdd = Annotated[_TagList, Field(description="Tags to add.")]
TagsRemove = Annotated[_TagList, Field(description="Tags to remove.")]
OfStatus = Annotated[Status | None, Field(description="Only tasks with this status.")]
NewStatus = Annotated[Status | None, Field(description="The new status.")]
OfPriority = Annotated[Priority, Field(description="How important it is.")]
NewPriority = Annotated[Priority | None, Field(description="The new priority.")]
Clear = Annotated[
    Annotated[list[_Cleared], Field(max_length=2)], Field(description="Fields to empty: `due_date`, `description`.")
]
Limit = Annotated[int, Field(ge=1, le=100, description="Maximum number of tasks.")]
Offset = Annotated[int, Field(ge=0, le=1_000_000_000, description="How many tasks to skip.")]
Query = Annotated[str, Field(max_length=2000, description="What to look for, in words."), AfterValidator(_not_blank)]


class KeptTask(Result):
    """A task."""

    task_id: str
    title: str
    description: str | None
    status: Status
    priority: Priority
    due_date: str | None = Field(description="A date, at whose end it is due, or a time in UTC.")
    overdue: bool = Field(description="It was due, and is not done.")
    tags: list[str]
    source: Source = Field(description="What created it: an agent, a user or a client of the HTTP API.")
    created_by_agent: str | None
    origin_run_id: str | None = Field(description="The run that created it.")
    updated_source: Source = Field(description="What changed it last.")
    updated_by_agent: str | None
    updated_run_id: str | None
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    subject: str | None = Field(description="The subject of keyed threads to which it belongs; null: none.")
    webhook: str | None = Field(
        description="The webhook whose delivery led to its text, which may be a stranger's; null: none did."
    )


class HistoryField(Result):
    """A field that changed."""

    field: stored.Field
    before: str | list[str] | None
    after: str | list[str] | None


class HistoryEntry(Result):
    """A change of a task; the first one is its creation."""

    version: int
    source: Source
    agent: str | None
    run_id: str | None
    at: datetime
    changes: list[HistoryField]


class TaskWithHistory(KeptTask):
    """A task and its changes."""

    version: int = Field(description="The number of its changes, with the creation.")
    history: list[HistoryEntry] = Field(description="The newest changes, newest first.")


class TaskList(Result):
    """Tasks, and how many there are in all."""

    tasks: list[KeptTask]
    total: int


class FoundTasks(TaskList):
    """Tasks, the best fit first, and how many were found."""

    notes: list[str] = Field(description="How they were found, if not as usual.")


class DeletedTask(Result):
    """A task that was deleted."""

    task_id: str


class BulkResult(Result):
    """The result of one task: `ok`, or why it cannot be changed."""

    task_id: str
    result: str


class BulkResults(Result):
    """The result of each task."""

    results: list[BulkResult]


def kept(task: stored.Task, now: int) -> KeptTask:
    """Return a task as tools show it at `now` (Unix milliseconds)."""
    return KeptTask(
        task_id=task.id,
        title=task.title,
        description=task.description,
        status=task.status,
        priority=task.priority,
        due_date=shown(task.due),
        overdue=task.is_overdue(now),
        tags=list(task.tags),
        source=task.source,
        created_by_agent=task.created_by_agent,
        origin_run_id=task.origin_run_id,
        updated_source=task.updated_source,
        updated_by_agent=task.updated_by_agent,
        updated_run_id=task.updated_run_id,
        created_at=_time(task.created_at),
        updated_at=_time(task.updated_at),
        completed_at=None if task.completed_at is None else _time(task.completed_at),
        subject=task.subject,
        webhook=task.webhook,
    )


def with_history(task: stored.Task, history: Sequence[stored.TaskChange], now: int) -> TaskWithHistory:
    """Return a task with its changes."""
    entries = [
        HistoryEntry(
            version=change.version,
            source=change.source,
            agent=change.agent,
            run_id=change.run_id,
            at=_time(change.created_at),
            changes=[HistoryField(**each._asdict()) for each in change.changes],
        )
        for change in history
    ]
    return TaskWithHistory(**dict(kept(task, now)), version=task.version, history=entries)


def _time(milliseconds: int) -> datetime:
    return utc(milliseconds / 1000)
