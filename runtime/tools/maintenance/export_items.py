"""`memory_export`: all items, a page at a time, for import into another store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from typing import NamedTuple

from runtime.errors import SymbiontError
from runtime.memory.errors import FsyncFailed, StoreError
from runtime.memory.item import Item
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store_types import Part
from runtime.search.entry import ALL_SUBJECTS
from runtime.tools.context import Context
from runtime.tools.cursor import read_cursor, write_cursor
from runtime.tools.maintenance.import_items import Equality, equality
from runtime.tools.memory.access import asked_user, memories_of, named_memories, sees_all, subject_filter, user_filter
from runtime.tools.memory.parameters import LONGEST_CURSOR, AnyAgent, Cursor, MemoryName, Page, User
from runtime.tools.memory.results import Difficulty, ExportedItem, ExportedItems
from runtime.tools.tool import tool

LARGEST_PAGE = 4 * 1024 * 1024
"""Number of characters of text after which a page is full."""


@tool("read", example={"agent": "reviewer", "limit": 200})
async def memory_export(
    context: Context,
    limit: Page = 500,
    agent: AnyAgent = None,
    user: User = None,
    memory: MemoryName = None,
    cursor: Cursor = None,
) -> ExportedItems:
    """Export all items, for import into any store.

    Items are in the order of the store: those of all users with the scope `admin`, else one's own. `copy_number` counts
    the equal items before one, so that an import can distinguish two equal items from a repeated one.
    """
    whose = user_filter(context, await asked_user(context, user))
    subject = subject_filter(context)
    begin = None if cursor is None else _Place.read(cursor)
    memories = named_memories(context, memory) if agent is None else await memories_of(context, agent, memory)
    page = _Page(limit)
    more = None
    for where, part in await _parts(memories, agent):
        at = where.name, part.agent_id, part.name
        if begin is not None and at < begin.part:
            continue
        try:
            # A cursor never contains counts or names of other users' data.
            items = [
                item
                for item, _ in await where.store.read(part)
                if whose in (None, item.user_id) and subject in (ALL_SUBJECTS, item.subject)
            ]
        except FsyncFailed:
            raise
        except StoreError as error:
            if sees_all(context):
                page.problems.append(Difficulty(file=part.name, message=error.line(), severity="error"))
            elif agent is not None or part.agent_id in context.agents:
                # The error names files, which only administrators may see.
                page.problems.append(Difficulty(file=part.name, message="it cannot be read", severity="error"))
            continue
        start = begin.count_returned(items) if begin is not None and at == begin.part else 0
        more = page.take(where, part, items, start)
        if more is not None:
            break
    if more is None and sees_all(context):
        page.problems += await _left_out(memories, agent, {problem.message for problem in page.problems})
    total = await _total(memories, agent, whose) if subject is ALL_SUBJECTS else None
    return ExportedItems(items=page.items, total=total, problems=page.problems, next_cursor=more)


class _Place(NamedTuple):
    """Position of an export: memory, agent and name of the part; number of its items that were returned; the last
    one."""

    part: tuple[str, str, str]
    seen: int
    last: str

    @classmethod
    def read(cls, cursor: str) -> _Place:
        """Parse a cursor. Raises UsageError."""
        memory, agent, part, seen, last = read_cursor(cursor, str, str, str, int, str, longest=LONGEST_CURSOR)
        assert isinstance(seen, int)
        return cls((str(memory), str(agent), str(part)), seen, str(last))

    def count_returned(self, items: Sequence[Item]) -> int:
        """Return how many of the items were returned, even if some were added or removed since: those up to the last
        one."""
        if 0 < self.seen <= len(items) and items[self.seen - 1].memory_id == self.last:
            return self.seen
        found = [place for place, item in enumerate(items, 1) if item.memory_id == self.last]
        return found[-1] if found else 0


class _Page:
    """The results collected for one answer."""

    def __init__(self, limit: int) -> None:
        self.items: list[ExportedItem] = []
        self.problems: list[Difficulty] = []
        self._limit = limit
        self._size = 0

    def take(self, where: OpenMemory, part: Part, items: Sequence[Item], start: int) -> str | None:
        """Add the requested items of a part from `start` on; return the cursor to continue with if they do not fit."""
        seen: Counter[Equality] = Counter()
        for place, item in enumerate(items):
            copies = seen[equality(item)]
            seen[equality(item)] += 1
            if place < start:
                continue
            if len(self.items) >= self._limit or (self.items and self._size + len(item.text) > LARGEST_PAGE):
                last = items[place - 1].memory_id if place else ""
                return write_cursor(where.name, part.agent_id, part.name, place, last)
            self._size += len(item.text)
            made = ExportedItem.model_construct(**dict(item), memory=where.name, copy_number=copies)
            self.items.append(made)
        return None


async def _left_out(memories: Sequence[OpenMemory], agent: str | None, said: Set[str]) -> list[Difficulty]:
    """Return problems that a store met while it was read, such as damaged records, without those reported before."""
    found = [problem for each in memories for problem in (await each.store.stats(agent)).problems]
    return [Difficulty.of(problem) for problem in found if problem.severity == "error" and problem.message not in said]


async def _parts(memories: Sequence[OpenMemory], agent: str | None) -> list[tuple[OpenMemory, Part]]:
    found = [(each, part) for each in memories for part in await each.store.parts(agent)]
    return sorted(found, key=lambda pair: (pair[0].name, pair[1].agent_id, pair[1].name))


async def _total(memories: Sequence[OpenMemory], agent: str | None, user: str | None) -> int | None:
    """Return the number of items from the indexes; items of other users are not counted for callers who may not see
    them."""
    if user is not None:
        return None
    try:
        return sum([(await each.index_stats(agent)).entries for each in memories])
    except FsyncFailed:
        raise
    except SymbiontError:
        return None
