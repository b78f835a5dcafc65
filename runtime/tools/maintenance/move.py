"""`memory_move`: copies a memory into another one, to search it with another index or store it under another name."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Container, Iterable, Sequence
from typing import Annotated, Final, NamedTuple

import structlog
from pydantic import Field

from runtime.errors import NotFound, SymbiontError
from runtime.memory.collection.options import STORE
from runtime.memory.errors import FsyncFailed, Unsupported
from runtime.memory.item import Item
from runtime.memory.open_memory import OpenMemory
from runtime.memory.store import RedactedItems, redacted_item
from runtime.memory.store_types import Part, Scan
from runtime.search.errors import IndexFailed
from runtime.suggestions import unknown_name
from runtime.tools.context import Context
from runtime.tools.failure import wrong
from runtime.tools.memory.access import need_all_subjects
from runtime.tools.memory.parameters import AnyAgent, DryRun
from runtime.tools.result import Result
from runtime.tools.tool import tool

log = structlog.get_logger("symbiont.memory")

ROUNDS: Final = 5
"""Maximum number of passes that copy changes made during the copy."""
NAMED: Final = 20
"""Maximum number of items that are named among those that could not be moved."""

From = Annotated[str, Field(min_length=1, max_length=64, description="The memory to copy.", examples=["notes"])]
Into = Annotated[str, Field(min_length=1, max_length=64, description="The memory to copy into.", examples=["archive"])]


class MovedAgent(Result):
    """The result for one agent or one collection."""

    agent: str
    to: str = Field(description="The agent or collection in the target memory.")
    items: int = Field(description="Number of items to copy.")
    copied: int = Field(description="Items copied by this call.")
    there: int = Field(description="Items that existed already, with the same id and content.")
    equal: int = Field(description="Items that exist under another id, with the same text.")
    different: int = Field(description="Items whose id belongs to another item there, which was not changed.")
    different_ids: list[str] = Field(description=f"Their ids, at most {NAMED}.")
    items_there: int | None = Field(description="Number of items afterwards. Not counted by a dry run.")
    sha256: str | None = Field(
        description="A hash of all items that were copied or existed, the same in both memories."
    )
    indexed: int | None = Field(description="Entries of the index.")
    embedded: int | None = Field(description="Entries of the index with a vector.")
    problems: list[str]


class MovedMemory(Result):
    """The result of a move."""

    source: str
    target: str
    agents: list[MovedAgent]
    embedding: str | None = Field(description="The embedding of the target memory.")
    problems: list[str] = Field(description="Other errors.")
    good: bool = Field(description="true if all items are in the target memory and in its index.")
    dry_run: bool


@tool("admin", idempotent=True, long=True, example={"source": "notes", "target": "archive", "dry_run": True})
async def memory_move(
    context: Context, source: From, target: Into, agent: AnyAgent = None, dry_run: DryRun = False
) -> MovedMemory:
    """Copy all items of a memory into another one, and verify the copy.

    Items keep their ids, times and other fields. Existing items are not copied again, so the same call resumes an
    interrupted move. The source memory does not change.
    """
    need_all_subjects(context)
    origin, goal = await _named_memory(context, "source", source), await _named_memory(context, "target", target)
    if origin is goal or origin.store.identity == goal.store.identity:
        raise wrong("target", f"it is {source}, the memory to copy", hint="name another memory")
    if goal.collection is None:
        raise Unsupported(
            f"the store {goal.block.store.name} of the memory {goal.name} is not a collection, "
            "and only a collection keeps all ids",
            hint=f"symbi memory export --memory {source} --output FILE; symbi memory import FILE --memory {target}",
        )
    moves = [_Move(context, origin, goal, name, dry_run=dry_run) for name in await _agents(origin, agent)]
    for move in moves:
        await move.copy()
    problems = [] if dry_run else await _index(context, goal, [move.into for move in moves])
    rows = [await move.outcome() for move in moves]
    if not dry_run:
        log.info("memory_moved", source=source, target=target, items=sum(row.copied for row in rows))
    good = not problems and not any(row.problems for row in rows)
    return MovedMemory(
        source=source,
        target=target,
        agents=rows,
        embedding=goal.embedding,
        problems=problems,
        good=good,
        dry_run=dry_run,
    )


async def _named_memory(context: Context, field: str, name: str) -> OpenMemory:
    """Return the memory of this name, or the built-in one. Raises NotFound with the nearest names."""
    memories = context.memories
    if name in memories:
        return memories[name]
    if name == STORE:
        return await context.memories.collection()
    error = unknown_name("memory", name, {*memories, STORE}, NotFound)
    raise wrong(field, str(error), hint=error.hint)


async def _agents(origin: OpenMemory, agent: str | None) -> list[str]:
    there = await origin.store.agents()
    if agent is None:
        return list(there)
    if agent not in there:
        error = unknown_name("agent", agent, there, NotFound)
        raise wrong("agent", f"{error} in the memory {origin.name}", hint=error.hint)
    return [agent]


async def _index(context: Context, goal: OpenMemory, agents: Iterable[str]) -> list[str]:
    """Bring the index up to date and embed its items; return the problems."""
    problems = [line for line in [goal.index_problem] if line]
    for agent in agents:
        problems += (await goal.sync(agent, context.progress)).problems
    if goal.embedding is None:
        return list(dict.fromkeys([*problems, *goal.not_opened]))
    try:
        await goal.embed(progress=context.progress)
    except FsyncFailed:
        raise
    except SymbiontError as error:
        problems.append(f"some items have no vector: {error.line()}")
    return list(dict.fromkeys(problems))


_Text = tuple[str, str | None, str, str, str | None]
"""Key of equal items of one agent: user, project, hash, type and subject."""


class _Fingerprint(NamedTuple):
    """An item as it appears in the other memory."""

    memory_id: str
    digest: bytes
    same_text: _Text


class _Move:
    """One agent's part of a move."""

    def __init__(self, context: Context, origin: OpenMemory, goal: OpenMemory, agent: str, *, dry_run: bool) -> None:
        self._context = context
        self._origin = origin
        self._goal = goal
        self._agent = agent
        self._dry_run = dry_run
        # Items pushed by clients have the name of their memory as agent_id.
        own = origin.collection is not None and agent == origin.name
        self.into = goal.name if own else agent
        self._parts: dict[str, list[_Fingerprint]] = {}
        """Revisions of the parts at their last read."""
        self._copied: set[str] = set()
        self._equal: set[str] = set()
        self._different: set[str] = set()

    async def copy(self) -> None:
        """Copy part by part; changes made meanwhile are copied again. Raises StoreError."""
        done: dict[str, str] = {}
        for _ in range(ROUNDS):
            parts = await self._origin.store.parts(self._agent)
            changed = [part for part in parts if done.get(part.name) != part.revision]
            for name in self._parts.keys() - {part.name for part in parts}:
                del self._parts[name]
            if not changed:
                break
            for number, part in enumerate(changed):
                self._context.progress(f"copying {self._agent}", number, len(changed))
                await self._copy_part(part)
                done[part.name] = part.revision
            self._context.progress(f"copying {self._agent}", len(changed), len(changed))
        collection = self._goal.collection
        if collection is not None and not self._dry_run and not self._parts:
            # It exists even without items.
            await collection.create(self.into, self._context.caller.user_id)

    async def _copy_part(self, part: Part) -> None:
        read = [item for item, _ in await self._origin.store.read(part)]
        # Files edited by hand may contain secrets, which no store accepts.
        items = await asyncio.to_thread(self._target_items, read)
        self._parts[part.name] = seen = await asyncio.to_thread(_fingerprints, items)
        there = await self._digests(items)
        new = []
        for item, known in zip(items, seen, strict=True):
            found = there.get(item.memory_id)
            if found is None:
                new.append(item)
            elif found != known.digest and item.memory_id in self._copied:
                # It changed after it was copied a moment ago.
                await self._goal.store.replace(item)
            elif found != known.digest:
                self._different.add(item.memory_id)
        if self._dry_run:
            self._copied.update(item.memory_id for item in new)
            return
        written = {item.memory_id for item in await self._goal.store.append(RedactedItems(new))}
        self._copied |= written
        self._equal.update(item.memory_id for item in new if item.memory_id not in written)

    def _target_items(self, items: Sequence[Item]) -> list[Item]:
        moved = items if self.into == self._agent else [item.with_fields(agent_id=self.into) for item in items]
        return [redacted_item(item) for item in moved]

    async def _digests(self, items: Sequence[Item]) -> dict[str, bytes]:
        """Return the digests of these items that the other memory has, of any user, by id."""
        if not items:
            return {}
        wanted = Scan(memory_ids=frozenset(item.memory_id for item in items))
        return {item.memory_id: _fingerprint(item).digest async for item in self._goal.store.scan(wanted)}

    async def outcome(self) -> MovedAgent:
        """Compare source and target by reading everything again. Raises StoreError."""
        wanted = {seen.memory_id: seen for part in self._parts.values() for seen in part}
        named = sorted(self._different)[:NAMED]
        row = MovedAgent(
            agent=self._agent,
            to=self.into,
            items=len(wanted),
            copied=len(self._copied & wanted.keys()),
            there=len(wanted.keys() - self._copied - self._equal - self._different),
            equal=len(self._equal & wanted.keys()),
            different=len(self._different),
            different_ids=named,
            items_there=None,
            sha256=None,
            indexed=None,
            embedded=None,
            problems=[f"{self._goal.name} has another item with the id {each}" for each in named],
        )
        return row if self._dry_run else await self._verify(row, wanted)

    async def _verify(self, row: MovedAgent, wanted: dict[str, _Fingerprint]) -> MovedAgent:
        """Return the row completed from the current state of the other memory and its index; differences are
        problems."""
        goal, problems = self._goal.name, list(row.problems)
        found, same_text, count = await self._find_items(wanted)
        kept = {key: seen.digest for key, seen in wanted.items() if key not in self._equal | self._different}
        lost = [key for key in self._equal & wanted.keys() if wanted[key].same_text not in same_text]
        problems += [f"{each} is not in {goal}" for each in sorted([*(kept.keys() - found.keys()), *lost])[:NAMED]]
        after = {key: found[key] for key in kept if key in found}
        before, now = _sha256(kept), _sha256(after)
        if before != now:
            there = f"{len(kept):,} items with the sha256 {before}, and {goal} has {len(after):,} with {now}"
            problems.append(f"{self._agent} in {self._origin.name} is {there}")
        indexed, embedded = None, None
        try:
            indexed, embedded, *_ = await self._goal.index_stats(self.into)
        except IndexFailed as error:
            problems.append(f"the index of {goal} cannot be read: {error.line()}")
        else:
            if indexed != count:
                problems.append(f"the index of {goal} has {indexed:,} entries of the {count:,} items of {self.into}")
            if self._goal.embedding is not None and embedded != indexed:
                problems.append(f"{indexed - embedded:,} entries of {self.into} in the index of {goal} have no vector")
        after_all = {"items_there": count, "sha256": now, "indexed": indexed, "embedded": embedded}
        return row.model_copy(update={**after_all, "problems": problems})

    async def _find_items(self, wanted: Container[str]) -> tuple[dict[str, bytes], set[_Text], int]:
        """Return the digests of the wanted items, their equality keys, and their number."""
        found: dict[str, bytes] = {}
        same_text: set[_Text] = set()
        count = 0
        parts = await self._goal.store.parts(self.into)
        for number, part in enumerate(parts):
            self._context.progress(f"verifying {self.into}", number, len(parts))
            items = [item for item, _ in await self._goal.store.read(part)]
            for seen in await asyncio.to_thread(_fingerprints, items):
                count += 1
                same_text.add(seen.same_text)
                if seen.memory_id in wanted:
                    found[seen.memory_id] = seen.digest
        return found, same_text, count


def _fingerprints(items: Sequence[Item]) -> list[_Fingerprint]:
    return [_fingerprint(item) for item in items]


def _fingerprint(item: Item) -> _Fingerprint:
    payload = json.dumps(item.model_dump(mode="json"), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(f"{item.memory_id}\n{item.user_id}\n{item.chunk_hash}\n{payload}".encode()).digest()
    same_text = item.user_id, item.project_id, item.chunk_hash, item.memory_type, item.subject
    return _Fingerprint(item.memory_id, digest, same_text)


def _sha256(digests: dict[str, bytes]) -> str:
    """Return a hash of the digests of all items in the order of their ids."""
    return hashlib.sha256(b"".join(digests[key] for key in sorted(digests))).hexdigest()
