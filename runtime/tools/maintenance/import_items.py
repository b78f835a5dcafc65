"""`memory_import`: imports exported items from any store, each line on its own."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

import structlog
from pydantic import ValidationError

from runtime.errors import SymbiontError, UsageError
from runtime.memory.errors import FsyncFailed, RefusedItem, StoreError
from runtime.memory.item import RESERVED, Item, is_id
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store import LARGEST_TEXT, RedactedItems, redacted_item
from runtime.memory.store_types import Scan
from runtime.tools.context import Context
from runtime.tools.memory.access import home_memory, named_memories, sees_all
from runtime.tools.memory.parameters import Gates, Into, Lines, MemoryToImport
from runtime.tools.memory.results import ExportedItem, ImportedLine, ImportedLines
from runtime.tools.memory.write import check_sources
from runtime.tools.tool import LARGEST_ITEMS, WrongParameters, tool
from runtime.tools.validation_errors import problems_of, size_problems

log = structlog.get_logger("symbiont.memory")

_TICK = timedelta(microseconds=1)
_LAST = datetime.max.replace(tzinfo=UTC)


@tool(
    "write",
    stores=True,
    largest=LARGEST_ITEMS,
    idempotent=True,
    long=True,
    example={
        "items": [
            {
                "agent_id": "reviewer",
                "memory_type": "semantic",
                "timestamp": "2026-11-20T08:30:00Z",
                "text": "The API takes 100 requests a minute",
            }
        ]
    },
)
async def memory_import(
    context: Context,
    items: Lines,
    agent: Into = None,
    memory: MemoryToImport = None,
    gates: Gates = {},  # noqa: B006
) -> ImportedLines:
    """Import exported items from any store.

    Items keep their times and other fields. The result lists the outcome of each, in order. Existing items are not
    written again, so a repeated import changes nothing. With the scope `admin` items also keep their ids, in
    collections and records. If an id changes, items that name it get the new one.
    """
    work = _Import(context, gates)
    lines: list[_Line] = []
    targets: dict[tuple[str | None, str], OpenMemory] = {}
    for number, given in enumerate(items):
        try:
            # Finding secrets in a long text takes a while, so it runs in a thread.
            line = await asyncio.to_thread(_line, context, number, given, agent)
            target = memory or line.memory, line.item.agent_id
            if target not in targets:
                targets[target] = await _target(context, *target)
            check_sources(context, targets[target], line.item.provenance.sources)
        except (UsageError, RefusedItem) as error:
            work.refuse(number, error)
        else:
            lines.append(line._replace(memory=targets[target].name))
    for some in _ordered_groups(lines):
        groups: dict[tuple[str | None, str], list[_Line]] = defaultdict(list)
        for line in some:
            groups[line.memory, line.item.agent_id].append(work.with_new_ids(line))
        for (name, _), group in groups.items():
            assert name is not None
            await work.put(context.memories[name], group)
    counts = Counter(line.outcome for line in work.done.values())
    results = [work.done[number] for number in range(len(items))]
    return ImportedLines(lines=results, stored=counts["stored"], there=counts["there"], refused=counts["refused"])


class _Line(NamedTuple):
    """An item to import: its position, its target memory, the number of equal items before it in its source, and its
    id there."""

    number: int
    item: Item
    memory: str | None
    copy_number: int
    own_id: str


def _line(context: Context, number: int, given: Mapping[str, Any], agent: str | None) -> _Line:
    """Validate one line. Raises UsageError, RefusedItem."""
    own = {"memory": given.get("memory") or "", "user_id": given.get("user_id") or context.caller.user_id}
    if problems := size_problems(given, ExportedItem):
        raise WrongParameters(None, problems)
    try:
        read = ExportedItem.model_validate({**given, **own, "memory_id": given.get("memory_id") or ""})
    except ValidationError as error:
        raise WrongParameters(None, problems_of(error, ExportedItem)) from None
    if not read.text.strip():
        raise UsageError("text: it is missing")
    if len(read.text) > LARGEST_TEXT:
        # Checked before the text is searched for secrets.
        raise UsageError(f"text: {len(read.text):,} characters are too many", hint=f"at most {LARGEST_TEXT:,}")
    if read.user_id != context.caller.user_id and not sees_all(context):
        raise UsageError(f"it is {read.user_id}'s", hint="an item of another user requires the scope admin")
    ours = [each for each in (read.source_uri, *read.other_sources) if each is not None and each.startswith(RESERVED)]
    if ours and not sees_all(context):
        raise UsageError(f"source_uri: values that begin with {RESERVED} require the scope admin")
    fields = dict(read)
    name, copies, own_id = fields.pop("memory"), fields.pop("copy_number"), fields["memory_id"]
    # For another agent it becomes a copy. And for a caller who does not see all items, a refused id would reveal that
    # another user's item has it.
    if not sees_all(context) or agent not in {None, read.agent_id} or not is_id(own_id):
        fields["memory_id"] = ""
    if agent is not None:
        fields["agent_id"] = agent
    if context.acting is not None:
        fields["subject"] = context.acting.subject
    return _Line(number, redacted_item(Item(**fields)), name or None, copies, own_id)


def _ordered_groups(lines: Sequence[_Line]) -> Iterator[list[_Line]]:
    """Yield the lines in groups; each group follows the items that its items name.

    A fact that was stored again after an equal one was replaced follows the item that replaced that one: before it, a
    store that holds facts as a set would not store it.
    """
    waiting = list(lines)
    after = _required_ids(lines)
    while waiting:
        ids = {line.own_id for line in waiting}
        ready = [line for line in waiting if ids.isdisjoint(after[line.number] - {line.own_id})]
        # Items that name one another have no order.
        yield ready or waiting
        numbers = {line.number for line in ready or waiting}
        waiting = [line for line in waiting if line.number not in numbers]


def _required_ids(lines: Sequence[_Line]) -> dict[int, set[str]]:
    """Return, by the number of each line, the ids of the items that must be stored first."""
    newer = {line.item.replaces: line.own_id for line in lines if line.item.replaces is not None}
    of_fact: dict[Equality, set[str]] = defaultdict(set)
    for line in lines:
        if line.own_id in newer:
            of_fact[_content_key(line.item)].add(newer[line.own_id])
    return {
        line.number: _linked_ids(line.item) | (set() if line.own_id in newer else of_fact[_content_key(line.item)])
        for line in lines
    }


def _linked_ids(item: Item) -> set[str]:
    """Return the ids of the items that it names: its sources, and what it replaces or retracts."""
    return {each for each in (*item.source_memory_ids, item.replaces, item.retracts) if each is not None}


async def _target(context: Context, memory: str | None, agent: str) -> OpenMemory:
    """Return the memory for an agent's lines. Raises NotFound.

    An administrator may restore an agent that is otherwise unknown; the store refuses impossible names.
    """
    if not sees_all(context):
        return await home_memory(context, agent, memory)
    (target, *_) = named_memories(context, memory or context.memories.name_of(agent))
    return target


class _Import:
    """Results of the lines so far."""

    def __init__(self, context: Context, gates: Mapping[str, str]) -> None:
        self.done: dict[int, ImportedLine] = {}
        self._context = context
        self._gates = gates
        self._changed: dict[str, str] = {}
        """New ids of items whose id changed."""

    def with_new_ids(self, line: _Line) -> _Line:
        """Return the line with the new ids of the items that its item names."""
        item, new = line.item, self._changed
        if new.keys().isdisjoint(_linked_ids(item)):
            return line
        fields = {
            "source_memory_ids": tuple(new.get(each, each) for each in item.source_memory_ids),
            **{name: new.get(getattr(item, name), getattr(item, name)) for name in ("replaces", "retracts")},
        }
        return line._replace(item=item.model_copy(update=fields))

    def refuse(self, number: int, error: SymbiontError) -> None:
        """Record that a line was refused. Messages of the store about files and the database are for administrators
        only."""
        reason = error.line()
        if not isinstance(error, UsageError | RefusedItem) and not sees_all(self._context):
            log.warning("item_not_imported", user_id=self._context.caller.user_id, reason=reason)
            reason = "it could not be stored; see the daemon's log"
        self.done[number] = ImportedLine(outcome="refused", memory_id=None, reason=reason)

    def _record(self, line: _Line, memory_id: str | None, *, stored: bool) -> None:
        if line.own_id and memory_id and memory_id != line.own_id:
            self._changed[line.own_id] = memory_id
        outcome: Literal["stored", "there"] = "stored" if stored else "there"
        self.done[line.number] = ImportedLine(outcome=outcome, memory_id=memory_id or None, reason=None)

    async def put(self, where: OpenMemory, lines: Sequence[_Line]) -> None:
        """Append the missing items of one agent's lines: all at once if the store accepts all, else one by one."""
        new: list[_Line] = []
        try:
            new = self._new(where, lines, await _stored_items(where, lines))
            await self._append(where, new)
        except FsyncFailed:
            raise
        except StoreError as error:
            if not new or not isinstance(error, RefusedItem):
                for line in lines:
                    if line.number not in self.done:
                        self.refuse(line.number, error)
                return
            for line in new:
                try:
                    await self._append(where, [line])
                except RefusedItem as refused:
                    self.refuse(line.number, refused)

    def _new(self, where: OpenMemory, lines: Sequence[_Line], there: _StoredItems) -> list[_Line]:
        """Return the lines that are not stored yet. A line whose id belongs to another item is refused."""
        new: list[_Line] = []
        for line in lines:
            known = there.id_of(line)
            if known is not None:
                self._record(line, known, stored=False)
            elif "keep_ids" in where.store.capabilities and line.item.memory_id in there.by_id:
                taken = f"the id {line.item.memory_id} belongs to another item here, or to a changed copy of this one"
                self.refuse(line.number, UsageError(taken, hint="the existing item is not changed"))
            else:
                there.add_line(line)
                new.append(line)
        return new

    async def _append(self, where: OpenMemory, lines: Sequence[_Line]) -> None:
        written: dict[Equality, list[str]] = defaultdict(list)
        for item in await where.store.append(RedactedItems(line.item for line in lines), gates=self._gates):
            written[equality(item)].append(item.memory_id)
        left = []
        for line in lines:
            ids = written[equality(line.item)]
            if ids:
                self._record(line, ids.pop(0), stored=True)
            else:
                left.append(line)
        if left:
            # The store contains the same item as part of a set, with another time or other tags.
            held = await _ids_by_content(where, left)
            for line in left:
                self._record(line, held.get(_content_key(line.item)), stored=False)


