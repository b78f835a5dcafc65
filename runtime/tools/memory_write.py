"""Writing into what agents remember: one item, or an export's."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pydantic import ValidationError

from runtime.clock import utc
from runtime.errors import SymbiontError, UsageError
from runtime.identity import Forbidden
from runtime.memory import FsyncFailed, Item, Provenance, RefusedItem, Scan, StoreError
from runtime.memory.opened import OpenMemory
from runtime.memory.store import LARGEST_TEXT, redacted_item
from runtime.tools.collection_types import PROJECT
from runtime.tools.context import Context
from runtime.tools.memory_access import home, kept, named, sees_all, tags_of
from runtime.tools.memory_types import (
    TYPES,
    Agent,
    Author,
    Commit,
    Confidence,
    DryRun,
    Evidence,
    ExportedItem,
    Gates,
    ImportedLine,
    ImportedLines,
    Into,
    Lines,
    MemoryName,
    Project,
    Risk,
    SessionId,
    Source,
    Tags,
    Task,
    Text,
    User,
    Written,
    WrittenItem,
)

_OURS = "symbiont:"
"""What addresses begin with that say what a delivery left behind: they are keys, and nobody else's to give."""


async def memory_write(
    context: Context,
    agent: Agent,
    text: Text,
    *,
    type: Written = "fact",  # noqa: A002 - the word of the design
    tags: Tags = [],  # noqa: B006 - nobody changes it
    project: Project = None,
    source_uri: Source = None,
    author: Author = None,
    session_id: SessionId = None,
    task: Task = None,
    confidence: Confidence = None,
    risk_tier: Risk = None,
    git_commit: Commit = None,
    sources: Evidence = [],  # noqa: B006
    gates: Gates = {},  # noqa: B006
    user: User = None,
    memory: MemoryName = None,
    dry_run: DryRun = False,
) -> WrittenItem:
    """Remember something, without the secrets in it.

    When it is answered, it is on disk. A fact, pattern or procedure that is there already is not written again.
    """
    if not text.strip():
        raise UsageError("the text is empty", hint="there is nothing to remember")
    if source_uri is not None and source_uri.startswith(_OURS):
        raise UsageError(f"source_uri: what begins with {_OURS} is given by the daemon")
    where = await home(context, agent, memory)
    kind, more = TYPES[type]
    # In a collection everything that is written by hand belongs to a project.
    of_none = PROJECT if "upsert" in where.store.capabilities else None
    item = Item(
        project_id=project or of_none,
        agent_id=agent,
        user_id=_whose(context, user),
        memory_type=kind,
        timestamp=utc(context.house.clock.now()),
        source_uri=source_uri,
        tags=tuple(tags_of(tags, more)),
        text=text,
        provenance=Provenance(
            author=author,
            session_id=session_id,
            task=task,
            confidence=confidence,
            risk_tier=risk_tier,
            git_commit=git_commit,
            sources=tuple(sources),
        ),
    )
    if gates and "gates" not in where.store.capabilities:
        raise UsageError(
            f"a write to the memory {where.name} has no gates to close", hint=f"leave out {', '.join(sorted(gates))}"
        )
    _may_show(context, where, sources)
    if dry_run:
        (record,) = await where.store.preview([item], gates=gates)
        return WrittenItem(outcome="dry_run", memory=where.name, item=None, record=record)
    written = await where.store.append([item], gates=gates)
    if not written:
        return WrittenItem(outcome="there", memory=where.name, item=None, record=None)
    return WrittenItem(outcome="stored", memory=where.name, item=kept(written[0], where), record=None)


_TICK = timedelta(microseconds=1)
_LAST = datetime.max.replace(tzinfo=UTC)
_THERE = ImportedLine(outcome="there", memory_id=None, reason=None)


def _whose(context: Context, user: str | None) -> str:
    """Raises Forbidden for another user's."""
    if user in {None, context.caller.user_id}:
        return context.caller.user_id
    if not sees_all(context):
        raise Forbidden("admin")
    assert user is not None
    return user


def _may_show(context: Context, where: OpenMemory, sources: Sequence[str]) -> None:
    """Raises UsageError where a gate would look for files of this machine, and so tell a user which there are."""
    named = [source for source in sources if source.startswith("/")]
    if named and "gates" in where.store.capabilities and not sees_all(context):
        raise UsageError(f"sources: {named[0]} is a file of the daemon's machine", hint="that needs the scope admin")


async def memory_import(
    context: Context,
    items: Lines,
    agent: Into = None,
    memory: MemoryName = None,
    gates: Gates = {},  # noqa: B006
) -> ImportedLines:
    """Remember items that were exported, from whichever store.

    They keep their times and all that is known of them. Each is answered for itself, in order. What is there already is
    not written again, so that importing twice changes nothing.
    """
    done: dict[int, ImportedLine] = {}
    groups: dict[tuple[str, str], list[_Line]] = defaultdict(list)
    targets: dict[tuple[str | None, str], OpenMemory] = {}
    for number, given in enumerate(items):
        try:
            # Finding secrets in a long text takes a while.
            line = await asyncio.to_thread(_line, context, number, given, agent)
            target = memory or line.memory, line.item.agent_id
            if target not in targets:
                targets[target] = await _target(context, *target)
            _may_show(context, targets[target], line.item.provenance.sources)
        except (UsageError, RefusedItem) as error:
            done[number] = _refused(error)
        else:
            groups[targets[target].name, line.item.agent_id].append(line)
    for (name, _), group in groups.items():
        done.update(await _put(context.house.memories[name], group, gates))
    counts = Counter(line.outcome for line in done.values())
    lines = [done[number] for number in range(len(items))]
    return ImportedLines(lines=lines, stored=counts["stored"], there=counts["there"], refused=counts["refused"])


