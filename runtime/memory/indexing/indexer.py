"""Keeps the index over one store in step with it. The store is the truth: parts that differ are read again.

Appended items that the store reports are put into the index without reading anything. Everything else, such as a
person's edits, is found by comparing the revisions of parts: of all, or after that of those that changed since, if the
store knows them. No failure here fails a write.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

import structlog

from runtime.clock import SYSTEM, Clock
from runtime.errors import Retry
from runtime.memory.errors import FsyncFailed, RefusedItem, StoreError
from runtime.memory.indexing.change_feed import ChangeFeed
from runtime.memory.indexing.changed_parts import ChangedParts, Comparison
from runtime.memory.indexing.embedding_queue import EmbeddingQueue
from runtime.memory.indexing.entries import entries_of
from runtime.memory.indexing.progress import Progress, ReadProgress, SyncReport
from runtime.memory.item import Item
from runtime.memory.store import Store
from runtime.memory.store_types import UNREADABLE, Append, ItemLocation, Part
from runtime.search.entry import IndexEntry
from runtime.search.errors import IndexFailed
from runtime.search.index.index import AppendedEntries, Index

log = structlog.get_logger("symbiont.memory")

Start = Callable[[str, Coroutine[Any, Any, None]], "asyncio.Task[None] | None"]
"""Starts a background task with a name; None if it is switched off."""

_Appended = tuple[str | None, Part, list[Item]]
"""The revision before, the part after, the items."""

ON_THE_LOOP: Final = 500
"""Maximum number of items that are converted to entries without a thread."""
PUT_AT_ONCE: Final = 1024
"""Appended items that are put into the index together, unless one part grew by more."""
DROPPED_AT_ONCE: Final = 500
LOOKS: Final = 5
"""Maximum comparisons of a growing part before it is read completely."""
LOOK_SECONDS: Final = 0.02


class Indexer:
    """A store and the index over it, which it owns and closes. One event loop uses it."""

    def __init__(self, store: Store, index: Index, clock: Clock = SYSTEM, *, problem: str | None = None) -> None:
        """`problem`: what went wrong when the index was opened."""
        self.store = store
        self.index = index
        self.queue = EmbeddingQueue(index, clock)
        self.changed = ChangedParts(store, index, clock)
        self.in_background = False
        """True while background tasks keep the index in step."""
        self.news = asyncio.Event()
        """Set after an append or a change."""
        self._clock = clock
        self._open_problem = problem
        self._failure: str | None = None
        self._unreadable: dict[str, tuple[str, str]] = {}
        self._feed = ChangeFeed()
        self._changed_agents: set[str] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._last_order = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._unsubscribe = store.subscribe(on_append=self._take, on_change=self.mark_changed)

    @property
    def failure(self) -> str | None:
        """Return why the last update of the index failed, in one line."""
        return self._failure

    @property
    def problems(self) -> tuple[str, ...]:
        """Return the current problems, one line each."""
        lines = (self.index_problem, *self.unread, self.queue.problem)
        return tuple(dict.fromkeys(line for line in lines if line))

    @property
    def index_problem(self) -> str | None:
        """Return why the index is incomplete, in one line."""
        return self._failure or self._open_problem or self.index.problem

    @property
    def unread(self) -> tuple[str, ...]:
        """Return the unreadable parts, one line each."""
        return tuple(line for _, line in self._unreadable.values())

    async def agents(self) -> tuple[str, ...]:
        """Return the agents that have parts; empty while the store is unreadable."""
        try:
            return await self.store.agents()
        except FsyncFailed:
            raise
        except StoreError:
            return ()

    def is_unreadable(self, part: str) -> bool:
        """True if the part is unreadable, so its index entries may be stale."""
        return part in self._unreadable

    def start_background(self, start: Start, background_tasks: Iterable[tuple[str, Coroutine[Any, Any, None]]]) -> None:
        """Start the background tasks unless they are running. `stop_background` or `close` stops them."""
        background_tasks = tuple(background_tasks)
        if self.in_background:
            for _, work in background_tasks:
                work.close()
            return
        self.in_background = True
        started = [start(name, work) for name, work in background_tasks]
        self._tasks = [task for task in started if task is not None]

    async def stop_background(self) -> None:
        """Stop the background tasks."""
        tasks, self._tasks, self.in_background = self._tasks, [], False
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Stop the background tasks, index what is queued, and close the index. The store belongs to its opener."""
        await self.stop_background()
        self._unsubscribe()
        await self.settle()
        try:
            await self.index.close()
        except IndexFailed as error:
            log.warning("index_close_failed", reason=error.line())

    def mark_changed(self, agents: Iterable[str]) -> None:
        """Have the background task compare the parts of these agents."""
        self._changed_agents.update(agents)
        self.news.set()

    def take_changed_agents(self) -> set[str]:
        """Return the agents reported to `mark_changed` since the last call."""
        agents, self._changed_agents = self._changed_agents, set()
        return agents

    # Appends reported by the store.

    def _take(self, append: Append) -> None:
        self._changed_agents |= self._feed.add(append)
        self.news.set()

    async def settle(self) -> None:
        """Index everything that is queued; agents whose parts must be read instead are marked for comparison."""
        for agent in self._feed.agents:
            async with self._lock(agent):
                await self._settle(agent)

    async def _settle(self, agent: str) -> None:
        appends = self._feed.take(agent)
        if not appends:
            return
        try:
            for some in _append_batches(appends):
                grown = []
                for before, part, items in some:
                    placed = [(item, None) for item in items]
                    entries = await _entries(part, placed, first=self._next_order(len(items)))
                    grown.append(AppendedEntries(part.name, agent, before, part.revision, entries))
                done = await self.index.append(grown)
                if any(done):
                    self.queue.more()
                if not all(done):
                    self._changed_agents.add(agent)
            self._note_recovery()
        except IndexFailed as error:
            self._note_failure(error)
            self._changed_agents.add(agent)

    def _next_order(self, count: int) -> int:
        """Return the first of `count` orders beyond all others. Positions in a part are far below a time in
        milliseconds, and the next start is later than this one."""
        first = max(int(self._clock.now() * 1000), self._last_order)
        self._last_order = first + count
        return first

    # Parts that differ.

    async def sync(
        self, agent: str | None = None, progress: Progress | None = None, *, complete: bool = False
    ) -> SyncReport:
        """Bring the index up to date, for one agent or for all. Raises only FsyncFailed.

        `complete`: compare all parts, also if the store knows which ones changed.
        """
        try:
            if not complete and await self._knows_changes():
                return await self._sync_changed_parts(agent, progress)
            if agent is not None:
                return await self._sync_agent(agent, progress)
            if await self.changed.begin() is None:
                return await self._sync_all(progress)
            async with self.changed.comparison_lock:
                # Another comparison may have ended meanwhile.
                if not complete and await self._knows_changes():
                    return await self._sync_changed_parts(None, progress)
                return await self._sync_all(progress, await self.changed.begin())
        except FsyncFailed:
            raise
        except StoreError as error:
            return SyncReport(problems=(error.line(),))

    async def _knows_changes(self) -> bool:
        return self._failure is None and await self.changed.refresh()

    async def _sync_all(self, progress: Progress | None, begun: Comparison | None = None) -> SyncReport:
        await self.settle()
        try:
            # In this order: an entry that is in the index by now must be among the parts that are listed next.
            known = await self.index.parts()
            parts = await self.store.parts()
            gone = sorted((known.keys() | self._unreadable.keys()) - {part.name for part in parts})
            # An unreadable folder hides the other parts of its agent.
            hidden = {part.agent_id for part in parts if part.revision == UNREADABLE}
            gone = [name for name in gone if name.partition("/")[0] not in hidden]
            report = SyncReport(removed=await self._drop(gone))
        except IndexFailed as error:
            return self._note_failure(error)
        differ: dict[str, int] = defaultdict(int)
        for part in parts:
            differ[part.agent_id] += known.get(part.name) != part.revision
        reading = ReadProgress(progress, sum(differ.values()))
        for owner, count in sorted(differ.items()):
            if count:
                report = report.plus(await self._sync_agent(owner, reading.report))
        if not any(differ.values()):
            self._note_recovery()
        if begun is not None and set(report.problems) <= set(self.unread):
            self.changed.finish(begun)
            self.changed.add(part for part in parts if part.name in self._unreadable)
        return report._replace(parts=len(parts))

    async def _sync_changed_parts(self, agent: str | None, progress: Progress | None) -> SyncReport:
        owners = self.changed.agents if agent is None else [agent]
        reading = ReadProgress(progress, sum(len(self.changed.of(owner)) for owner in owners))
        report = SyncReport()
        for owner in owners:
            report = report.plus(await self._sync_agent(owner, reading.report, changed=True))
        return report

    async def _sync_agent(self, agent: str, progress: Progress | None, *, changed: bool = False) -> SyncReport:
        async with self._lock(agent):
            try:
                return await (self._read_changed_parts if changed else self._bring_up_to_date)(agent, progress)
            except IndexFailed as error:
                return self._note_failure(error)
            except FsyncFailed:
                raise
            except RefusedItem:
                return SyncReport()  # No agent has this name, so it has no items.
            except StoreError as error:
                return SyncReport(problems=(error.line(),))

    async def _read_changed_parts(self, agent: str, progress: Progress | None) -> SyncReport:
        wanted = self.changed.of(agent)
        if not wanted:
            return SyncReport()
        known = await self.index.parts(names=wanted)
        gone = [name for name, part in wanted.items() if part is None and (name in known or self.is_unreadable(name))]
        differing = [part for part in wanted.values() if part is not None and known.get(part.name) != part.revision]
        report = SyncReport(parts=len(wanted), removed=await self._drop(gone)).plus(
            await self._read_each(differing, progress)
        )
        # What is unreadable is reported until it changes.
        self.changed.discard(agent, {name: part for name, part in wanted.items() if not self.is_unreadable(name)})
        return report

    async def _bring_up_to_date(self, agent: str, progress: Progress | None) -> SyncReport:
        parts, differing, gone = await self._compare(agent)
        report = SyncReport(parts=len(parts), removed=await self._drop(gone))
        report = report.plus(await self._read_each(differing, progress))
        self._note_recovery()
        return report

    async def _read_each(self, parts: Sequence[Part], progress: Progress | None) -> SyncReport:
        report = SyncReport()
        for number, part in enumerate(parts):
            if progress is not None:
                progress("reading", number, len(parts))
            report = report.plus(await self._read_part(part))
        if progress is not None and parts:
            progress("reading", len(parts), len(parts))
        return report

    async def _compare(self, agent: str) -> tuple[Sequence[Part], list[Part], list[str]]:
        """Return the agent's parts, those that differ from the index, and the names of those that are gone."""
        for look in range(LOOKS):
            await self._settle(agent)
            known = await self.index.parts(agent)
            parts = await self.store.parts(agent)
            if look == 0:
                wanted = parts
            # If the part grows continuously, it is sufficient to index its state at the first comparison.
            differing = [part for part in wanted if not self._is_indexed(part, known.get(part.name))]
            if not any(self._feed.grows(part.name) for part in differing):
                break
            # It was written a moment ago, and its append is about to be reported.
            await asyncio.sleep(LOOK_SECONDS)
        unread = {name for name in self._unreadable if name.startswith(f"{agent}/")}
        return parts, differing, sorted((known.keys() | unread) - {part.name for part in parts})

    def _is_indexed(self, part: Part, revision: str | None) -> bool:
        return revision == part.revision or self._feed.is_past(part, revision)

    async def _read_part(self, part: Part) -> SyncReport:
        """Index a part as it is now. Its revision was read before its content, so a change in between is found by the
        next comparison."""
        failed = self._unreadable.get(part.name)
        if failed is not None and failed[0] == part.revision:
            return SyncReport(problems=(failed[1],))
        try:
            items = await self.store.read(part)
        except StoreError as error:
            # An unreadable part that may become readable without a write is tried again.
            if isinstance(error, (FsyncFailed, Retry)):
                raise
            self._unreadable[part.name] = part.revision, error.line()
            log.warning("memory_part_unreadable", reason=error.line())
            return SyncReport(problems=(error.line(),))
        self._feed.forget(part.name)
        change = await self.index.put(part.name, part.agent_id, part.revision, await _entries(part, items))
        self._unreadable.pop(part.name, None)
        if change.changed:
            self.queue.more()
        return SyncReport(read=1, changed=change.changed, removed=change.removed)

    async def _drop(self, names: Sequence[str]) -> int:
        removed = 0
        for begin in range(0, len(names), DROPPED_AT_ONCE):
            batch = names[begin : begin + DROPPED_AT_ONCE]
            removed += await self.index.drop(batch)
            for name in batch:
                self._unreadable.pop(name, None)
                self._feed.forget(name)
        return removed

    async def forget(self, agent: str | None = None) -> None:
        """Empty the index, of one agent or completely, so that the next `sync` builds it again. Raises IndexFailed."""
        self._unreadable.clear()
        self._feed.forget()
        self.changed.forget()
        if agent is None:
            await self.index.clear()
        else:
            async with self._lock(agent):
                await self._drop(sorted(await self.index.parts(agent)))

    def _lock(self, agent: str) -> asyncio.Lock:
        return self._locks.setdefault(agent, asyncio.Lock())

    def _note_failure(self, error: IndexFailed) -> SyncReport:
        if self._failure is None:
            log.error("index_update_failed", reason=error.line())
        self._failure = error.line()
        return SyncReport(problems=(self._failure,))

    def _note_recovery(self) -> None:
        if self._failure is not None:
            log.info("index_update_recovered", store=self.store.identity)
            self._failure = None


def _append_batches(appends: Sequence[_Appended]) -> Iterator[list[_Appended]]:
    """Yield the appends that are put into the index together."""
    some: list[_Appended] = []
    count = 0
    for each in appends:
        if some and count + len(each[2]) > PUT_AT_ONCE:
            yield some
            some, count = [], 0
        some.append(each)
        count += len(each[2])
    yield some


async def _entries(
    part: Part, items: Sequence[tuple[Item, ItemLocation | None]], *, first: int = 0
) -> list[IndexEntry]:
    if len(items) > ON_THE_LOOP:
        return await asyncio.to_thread(entries_of, part, items, first=first)
    return entries_of(part, items, first=first)
