"""Writes to one agent's folder under its lock. All calls block; the store runs them in threads.

The records of one call are written as a whole or not at all: every file is staged before the first one is published. A
record that is to be sent has its note in the outbox before it is published; its evidence is on disk before that, too,
and is published after it. So after a crash at any point, no record lacks its evidence (`recover` completes it) or is
forgotten to be sent; at worst there is a note of a record that does not exist.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from runtime.clock import Clock, utc, uuid7
from runtime.memory.errors import FsyncFailed, StoreError
from runtime.memory.files import lock
from runtime.memory.files.agent_folder import lock_folder
from runtime.memory.files.folder import Folder, file_errors
from runtime.memory.item import Item, is_id
from runtime.memory.records.files import evidence, outbox
from runtime.memory.records.files.folder_index import FolderIndex, is_current
from runtime.memory.records.files.name_index import STAMP, RecordNameIndex, part_of
from runtime.memory.records.files.record import DamagedRecord, decode, encode, fields_of, fixed_id, name_of
from runtime.memory.records.files.recovery import recover
from runtime.memory.records.operations import (
    Cleanup,
    Forget,
    Mark,
    OperationFailure,
    OperationResult,
    OperationResults,
    Write,
    WriteRequest,
)
from runtime.memory.records.outcome import mark, write_failure, write_success
from runtime.memory.records.user_removal import forget, names_of
from runtime.memory.store_types import Append

AT_ONCE = 256
"""Number of records in a folder up to which `index.json` is written with every write; beyond it, a moment later."""


class _StagedRecord(NamedTuple):
    """A record on disk that is not published yet."""

    operation: int
    item: Item
    name: str
    size: int
    partial: str
    event: tuple[str, str]
    note: outbox.Note | None


class RecordWriter:
    """One agent's folder under the store's root. One thread at a time may use it; `name_index` is shared."""

    def __init__(self, root: Path, agent_id: str, clock: Clock, name_index: RecordNameIndex) -> None:
        self.root = root
        self.agent_id = agent_id
        self.name_index = name_index
        self._clock = clock
        self._index = FolderIndex(agent_id)

    @property
    def behind(self) -> bool:
        """True if `index.json` has still to be written."""
        return self._index.behind > 0

    def perform(self, operations: Sequence[WriteRequest]) -> OperationResults:
        """Do all operations under one lock, the writes first and together. Raises an error that prevents all of
        them."""
        result = OperationResults([OperationResult() for _ in operations])
        writes = [(number, operation) for number, operation in enumerate(operations) if isinstance(operation, Write)]
        create = any(isinstance(operation, Write | OperationFailure) for operation in operations)
        with self._lock_folder(create=create) as folder:
            if folder is None:
                return result
            if writes:
                self._write_records(folder, writes, result)
            for number, operation in enumerate(operations):
                try:
                    match operation:
                        case Mark():
                            mark(folder, self.agent_id, self.name_index, operation, self._now(), result)
                        case OperationFailure():
                            write_failure(folder, operation, self._now(), self._clock)
                        case Cleanup():
                            self._clean_up(folder, operation)
                        case Forget():
                            result.outcomes[number] = OperationResult(forgotten=self._forget(folder, operation.user_id))
                except FsyncFailed:
                    raise
                except StoreError as error:
                    result.outcomes[number] = error
        return result

    @contextlib.contextmanager
    def _lock_folder(self, *, create: bool) -> Iterator[Folder | None]:
        """Yield the agent's folder under its lock, with its name index refreshed; None if it does not exist and is not
        to be created."""
        with lock_folder(self.root, self.agent_id, create=create) as folder:
            if folder is None:
                yield None
                return
            self.name_index.refresh(folder)
            yield folder
            self.name_index.note_written(folder)

    # Writing

    def _write_records(self, folder: Folder, writes: Sequence[tuple[int, Write]], result: OperationResults) -> None:
        with contextlib.ExitStack() as stack:
            proofs = folder.child(evidence.FOLDER, create=True)
            assert proofs is not None
            stack.enter_context(proofs)
            waiting = None
            if any(operation.remote for _, operation in writes):
                waiting = folder.child(outbox.FOLDER, create=True)
                assert waiting is not None
                stack.enter_context(waiting)
            kept = self._stage_all(folder, proofs, waiting, writes)
            if len(kept) < sum(len(operation.items) for _, operation in writes):
                # The process that published the existing record may have been killed before it was on disk.
                folder.flush()
            if not kept:
                return
            before = self._revisions(kept)
            self._publish_all(folder, proofs, waiting, kept)
        for each in kept:
            self._index.add(each.name, each.item)
            done = result.outcomes[each.operation]
            assert isinstance(done, OperationResult)
            done.written += (each.item,)
            done.notes += (each.note,) if each.note is not None else ()
        result.appends += self._appends(kept, before)
        last = kept[-1]
        with self._reporting_faults(result):
            session = last.item.provenance.session_id
            write_success(folder, session, last.item.memory_id, self._now(), remote=last.note is not None)
        if len(self.name_index.sizes) <= AT_ONCE:
            with self._reporting_faults(result):
                self._index.write(folder, self.name_index, self._now())

    def _stage_all(
        self, folder: Folder, proofs: Folder, waiting: Folder | None, writes: Sequence[tuple[int, Write]]
    ) -> list[_StagedRecord]:
        kept: list[_StagedRecord] = []
        ids: set[str] = set()
        try:
            for number, operation in writes:
                for given, gates in zip(operation.items, operation.gates, strict=True):
                    item = self._with_id(folder, given, ids)
                    if item is not None:
                        ids.add(item.memory_id)
                        self._stage(folder, proofs, waiting if operation.remote else None, number, item, gates, kept)
            if waiting is not None and kept:
                waiting.flush()
        except BaseException:
            self._discard(folder, proofs, waiting, kept)
            raise
        return kept

    def _stage(
        self, folder: Folder, proofs: Folder, waiting: Folder | None, number: int, item: Item,
        gates: dict[str, str], kept: list[_StagedRecord],
    ) -> None:  # fmt: skip
        name, now = name_of(item), self._now()
        fields = fields_of(item, gates, remote=waiting is not None)
        event = evidence.event_name(evidence.LOCAL, item.memory_id, now)
        facts = evidence.event_data(
            evidence.LOCAL, item.memory_id, now, record=name, checksum=fields["checksum"], gates=gates
        )
        note = None if waiting is None else outbox.note_of(self._clock, self.agent_id, name)
        data = encode(fields)
        with contextlib.ExitStack() as failed:
            if note is not None and waiting is not None:
                waiting.publish(waiting.stage(note.file, outbox.note_data(note, now)), note.file)
                failed.callback(waiting.discard, note.file)
            proof = proofs.stage(event, facts)
            failed.callback(proofs.discard, proof)
            partial = folder.stage(name, data)
            failed.pop_all()
        kept.append(_StagedRecord(number, item, name, len(data), partial, (proof, event), note))

    def _publish_all(
        self, folder: Folder, proofs: Folder, waiting: Folder | None, kept: Sequence[_StagedRecord]
    ) -> None:
        try:
            self._write_stamp(folder)
            for each in kept:
                folder.publish(each.partial, each.name)
            folder.flush()
        except BaseException:
            for each in kept:
                folder.discard(each.name)
            self._discard(folder, proofs, waiting, kept)
            raise
        for each in kept:
            self.name_index.put(each.name, each.size)
        with contextlib.suppress(StoreError):  # `recover` renames files that have no name yet
            for each in kept:
                proofs.publish(*each.event)
        proofs.flush()

    def _discard(self, folder: Folder, proofs: Folder, waiting: Folder | None, kept: Sequence[_StagedRecord]) -> None:
        for each in kept:
            folder.discard(each.partial)
            proofs.discard(each.event[0])
            if waiting is not None and each.note is not None:
                waiting.discard(each.note.file)

    def _with_id(self, folder: Folder, item: Item, ids: set[str]) -> Item | None:
        """Return the item with its id; None if it exists already.

        The id of an item that has one (from an export) is preserved, unless it is in use or was derived from a position
        (a UUID of version 5): records of one moment are ordered by their ids.
        """
        own = fixed_id(item)
        if own is not None:
            return None if own in ids or own in self.name_index.ids else item.with_fields(memory_id=own)
        wanted = item.memory_id
        if not is_id(wanted) or UUID(wanted).version == 5 or wanted in ids:
            return item.with_fields(memory_id=uuid7(self._clock))
        name = self.name_index.ids.get(wanted)
        if name is None:
            return item
        with contextlib.suppress(DamagedRecord, StoreError):
            if decode(name, self.agent_id, folder.read(name)).item.chunk_hash == item.chunk_hash:
                return None
        return item.with_fields(memory_id=uuid7(self._clock))

    def _revisions(self, kept: Sequence[_StagedRecord]) -> dict[date, str | None]:
        return {day: self.name_index.revision(day) for day in {each.item.timestamp.date() for each in kept}}

    def _appends(self, kept: Sequence[_StagedRecord], before: Mapping[date, str | None]) -> Iterator[Append]:
        """Yield the appends at the end of a day; any other change shows in the revision. `before`: the revisions
        of the days without these records."""
        for day, revision in before.items():
            own = sorted(
                ((each.name, each.item) for each in kept if each.item.timestamp.date() == day), key=itemgetter(0)
            )
            after = self.name_index.revision(day)
            if after is not None and self.name_index.ends_with(day, [name for name, _ in own]):
                yield Append(part_of(self.agent_id, day, after), revision, tuple(item for _, item in own))

    def _clean_up(self, folder: Folder, operation: Cleanup) -> None:
        if operation.recover:
            recover(folder, self.agent_id, self.name_index)
        if self.behind or not is_current(folder, self.name_index):
            self._index.write(folder, self.name_index, self._now())

    def _forget(self, folder: Folder, user_id: str) -> int:
        names, failure = names_of(folder, self.agent_id, self.name_index, user_id)
        if names:
            self._write_stamp(folder)
            forget(folder, self.name_index, names, self._now(), self._clock)
            self._index.write(folder, self.name_index, self._now())
        if failure is not None:
            raise failure
        return len(names)

    @contextlib.contextmanager
    def _reporting_faults(self, result: OperationResults) -> Iterator[None]:
        """Report an error beside a stored record as a fault: its write has succeeded."""
        try:
            yield
        except FsyncFailed:
            raise
        except StoreError as error:
            result.faults.append(error.line())

    def _write_stamp(self, folder: Folder) -> None:
        """Make other processes list the folder again."""
        with folder.open_file(lock.NAME, os.O_WRONLY) as descriptor, file_errors(folder.path / lock.NAME, "write"):
            if descriptor is not None:
                os.write(descriptor, os.urandom(STAMP))

    def _now(self) -> datetime:
        return utc(self._clock.now()).astimezone(UTC)
