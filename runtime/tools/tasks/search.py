"""The tool that searches tasks."""

from __future__ import annotations

from typing import Final

from runtime.clock import milliseconds, utc
from runtime.search.entry import EntryFilter
from runtime.search.question import Question
from runtime.tasks.index import task_of
from runtime.tasks.task import TaskFilter
from runtime.tools.context import Context
from runtime.tools.memory.access import data_subject
from runtime.tools.memory.parameters import WantedSubject
from runtime.tools.memory.search import shown_notes
from runtime.tools.tasks.manage import AllTags, FoundTasks, Limit, OfStatus, Query, kept_task, store_of
from runtime.tools.tool import tool

MOST_FOUND: Final = 100
"""Maximum number of items that a search finds."""
_NEAR: Final = 0.25
"""The least cosine of a task that has no word of the query. It is .22 to .68 for a title in other words, and what is
nearest to nonsense has .09 to .33: one task too many is preferred to none."""
_SHARE: Final = 0.7
"""Such a task has at least this share of the best cosine, so that a clear hit comes without others."""


@tool("read", indexes=True, example={"query": "what did I promise Ada", "limit": 10})
async def task_search(
    context: Context,
    query: Query,
    status: OfStatus = None,
    tags: AllTags = [],  # noqa: B006 - never changed
    subject: WantedSubject = None,
    limit: Limit = 20,
) -> FoundTasks:
    """Search the tasks of the user, by meaning and by words.

    At most a hundred are found.
    """
    if context.task_search is None:
        return FoundTasks(tasks=[], total=0, notes=["nothing can be searched: no program is loaded"])
    user_id, wanted = context.caller.user_id, TaskFilter(status, tuple(tags), data_subject(context, subject))
    # What an item's agent is to a memory is its user here, see `runtime.tasks.index`.
    among = EntryFilter(agent=user_id, user=user_id, project=status, tags_all=frozenset(tags), subject=wanted.subject)
    question = Question(text=query, now=utc(context.clock.now()), limit=MOST_FOUND, wanted=among)
    found = await context.task_search.search(question, context.progress, owner=context.call_owner)
    near = max(_NEAR, _SHARE * max((hit.cosine or 0 for hit in found.hits), default=0))
    fitting = [hit for hit in found.hits if hit.keyword_share or (hit.cosine or 0) >= near]
    ids = list(dict.fromkeys(task_of(hit.item) for hit in fitting))
    # The index may be behind: what is shown is what is stored, and passes the filter now.
    shown = ids[:limit]
    tasks = [task for task in await store_of(context).by_ids(user_id, shown) if wanted.wants(task)]
    now = milliseconds(context.clock)
    return FoundTasks(
        tasks=[kept_task(task, now) for task in tasks],
        total=len(ids) - len(shown) + len(tasks),
        notes=list(shown_notes(context, context.task_search, found.notes)),
    )
