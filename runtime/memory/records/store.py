"""The records store (second design): records are written once, and checksums prove that they are unchanged."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from dslc.blocks.variant import Variant
from runtime.clock import SYSTEM, Clock, uuid7
from runtime.memory.errors import FsyncFailed, StoreError, Unsupported
from runtime.memory.files.store import FileStore
from runtime.memory.item import Item, is_id, retraction_uri, valid_agent
from runtime.memory.records import gates as gate
from runtime.memory.records.files.outbox import Note
from runtime.memory.records.files.record import fields_of, fixed_id
from runtime.memory.records.operations import (
    Cleanup,
    Forget,
    Mark,
    OperationFailure,
    OperationResult,
    Write,
    WriteRequest,
)
from runtime.memory.records.options import RecordsOptions
from runtime.memory.records.reader import RecordReader
from runtime.memory.records.readiness import problems_of
from runtime.memory.records.remotes.configured import check, is_same, open_remote
from runtime.memory.records.remotes.outgoing import hold, read_outgoing
from runtime.memory.records.remotes.remote import Remote
from runtime.memory.records.remotes.sync import OutgoingRecord, RemoteSync
from runtime.memory.records.writer import RecordWriter
from runtime.memory.store import Capability
from runtime.memory.store_types import StorePlace, StoreProblem

CLOSING_SECONDS = 10.0
"""Seconds that closing waits for untried records."""
INDEX_SECONDS = 1.0
"""Seconds that `index.json` of a large folder may be out of date."""

_INSTEAD: Mapping[Capability, str] = {
    "edit": "write a new, corrected record",
    "replace": "write a new, corrected record",
    "upsert": "append them",
    "delete": "delete the record's file by hand; `symbi memory verify` then reports it as missing",
    "compact": "they do not expire; old ones may be moved elsewhere while no daemon runs",
    "remove": "move the agent's folder elsewhere, or delete it, while no daemon runs",
}
_log = structlog.get_logger(__name__)


async def open_records(place: StorePlace) -> RecordsStore:
    """Open the store of this row. Nothing is created on disk before the first write."""
    check(place.memory)
    store = RecordsStore(place.path, place.clock)
    store.configure(place.options)
    store.begin()
    return store


class RecordsStore(FileStore[RecordReader, RecordWriter]):
    """A folder of records."""

    capabilities: frozenset[Capability] = frozenset({"gates", "keep_ids"})

    def __init__(self, root: Path, clock: Clock = SYSTEM) -> None:
        super().__init__(root, clock, RecordReader)
        self._sync = RemoteSync(str(self.root), clock, self._claim, self._outgoing, self._mark)
        self._options = RecordsOptions()
        self._declared: Variant | None = None
        self._remote: Remote | None = None
        self._remote_off: str | None = None
        self._behind: set[str] = set()
        self._later: asyncio.Task[None] | None = None
        self._recovery: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def identity(self) -> str:
        return f"records:{self.root}"

    @property
    def waiting(self) -> int:
        """Return the number of records still to be sent."""
        return self._sync.waiting

    def configure(self, options: Mapping[str, object]) -> None:
        self._options = RecordsOptions.model_validate(dict(options))
        given = self._options.remote
        if is_same(given, self._declared) and self._remote_off is None:
            return
        old, self._declared, before = self._remote, given, self._remote_off
        self._remote, self._remote_off = open_remote(given, self._clock)
        if self._remote_off not in {None, before}:
            _log.warning("memory_remote_off", store=self.identity, reason=self._remote_off)
        self._sync.use(self._remote)
        if old is not None:
            task = asyncio.ensure_future(old.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def begin(self) -> None:
        """Start crash recovery in the background; reads do not wait for it."""
        self._recovery = asyncio.create_task(self.recover(), name=f"taking up {self.identity}")

    async def recover(self) -> None:
        """Finish what the last process left, and queue what it could not send."""
        agents: tuple[str, ...] = ()
        with contextlib.suppress(StoreError):  # `ready` reports it
            agents = await self.agents()
        for agent in agents:
            with contextlib.suppress(StoreError):
                self._sync.add(await self._in_thread(self._reader.notes, agent), left=True)
                await self._batcher(agent).put(Cleanup(recover=True))

    def _must_be_able_to(self, capability: Capability) -> None:
        raise Unsupported(f"records cannot be changed: {self.root} has no {capability}", hint=_INSTEAD[capability])

    # Writing

    async def _append(self, items: tuple[Item, ...], gates: Mapping[str, str]) -> tuple[Item, ...]:
        closed = await self._close_gates(items, gates)
        of_item = {id(item): each for item, each in zip(items, closed, strict=True)}
        remote = self._declared is not None

        async def put(agent: str, own: Sequence[Item]) -> Sequence[Item]:
            try:
                write = Write(tuple(own), tuple(of_item[id(item)] for item in own), remote)
                done = await self._batcher(agent).put(write)
            except StoreError as error:
                if not isinstance(error, FsyncFailed):
                    await self._write_failure(own[0], error)
                raise
            assert isinstance(done, OperationResult)
            return done.written

        return await self._put_each(items, put)

    async def _close_gates(self, items: Sequence[Item], given: Mapping[str, str]) -> list[dict[str, str]]:
        """Return the values that close the gates for each item. Raises GateOpen, which is noted in `STATE.json`."""
        if not self._options.gates and not given:
            return [{} for _ in items]
        try:
            return await self._in_thread(lambda: [self._check(given, item) for item in items])
        except gate.GateOpen as refused:
            await self._write_failure(items[0], refused)
            raise

    def _check(self, given: Mapping[str, str], item: Item) -> dict[str, str]:
        """Return the values that close the gates for an item. A retraction that undo writes passes: it adds nothing,
        and clients cannot write its source_uri. Raises GateOpen."""
        if item.retracts is not None and item.source_uri == retraction_uri(item.retracts):
            return {}
        return gate.check(self._options.gates, given, item)

    async def _write_failure(self, item: Item, error: StoreError) -> None:
        """Note a failed write in `STATE.json`, if possible."""
        session = item.provenance.session_id
        if isinstance(error, gate.GateOpen):
            failure = OperationFailure("refused", session, gates=error.gates)
        else:
            failure = OperationFailure("error", session, error=error.line())
        with contextlib.suppress(StoreError):
            await self._batcher(item.agent_id).put(failure)

    async def _preview(self, items: tuple[Item, ...], gates: Mapping[str, str]) -> list[dict[str, Any]]:
        closed, refused = await self._in_thread(self._check_each, items, gates)
        records = [
            fields_of(item.with_fields(memory_id=self._likely_id(item)), each, remote=self._declared is not None)
            for item, each in zip(items, closed, strict=True)
        ]
        if refused is not None:
            refused.records = records
            raise refused
        return records

    def _check_each(
        self, items: Sequence[Item], gates: Mapping[str, str]
    ) -> tuple[list[dict[str, str]], gate.GateOpen | None]:
        """Return the values that close the gates for each item, and the first refusal, if any. Raises GateOpen for an
        unknown gate."""
        closed: list[dict[str, str]] = []
        refused: gate.GateOpen | None = None
        for item in items:
            try:
                closed.append(self._check(gates, item))
            except gate.GateOpen as error:
                if not error.gates:
                    raise
                closed.append(error.closed)
                refused = refused or error
        return closed, refused

    def _likely_id(self, item: Item) -> str:
        return fixed_id(item) or (item.memory_id if is_id(item.memory_id) else uuid7(self._clock))

    async def _forget_user(self, user_id: str, agent_id: str) -> int:
        done: OperationResult = await self._batcher(valid_agent(agent_id)).put(Forget(user_id))
        return done.forgotten

    def _writer(self, agent_id: str) -> RecordWriter:
        return RecordWriter(self.root, agent_id, self._clock, self._reader.name_index(agent_id))

    def _is_evictable(self, writer: RecordWriter) -> bool:
        return not writer.behind

    async def _perform(
        self, writer: RecordWriter, requests: Sequence[WriteRequest]
    ) -> Sequence[OperationResult | Exception]:
        failed_before = self._fatal is not None
        try:
            result = await self._write(writer.perform, requests)
        except FsyncFailed as error:
            if not failed_before:
                self._notify_fatal(error)
            raise
        for fault in result.faults:
            _log.warning("record_side_file_failed", agent=writer.agent_id, reason=fault)
        for append in result.appends:
            self._notify_append(append)
        for outcome in result.outcomes:
            if isinstance(outcome, OperationResult):
                self._sync.add(outcome.notes)
        if writer.behind:
            self._index_later([writer.agent_id])
        return result.outcomes

    def _index_later(self, agents: Iterable[str]) -> None:
        """Schedule the writing of these agents' `index.json`."""
        self._behind.update(agents)
        if self._behind and (self._later is None or self._later.done()):
            self._later = asyncio.create_task(self._catch_up(), name=f"index.json of {self.identity}")

    async def _catch_up(self) -> None:
        while self._behind:
            await self._clock.sleep(INDEX_SECONDS)
            await self._write_indexes()

    async def _write_indexes(self) -> None:
        """Write every `index.json` that is out of date."""
        behind, self._behind = self._behind, set()
        for agent in sorted(behind):
            try:
                await self._batcher(agent).put(Cleanup())
            except StoreError as error:
                _log.warning("memory_index_behind", agent=agent, reason=error.line())
                self._reader.name_index(agent).indexed = None  # it is tried again with the next write

    # Reading

    def _after_listing(self) -> None:
        self._index_later(self._reader.agents_behind())

    async def verify(self, agent_id: str | None = None) -> tuple[int, tuple[StoreProblem, ...]]:
        checked, problems = 0, []
        for agent in await self._wanted_agents(agent_id):
            try:
                count, found = await self._in_thread(self._reader.verify, agent)
            except StoreError as error:
                count, found = 0, [StoreProblem(str(self.root / agent), error.line())]
            checked += count
            problems += found
        self._after_listing()
        return checked, tuple(problems)

    async def _wait_for_recovery(self) -> None:
        if self._recovery is not None:
            await asyncio.wait([self._recovery])

    async def ready(self) -> tuple[StoreProblem, ...]:
        await self._wait_for_recovery()
        return await super().ready()

    def _problems(self) -> tuple[StoreProblem, ...]:
        return problems_of(self._reader, self._sync, self._remote_off)

    # Sending

    @contextlib.asynccontextmanager
    async def _claim(self, note: Note) -> AsyncIterator[None]:
        """Hold the agent's outbox, so that no other process sends from it."""
        held = contextlib.ExitStack()
        holding = asyncio.ensure_future(self._in_thread(hold, self._reader, held, note.agent_id))
        try:
            await asyncio.shield(holding)
            yield
        finally:
            await asyncio.wait([holding])
            await self._in_thread(held.close)

    async def _outgoing(self, note: Note) -> OutgoingRecord | None:
        return await self._in_thread(read_outgoing, self._reader, note)

    async def _mark(self, mark: Mark) -> None:
        await self._batcher(mark.note.agent_id).put(mark)

    async def settle(self, seconds: float) -> None:
        await self._wait_for_recovery()
        await self._write_indexes()
        await self._sync.settle(seconds)

    async def close(self) -> None:
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.wait([self._recovery])
        await self._sync.close(CLOSING_SECONDS)
        if self._later is not None:
            self._later.cancel()
            await asyncio.wait([self._later])
        await self._drain()
        await self._write_indexes()
        if self._remote is not None:
            await self._remote.close()
        await asyncio.gather(*self._closing, return_exceptions=True)
        self._threads.shutdown(wait=False)
