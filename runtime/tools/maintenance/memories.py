"""Maintenance of memories: statistics, compaction, deletion, verification."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date

import structlog

from runtime.clock import utc
from runtime.errors import SymbiontError, UsageError
from runtime.memory.errors import FsyncFailed, StoreError, Unsupported
from runtime.memory.item import Item
from runtime.memory.items.copies import forget_copies_of
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store_types import Scan
from runtime.search.index.index import IndexStats
from runtime.tools.context import Context
from runtime.tools.memory.access import (
    asked_user,
    items_of,
    memories_of,
    memory_agents,
    named_memories,
    need_all_subjects,
    user_filter,
)
from runtime.tools.memory.parameters import Agent, AnyAgent, Day, DryRun, MemoryName, MemoryToInspect, User
from runtime.tools.memory.results import (
    AgentMemoryState,
    AgentVerification,
    CompactionResult,
    Difficulty,
    MemoryCompaction,
    MemoryFile,
    MemoryFiles,
    MemoryPurge,
    MemoryReindex,
    MemoryState,
    MemoryStats,
    PurgeResult,
    ReindexResult,
    VerificationResult,
)
from runtime.tools.tool import tool

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\Z", re.ASCII)


@tool("admin", read_only=True, example={"agent": "reviewer", "day": "2026-11-20"})
async def memory_inspect(
    context: Context, agent: Agent, day: Day = None, memory: MemoryToInspect = None
) -> MemoryFiles:
    """Show the memory file of an agent and its log of a day, unchanged."""
    if context.acting is not None:
        # A file has the items of all subjects.
        raise UsageError("an agent cannot read memory files", hint="use archival_search or memory_list")
    wanted = _day(context, day)
    where = (await memories_of(context, agent, memory))[0]
    seen = await where.store.inspect(agent, wanted)
    return MemoryFiles(
        agent=agent,
        name=where.name,
        memory=MemoryFile(path=seen.memory_file, text=seen.memory),
        log=MemoryFile(path=seen.log_file, text=seen.log),
    )


def _day(context: Context, given: str | None) -> date:
    if given is None:
        return utc(context.clock.now()).date()
    try:
        if not _DAY.match(given):
            raise ValueError
        return date.fromisoformat(given)
    except ValueError:
        raise UsageError(f"{given!r} is not a day", hint="write YYYY-MM-DD") from None


log = structlog.get_logger("symbiont.memory")


@tool("read", example={"agent": "reviewer"})
async def memory_stats(context: Context, agent: AnyAgent = None, memory: MemoryName = None) -> MemoryStats:
    """Count the items of agents, and list problems.

    Without the scope `admin`, only one's own items are counted.
    """
    need_all_subjects(context)
    whose = user_filter(context, None)
    if whose is not None:
        owned = [await _user_state(each, name, whose) for each, name in await memory_agents(context, agent, memory)]
        known = context.agents
        rows = [row for row in owned if row.items or agent is not None or (row.problems and row.agent in known)]
        return MemoryStats(agents=rows, memories=[])
    found = await memory_agents(context, agent, memory)
    states = [
        MemoryState(
            memory=each.name,
            store=each.block.store.name,
            capabilities=sorted(each.store.capabilities),
            embedding=each.embedding,
            problems=list(each.problems),
        )
        for each in named_memories(context, memory)
        if agent is None or any(where is each for where, _ in found)
    ]
    return MemoryStats(agents=[await _agent_state(each, name) for each, name in found], memories=states)


@tool("admin", idempotent=True, destructive=True, long=True, example={"agent": "reviewer"})
async def memory_compact(context: Context, agent: Agent, memory: MemoryName = None) -> CompactionResult:
    """Copy long-term entries of an agent's logs to its memory file.

    Then logs older than the declared retention are deleted. A repeated call copies nothing twice.
    """
    now = utc(context.clock.now())
    done = []
    for each in await memories_of(context, agent, memory):
        did = await each.compact(agent, now)
        left = [Difficulty.of(problem) for problem in did.problems]
        done.append(MemoryCompaction(memory=each.name, flushed=did.flushed, deleted=did.deleted, problems=left))
    _log_change(context, "compacted", agent)
    return CompactionResult(agent=agent, memories=done)


@tool("admin", destructive=True, example={"agent": "reviewer", "dry_run": True})
async def memory_purge(
    context: Context, agent: AnyAgent = None, user: User = None, memory: MemoryName = None, dry_run: DryRun = False
) -> PurgeResult:
    """Delete everything of an agent or of a user.

    With `user` only the items of that user are deleted, those of one agent or, without `agent`, of all agents. This
    includes records, which are otherwise never deleted.
    """
    need_all_subjects(context)
    if user is not None:
        return await _purge_user(context, agent, user, memory, dry_run=dry_run)
    if agent is None:
        raise UsageError("there is nothing to delete", hint="give agent, user or both")
    going: list[tuple[OpenMemory, MemoryPurge]] = []
    found = await memories_of(context, agent, memory)
    able = " or ".join(each.name for each in found if "remove" in each.store.capabilities)
    for each in found:
        if "remove" not in each.store.capabilities:
            raise Unsupported(
                f"the memory {each.name} stores {each.block.store.name}, which are never deleted",
                hint=f"name the memory to purge: {able}"
                if able
                else "if necessary, delete its folder by hand while no daemon runs",
            )
        stats, index = await each.store.stats(agent), await _index(each, agent)
        if stats.agents:
            going.append((each, MemoryPurge(memory=each.name, files=stats.files, items=index and index.entries)))
    if not dry_run:
        for each, _ in going:
            await forget_copies_of(context.database, await _readable(each, Scan(agent_id=agent)))
            await each.remove(agent)
        _log_change(context, "purged", agent)
    return PurgeResult(agent=agent, memories=[gone for _, gone in going], notes=[], dry_run=dry_run)


async def _purge_user(
    context: Context, agent: str | None, user: str, memory: str | None, *, dry_run: bool
) -> PurgeResult:
    user_id = await asked_user(context, user)
    assert user_id is not None
    found: list[MemoryPurge] = []
    notes: list[str] = []
    for each in named_memories(context, memory) if agent is None else await memories_of(context, agent, memory):
        if dry_run:
            count = sum([1 async for _ in each.store.scan(Scan(agent_id=agent, user_id=user_id))])
        else:
            own = await _readable(each, Scan(agent_id=agent, user_id=user_id))
            await forget_copies_of(context.database, own)
            count, problems = await each.forget_user(user_id, agent)
            notes += [f"the index of {each.name} may still contain some: {problem}" for problem in problems]
        remote = each.block.store.options.get("remote")
        if count and remote is not None:
            notes.append(f"copies that the memory {each.name} has sent to {remote.name} are not deleted")
        if count:
            found.append(MemoryPurge(memory=each.name, files=0, items=count))
    if not dry_run:
        _log_change(context, "purged", agent, of=user_id)
    return PurgeResult(agent=agent, memories=found, notes=notes, dry_run=dry_run)


async def _readable(memory: OpenMemory, wanted: Scan) -> list[Item]:
    """Return the items up to the first damaged one, which is deleted as well."""
    found: list[Item] = []
    with suppress(StoreError):
        async for item in memory.store.scan(wanted):
            found.append(item)  # noqa: PERF401 - what was read before an error stays
    return found


@tool("admin", idempotent=True, long=True, example={"memory": "notes"})
async def memory_reindex(context: Context, agent: AnyAgent = None, memory: MemoryName = None) -> ReindexResult:
    """Rebuild the search index, including vectors."""
    done = []
    for each in named_memories(context, memory) if agent is None else await memories_of(context, agent, memory):
        report = await each.reindex(agent, context.progress)
        stats = await each.index_stats(agent)
        done.append(
            MemoryReindex(
                memory=each.name,
                parts=report.parts,
                items=stats.entries,
                embedded=stats.embedded,
                problems=list(report.problems),
            )
        )
    return ReindexResult(memories=done)


@tool("admin", read_only=True, long=True, example={"agent": "reviewer"})
async def memory_verify(context: Context, agent: AnyAgent = None, memory: MemoryName = None) -> VerificationResult:
    """Read everything, and report damaged items."""
    rows = await memory_agents(context, agent, memory)
    found = []
    for number, (each, name) in enumerate(rows):
        context.progress("reading", number, len(rows))
        found.append(await _verify_agent(each, name))
    context.progress("reading", len(rows), len(rows))
    good = not any(problem.severity == "error" for row in found for problem in row.problems)
    return VerificationResult(agents=found, good=good)


async def _verify_agent(memory: OpenMemory, agent: str) -> AgentVerification:
    files, problems = await memory.store.verify(agent)
    said = [Difficulty.of(problem) for problem in problems]
    items = 0
    for part in await memory.store.parts(agent):
        try:
            items += len(await memory.store.read(part))
        except FsyncFailed:
            raise
        except StoreError as error:
            # A known problem already names its file.
            if not any(each.severity == "error" and each.file in str(error) for each in problems):
                said.append(Difficulty(file=part.name, message=error.line(), severity="error"))
    return AgentVerification(agent=agent, memory=memory.name, files=files, items=items, problems=said)


async def _agent_state(memory: OpenMemory, agent: str) -> AgentMemoryState:
    stats = await memory.store.stats(agent)
    problems = [Difficulty.of(problem) for problem in stats.problems]
    index = await _index(memory, agent)
    return AgentMemoryState.of(
        stats,
        agent=agent,
        memory=memory.name,
        items=index and index.entries,
        embedded=index and index.embedded,
        pending=index and (index.entries - index.embedded if memory.embedding else 0),
        problems=problems,
    )


async def _user_state(memory: OpenMemory, agent: str, user: str) -> AgentMemoryState:
    """Return the statistics of one user's items; files and index are shared by all users."""
    days: list[date] = []
    items: int | None
    problems: list[Difficulty] = []
    try:
        found = [item async for item in items_of(memory, agent, user)]
    except FsyncFailed:
        raise
    except StoreError:
        # The message names files, which only administrators may see.
        items, problems = None, [Difficulty(file="", message="it cannot be read", severity="error")]
    else:
        items = len(found)
        days = [item.timestamp.date() for item in found if item.memory_type == "episodic"]
    return AgentMemoryState(
        agent=agent,
        memory=memory.name,
        files=None,
        bytes=None,
        oldest=min(days, default=None),
        newest=max(days, default=None),
        items=items,
        embedded=None,
        pending=None,
        problems=problems,
    )


async def _index(memory: OpenMemory, agent: str) -> IndexStats | None:
    """Return the statistics of an agent in the index, brought up to date; None if unknown."""
    try:
        await memory.sync(agent)
        return await memory.index_stats(agent)
    except FsyncFailed:
        raise
    except SymbiontError:
        return None


def _log_change(context: Context, done: str, agent: str | None, **more: str) -> None:
    caller = context.caller
    log.info("memory_changed", change=done, agent=agent, **more, user_id=caller.user_id, token=caller.token_id)