class _StoredItems:
    """The stored items among some lines, by equality key and by id."""

    def __init__(self) -> None:
        self.by_id: dict[str, Item] = {}
        self._equal: dict[Equality, list[str]] = defaultdict(list)

    def add(self, item: Item) -> None:
        """Record that the item exists."""
        if item.memory_id not in self.by_id:
            self.by_id[item.memory_id] = item
            self._equal[equality(item)].append(item.memory_id)

    def add_line(self, line: _Line) -> None:
        """Record that the line's item will exist, with an id that may not be known yet."""
        self._equal[equality(line.item)].append(line.item.memory_id)
        if line.item.memory_id:
            self.by_id[line.item.memory_id] = line.item

    def id_of(self, line: _Line) -> str | None:
        """Return the id of the line's item, '' if it is not known yet; None if the item is missing."""
        same = self._equal[equality(line.item)]
        if line.item.memory_id and line.item.memory_id in same:
            return line.item.memory_id
        return same[line.copy_number] if line.copy_number < len(same) else None


async def _stored_items(where: OpenMemory, lines: Sequence[_Line]) -> _StoredItems:
    """Raises StoreError."""
    wanted = {equality(line.item) for line in lines}
    ids = frozenset(line.item.memory_id for line in lines if line.item.memory_id)
    times = [line.item.timestamp for line in lines]
    last = max(times)
    until = last + _TICK if last < _LAST else None
    found = _StoredItems()
    async for item in where.store.scan(Scan(agent_id=lines[0].item.agent_id, since=min(times), until=until)):
        if item.memory_id in ids or equality(item) in wanted:
            found.add(item)
    if ids and where.collection is not None:
        # A collection looks up ids of all users; other stores would have to read everything.
        async for item in where.store.scan(Scan(memory_ids=ids)):
            found.add(item)
    return found


async def _ids_by_content(where: OpenMemory, lines: Sequence[_Line]) -> dict[Equality, str]:
    """Return the ids of the first items with the same content as these. Raises StoreError."""
    wanted = {_content_key(line.item) for line in lines}
    found: dict[Equality, str] = {}
    async for item in where.store.scan(Scan(agent_id=lines[0].item.agent_id)):
        if (said := _content_key(item)) in wanted:
            found.setdefault(said, item.memory_id)
    return found


Equality = tuple[object, ...]


def equality(item: Item) -> Equality:
    """Return the key of equal items: all fields except ids and the spacing of texts."""
    return (
        *(item.agent_id, item.user_id, item.memory_type, item.project_id, item.timestamp, item.source_uri),
        *(item.chunk_hash, item.tags, item.source_memory_ids, item.provenance),
        *(item.subject, item.replaces, item.retracts),
    )


def _content_key(item: Item) -> Equality:
    return item.user_id, item.memory_type, item.project_id, item.chunk_hash, item.subject