class _Line(NamedTuple):
    """An item that is to be imported: its place among the others, the memory it names, and how many equal ones were
    before it where it is from."""

    number: int
    item: Item
    memory: str | None
    copy_number: int


def _line(context: Context, number: int, given: Mapping[str, Any], agent: str | None) -> _Line:
    """Raises UsageError, RefusedItem."""
    try:
        read = ExportedItem.model_validate({**given, "memory": given.get("memory") or "", "memory_id": ""})
    except ValidationError as error:
        told = (
            f"{'.'.join(map(str, each['loc']))}: {each['msg'].removeprefix('Value error, ')}".removeprefix(": ")
            for each in error.errors(include_input=False, include_url=False)
        )
        raise UsageError("; ".join(told)) from None
    if not read.text.strip():
        raise UsageError("text: there is none")
    if len(read.text) > LARGEST_TEXT:
        # Before secrets are looked for in it.
        raise UsageError(f"text: {len(read.text):,} characters are too many", hint=f"at most {LARGEST_TEXT:,}")
    if read.user_id != context.caller.user_id and not sees_all(context):
        raise UsageError(f"it is {read.user_id}'s", hint="another user's needs the scope admin")
    if (read.source_uri or "").startswith(_OURS) and not sees_all(context):
        raise UsageError(f"source_uri: what begins with {_OURS} needs the scope admin")
    fields = dict(read)
    name, copies = fields.pop("memory"), fields.pop("copy_number")
    if agent is not None:
        fields["agent_id"] = agent
    return _Line(number, redacted_item(Item(**fields)), name or None, copies)


async def _target(context: Context, memory: str | None, agent: str) -> OpenMemory:
    """The memory that an agent's lines go to. Raises NotFound.

    An administrator may bring back an agent that nobody knows any more; the store refuses a name that cannot be one.
    """
    if not sees_all(context):
        return await home(context, agent, memory)
    (target, *_) = named(context, memory or context.house.memory_of(agent))
    return target


async def _put(where: OpenMemory, lines: Sequence[_Line], gates: Mapping[str, str]) -> dict[int, ImportedLine]:
    """Append what is not there yet of one agent's lines: all at once if the store takes all, else one by one."""
    done: dict[int, ImportedLine] = {}
    new: list[_Line] = []
    try:
        there = await _there(where, lines)
        for line in lines:
            if line.copy_number < there[equality(line.item)]:
                done[line.number] = _THERE
            else:
                there[equality(line.item)] += 1
                new.append(line)
        return done | await _append(where, new, gates)
    except FsyncFailed:
        raise
    except StoreError as error:
        if not new or not isinstance(error, RefusedItem):
            return {line.number: _refused(error) for line in lines} | done
    for line in new:
        try:
            done |= await _append(where, [line], gates)
        except RefusedItem as error:
            done[line.number] = _refused(error)
    return done


async def _append(where: OpenMemory, lines: Sequence[_Line], gates: Mapping[str, str]) -> dict[int, ImportedLine]:
    written: dict[Equality, list[str]] = defaultdict(list)
    for item in await where.store.append([line.item for line in lines], gates=gates):
        written[equality(item)].append(item.memory_id)
    done = {}
    for line in lines:
        ids = written[equality(line.item)]
        done[line.number] = ImportedLine(outcome="stored", memory_id=ids.pop(0), reason=None) if ids else _THERE
    return done


async def _there(where: OpenMemory, lines: Sequence[_Line]) -> Counter[Equality]:
    """How many of each of these items the store has. Raises StoreError."""
    wanted = {equality(line.item) for line in lines}
    times = [line.item.timestamp for line in lines]
    last = max(times)
    until = last + _TICK if last < _LAST else None
    found: Counter[Equality] = Counter()
    async for item in where.store.scan(Scan(agent_id=lines[0].item.agent_id, since=min(times), until=until)):
        key = equality(item)
        if key in wanted:
            found[key] += 1
    return found


Equality = tuple[object, ...]


def equality(item: Item) -> Equality:
    """What makes two items equal: everything but their ids and the spacing of their texts."""
    return (
        *(item.agent_id, item.user_id, item.memory_type, item.project_id, item.timestamp, item.source_uri),
        *(item.chunk_hash, item.tags, item.source_memory_ids, item.provenance),
    )


def _refused(error: SymbiontError) -> ImportedLine:
    return ImportedLine(outcome="refused", memory_id=None, reason=error.line())
