"""The tools that list, show, create, change and delete tasks. They act on the tasks of the caller alone, whatever its
scopes are, and in a run of a subject on those of the subject."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal
from unicodedata import category

from pydantic import AfterValidator, Field

from runtime.clock import milliseconds
from runtime.errors import UsageError
from runtime.identity.user_settings import read_settings
from runtime.memory.item import tag_form
from runtime.tasks import task as stored
from runtime.tasks.due import due_text, read_due
from runtime.tasks.store import TaskStore
from runtime.tasks.task import (
    LONGEST_DESCRIPTION,
    LONGEST_TAG,
    LONGEST_TITLE,
    MOST_TAGS,
    OK,
    Actor,
    Due,
    Priority,
    Source,
    Status,
    TaskFilter,
)
from runtime.tools.context import Context
from runtime.tools.failure import wrong
from runtime.tools.memory.access import data_subject, own_subject
from runtime.tools.memory.parameters import OwnSubject, WantedSubject
from runtime.tools.patterns import EXAMPLE_ID, ONE_OR_MORE, UNIQUE, UUID
from runtime.tools.result import Result, UnixTime
from runtime.tools.tool import tool

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


def _not_blank(value: str) -> str:
    if all(category(each) in _INVISIBLE for each in value):
        raise ValueError("it is blank")
    return value


_Id = Annotated[str, Field(pattern=UUID)]
_Tag = Annotated[str, Field(min_length=1, max_length=LONGEST_TAG), AfterValidator(_tag)]
_TagList = Annotated[list[_Tag], Field(max_length=MOST_TAGS), UNIQUE, ONE_OR_MORE]
_Title = Annotated[str, Field(min_length=1, max_length=LONGEST_TITLE), AfterValidator(_not_blank)]
_DueDate = Annotated[str, Field(min_length=1, max_length=100)]
_Cleared = Literal["due_date", "description"]

TaskId = Annotated[str, Field(pattern=UUID, description="The task's id.")]
TaskIds = Annotated[
    Annotated[list[_Id], UNIQUE],
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
    created_at: UnixTime
    updated_at: UnixTime
    completed_at: UnixTime | None
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
    at: UnixTime
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


def kept_task(task: stored.Task, now: int) -> KeptTask:
    """Return a task as tools show it at `now` (Unix milliseconds)."""
    return KeptTask.of(task, **_renamed_fields(task, now))


def _renamed_fields(task: stored.Task, now: int) -> dict[str, Any]:
    """Return the fields of a result that a task has under no name or another one."""
    return {"task_id": task.id, "due_date": due_text(task.due), "overdue": task.is_overdue(now)}


def with_history(task: stored.Task, history: Sequence[stored.TaskChange], now: int) -> TaskWithHistory:
    """Return a task with its changes."""
    entries = [
        HistoryEntry.of(change, at=change.created_at, changes=[each._asdict() for each in change.changes])
        for change in history
    ]
    return TaskWithHistory.of(task, **_renamed_fields(task, now), history=entries)


@tool("read", example={"status": "pending", "tags": ["work"], "limit": 20})
async def task_list(
    context: Context,
    status: OfStatus = None,
    tags: AllTags = [],  # noqa: B006 - never changed
    subject: WantedSubject = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> TaskList:
    """List the tasks of the user, the newest first."""
    wanted = TaskFilter(status, tuple(tags), data_subject(context, subject))
    page = await store_of(context).page(context.caller.user_id, wanted, limit=limit, offset=offset)
    now = milliseconds(context.clock)
    return TaskList(tasks=[kept_task(task, now) for task in page.tasks], total=page.total)


@tool("read", example={"task_id": EXAMPLE_ID})
async def task_show(context: Context, task_id: TaskId) -> TaskWithHistory:
    """Show a task with its history: who changed what, and when."""
    store, user_id = store_of(context), context.caller.user_id
    task = await store.get(user_id, task_id, data_subject(context))
    return with_history(task, await store.history(user_id, task_id), milliseconds(context.clock))


@tool(
    "write",
    keyed=True,
    example={
        "title": "Call Ada",
        "priority": "high",
        "due_date": "2026-12-01",
        "tags": ["work"],
    },
)
async def task_create(
    context: Context,
    title: Title,
    description: Description = None,
    priority: OfPriority = "normal",
    due_date: DueDate = None,
    tags: Tags = [],  # noqa: B006
    subject: OwnSubject = None,
) -> KeptTask:
    """Create a task: something to be done, which the user sees and can tick off."""
    task = await store_of(context).create(
        context.caller.user_id,
        actor_of(context),
        title=title,
        description=description or None,
        priority=priority,
        due=await _due(context, due_date),
        tags=tags,
        subject=own_subject(context, subject),
    )
    return kept_task(task, milliseconds(context.clock))


@tool(
    "write",
    idempotent=True,
    keyed=True,
    example={"task_id": EXAMPLE_ID, "status": "in_progress", "clear": ["due_date"]},
)
async def task_update(
    context: Context,
    task_id: TaskId,
    *,
    title: NewTitle = None,
    description: Description = None,
    status: NewStatus = None,
    priority: NewPriority = None,
    due_date: DueDate = None,
    tags: NewTags = None,
    clear: Clear = [],  # noqa: B006
) -> KeptTask:
    """Change a task. Fields that are not given stay; `clear` empties some."""
    given: dict[str, Any] = {
        "title": title,
        "description": description,
        "status": status,
        "priority": priority,
        "due": await _due(context, due_date),
        "tags": tags,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    for name in clear:
        field = "due" if name == "due_date" else name
        if field in changes:
            raise wrong("clear", f"{name} is given too", hint="give its new value, or clear it")
        changes[field] = None
    if not changes:
        raise UsageError("there is nothing to change", hint="give one or more fields, or `clear`")
    task = await store_of(context).update(context.caller.user_id, task_id, changes, actor_of(context))
    return kept_task(task, milliseconds(context.clock))


@tool("write", idempotent=True, keyed=True, example={"task_id": EXAMPLE_ID})
async def task_complete(context: Context, task_id: TaskId) -> KeptTask:
    """Mark a task as completed."""
    store = store_of(context)
    task = await store.update(context.caller.user_id, task_id, {"status": "completed"}, actor_of(context))
    return kept_task(task, milliseconds(context.clock))


@tool("write", idempotent=True, destructive=True, example={"task_id": EXAMPLE_ID})
async def task_delete(context: Context, task_id: TaskId) -> DeletedTask:
    """Delete a task with its history permanently.

    To keep it, give it the status `cancelled`.
    """
    await store_of(context).delete(context.caller.user_id, task_id, actor_of(context))
    return DeletedTask(task_id=task_id)


@tool(
    "write",
    idempotent=True,
    keyed=True,
    example={"task_ids": [EXAMPLE_ID], "status": "completed", "tags_add": ["done"]},
)
async def task_bulk_update(
    context: Context,
    task_ids: TaskIds,
    status: NewStatus = None,
    tags_add: TagsAdd = [],  # noqa: B006
    tags_remove: TagsRemove = [],  # noqa: B006
) -> BulkResults:
    """Change several tasks together.

    If one of them cannot be changed, none is, and the error says why.
    """
    if status is None and not tags_add and not tags_remove:
        raise UsageError("there is nothing to change", hint="give `status`, `tags_add` or `tags_remove`")
    await store_of(context).bulk_update(
        context.caller.user_id,
        task_ids,
        actor_of(context),
        status=status,
        tags_add=tags_add,
        tags_remove=tags_remove,
    )
    return BulkResults(results=[BulkResult(task_id=task_id, result=OK) for task_id in task_ids])


def store_of(context: Context) -> TaskStore:
    """Return the store of tasks."""
    return context.tasks or TaskStore(context.database, context.clock)


def actor_of(context: Context) -> Actor:
    """Return who acts: the agent, or the surface of the call."""
    acting = context.acting
    if acting is None:
        return Actor(context.caller.via)
    run_id, subject = acting.run_id or None, data_subject(context)
    return Actor("agent", acting.agent, run_id, acting.attempt, acting.key, acting.webhook, subject)


async def _due(context: Context, text: str | None) -> Due | None:
    if text is None:
        return None
    try:
        return read_due(text, (await read_settings(context.database, context.caller.user_id)).zone)
    except UsageError as error:
        raise wrong("due_date", str(error), hint=error.hint) from None
