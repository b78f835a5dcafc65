"""The tools that list, show, create, change and delete tasks. They act on the tasks of the caller alone, whatever its
scopes are, and in a run of a subject on those of the subject."""

from __future__ import annotations

from typing import Any

from runtime.clock import milliseconds
from runtime.errors import UsageError
from runtime.identity.user_settings import read_settings
from runtime.tasks.due import read_due
from runtime.tasks.errors import OK
from runtime.tasks.store import TaskStore
from runtime.tasks.task import Actor, Due, TaskFilter
from runtime.tools.context import Context
from runtime.tools.failure import wrong
from runtime.tools.memory.access import data_subject, own_subject
from runtime.tools.memory.parameters import OwnSubject, WantedSubject
from runtime.tools.patterns import EXAMPLE_ID
from runtime.tools.tasks.types import (
    AllTags,
    BulkResult,
    BulkResults,
    Clear,
    DeletedTask,
    Description,
    DueDate,
    KeptTask,
    Limit,
    NewPriority,
    NewStatus,
    NewTags,
    NewTitle,
    Offset,
    OfPriority,
    OfStatus,
    Tags,
    TagsAdd,
    TagsRemove,
    TaskId,
    TaskIds,
    TaskList,
    TaskWithHistory,
    Title,
    kept,
    with_history,
)
from runtime.tools.tool import tool


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
    return TaskList(tasks=[kept(task, now) for task in page.tasks], total=page.total)


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
    return kept(task, milliseconds(context.clock))


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
    return kept(task, milliseconds(context.clock))


@tool("write", idempotent=True, keyed=True, example={"task_id": EXAMPLE_ID})
async def task_complete(context: Context, task_id: TaskId) -> KeptTask:
    """Mark a task as completed."""
    store = store_of(context)
    task = await store.update(context.caller.user_id, task_id, {"status": "completed"}, actor_of(context))
    return kept(task, milliseconds(context.clock))


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
