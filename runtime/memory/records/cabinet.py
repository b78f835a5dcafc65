"""One agent's folder, written to under its lock. Everything here blocks; the store runs it in threads.

What one call keeps is on disk as a whole or not at all: every file is staged before the first one takes its name. A
record that is to be sent has its note in the outbox before it has its name, and its evidence was brought to disk before
too and takes its name after it: so a crash at any point leaves neither a record that is forgotten to be sent nor one
without evidence (`recover` finishes), and at worst a note of a record that never was.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from runtime.clock import Clock, utc, uuid7
from runtime.memory import lock
from runtime.memory.errors import FsyncFailed, StoreError
from runtime.memory.folder import Folder, naming
from runtime.memory.item import Item, rfc3339
from runtime.memory.records import evidence, outbox, state
from runtime.memory.records.folder_index import FolderIndex, is_current
from runtime.memory.records.record import (
    NOT_CONFIGURED,
    PENDING,
    Damaged,
    decode,
    delivery_id,
    encode,
    fields_of,
    is_id,
    name_of,
    stamp,
)
from runtime.memory.records.shelf import Shelf
from runtime.memory.records.staging import discard, flush, publish, stage, staged
from runtime.memory.store import Growth, Part

AT_ONCE = 256
"""Records in a folder up to which `index.json` is written with every write; beyond, a moment later."""
_STAMP = 16
_TIMES = 4096  # records of which the time is remembered more exactly than their names say


class Write(NamedTuple):
    """Items to keep, with what closed the gates for each. `remote`: whether they are to be sent."""

    items: tuple[Item, ...]
    gates: tuple[dict[str, str], ...]
    remote: bool


class Mark(NamedTuple):
    """What became of sending a record. `done`: there is nothing more to do about it."""

    note: outbox.Note
    sent: bool
    error: str | None
    done: bool
    facts: dict[str, Any]


class Refusal(NamedTuple):
    """A write that was refused at these gates."""

    session_id: str | None
    gates: tuple[str, ...]


class Tidy(NamedTuple):
    """Write `index.json` when it is not right, and finish what a killed writer left when `recover`."""

    recover: bool = False


Work = Write | Mark | Refusal | Tidy


@dataclass
class Done:
    """What came of one work: the items that were written, and the notes of those that are to be sent."""

    written: tuple[Item, ...] = ()
    notes: tuple[outbox.Note, ...] = ()


@dataclass
class Performed:
    """What came of many works: each one's outcome, what to tell of growth, and what went wrong that lost nothing."""

    outcomes: list[Done | Exception]
    growths: list[Growth] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


class _Staged(NamedTuple):
    """A record that is on disk and has no name yet."""

    work: int
    item: Item
    name: str
    size: int
    partial: str
    event: tuple[str, str]
    note: outbox.Note | None


class Cabinet:
    """One agent's folder under the store's root. One thread at a time may use it; `shelf` is for others too."""

    def __init__(self, root: Path, agent_id: str, clock: Clock, shelf: Shelf) -> None:
        self.root = root
        self.agent_id = agent_id
        self.shelf = shelf
        self._clock = clock
        self._index = FolderIndex(agent_id)
        self._stamp: bytes | None = None
        self._times: dict[str, datetime] = {}

    @property
    def behind(self) -> bool:
        """Whether `index.json` has still to be written."""
        return self._index.behind > 0

    def perform(self, works: Sequence[Work]) -> Performed:
        """Do all of them under one lock, the writes first and together. Raises what stands in the way of all."""
        result = Performed([Done() for _ in works])
        writes = [(number, work) for number, work in enumerate(works) if isinstance(work, Write)]
        create = any(isinstance(work, Write | Refusal) for work in works)
        with self._held(create=create) as folder:
            if folder is None:
                return result
            if writes:
                self._keep(folder, writes, result)
            for number, work in enumerate(works):
                try:
                    match work:
                        case Mark():
                            self._mark(folder, work, result)
                        case Refusal():
                            self._refused(folder, work)
                        case Tidy():
                            self._tidy(folder, work)
                except FsyncFailed:
                    raise
                except StoreError as error:
                    result.outcomes[number] = error
        return result

    @contextlib.contextmanager
    def _held(self, *, create: bool) -> Iterator[Folder | None]:
        """The agent's folder under its lock, its shelf as it is; None when there is none and none is to be made."""
        while True:
            with contextlib.ExitStack() as held:
                root = Folder.open_root(self.root, create=create)
                folder = held.enter_context(root).child(self.agent_id, create=create) if root is not None else None
                if folder is None:
                    yield None
                    return
                held.enter_context(folder)
                if held.enter_context(lock.writing(folder)):
                    found = self._read_stamp(folder)
                    self.shelf.refresh(folder, again=self._stamp is None or found != self._stamp)
                    self._stamp = found
                    yield folder
                    return

    # Writing

    def _keep(self, folder: Folder, writes: Sequence[tuple[int, Write]], result: Performed) -> None:
        with contextlib.ExitStack() as held:
            proofs = folder.child(evidence.FOLDER, create=True)
            assert proofs is not None
            held.enter_context(proofs)
            waiting = None
            if any(work.remote for _, work in writes):
                waiting = folder.child(outbox.FOLDER, create=True)
                assert waiting is not None
                held.enter_context(waiting)
            kept = self._stage_all(folder, proofs, waiting, writes)
            if not kept:
                return
            before = self._revisions(kept)
            self._publish_all(folder, proofs, waiting, kept)
        for each in kept:
            self._index.add(each.name, each.item)
            done = result.outcomes[each.work]
            assert isinstance(done, Done)
            done.written += (each.item,)
            done.notes += (each.note,) if each.note is not None else ()
        result.growths += self._growths(kept, before)
        with self._forgiven(result):
            self._tell_state(folder, kept[-1])
        if len(self.shelf.sizes) <= AT_ONCE:
            with self._forgiven(result):
                self._index.write(folder, self.shelf, self._now())

    def _stage_all(
        self, folder: Folder, proofs: Folder, waiting: Folder | None, writes: Sequence[tuple[int, Write]]
    ) -> list[_Staged]:
        kept: list[_Staged] = []
        ids: set[str] = set()
        try:
            for number, work in writes:
                for given, gates in zip(work.items, work.gates, strict=True):
                    item = self._identified(folder, given, ids)
                    if item is not None:
                        ids.add(item.memory_id)
                        self._stage(folder, proofs, waiting if work.remote else None, number, item, gates, kept)
            if waiting is not None and kept:
                flush(waiting)
        except BaseException:
            self._take_back(folder, proofs, waiting, kept)
            raise
        return kept

    def _stage(
        self, folder: Folder, proofs: Folder, waiting: Folder | None, number: int, item: Item,
        gates: dict[str, str], kept: list[_Staged],
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
                publish(waiting, stage(waiting, note.file, outbox.note_data(note, now)), note.file)
                failed.callback(discard, waiting, note.file)
            proof = stage(proofs, event, facts)
            failed.callback(discard, proofs, proof)
            partial = stage(folder, name, data)
            failed.pop_all()
        kept.append(_Staged(number, item, name, len(data), partial, (proof, event), note))

    def _publish_all(self, folder: Folder, proofs: Folder, waiting: Folder | None, kept: Sequence[_Staged]) -> None:
        try:
            self._write_stamp(folder)
            for each in kept:
                publish(folder, each.partial, each.name)
            flush(folder)
        except BaseException:
            for each in kept:
                discard(folder, each.name)
            self._take_back(folder, proofs, waiting, kept)
            self._stamp = None
            raise
        for each in kept:
            self.shelf.put(each.name, each.size)
        with contextlib.suppress(StoreError):  # what has no name yet gets it from `recover`
            for each in kept:
                publish(proofs, *each.event)
        flush(proofs)

    def _take_back(self, folder: Folder, proofs: Folder, waiting: Folder | None, kept: Sequence[_Staged]) -> None:
        for each in kept:
            discard(folder, each.partial)
            discard(proofs, each.event[0])
            if waiting is not None and each.note is not None:
                discard(waiting, each.note.file)

    def _identified(self, folder: Folder, item: Item, ids: set[str]) -> Item | None:
        """The item with the id that it gets; None when it is there already.

        An id that it brings (an export's) is kept, unless something else has it here.
        """
        own = delivery_id(item)
        if own is not None:
            return None if own in ids or own in self.shelf.ids else item.changed(memory_id=own)
        wanted = item.memory_id
        if not is_id(wanted) or wanted in ids:
            return item.changed(memory_id=uuid7(self._clock))
        name = self.shelf.ids.get(wanted)
        if name is None:
            return item
        with contextlib.suppress(Damaged, StoreError):
            if decode(name, self.agent_id, folder.read(name)).item.chunk_hash == item.chunk_hash:
                return None
        return item.changed(memory_id=uuid7(self._clock))

    def _revisions(self, kept: Sequence[_Staged]) -> dict[date, str | None]:
        return {day: self.shelf.revision(day) for day in {each.item.timestamp.date() for each in kept}}

    def _growths(self, kept: Sequence[_Staged], before: dict[date, str | None]) -> Iterator[Growth]:
        """What was added behind all that its day had; of anything else the revision tells."""
        self._times.update((each.name, each.item.timestamp) for each in kept)
        for day, revision in before.items():
            new = sorted((each.item.timestamp, each.name, each) for each in kept if each.item.timestamp.date() == day)
            if self._are_last(day, new[0][0], {name for _, name, _ in new}):
                after = self.shelf.revision(day)
                assert after is not None
                yield Growth(part_of(self.agent_id, day, after), revision, tuple(each.item for *_, each in new))
        while len(self._times) > _TIMES:
            self._times.pop(next(iter(self._times)))

    def _are_last(self, day: date, earliest: datetime, new: set[str]) -> bool:
        """Whether every other record of the day is older than `earliest`: names say so to the second, and of those that
        were written last more is known."""
        with self.shelf.lock:
            names = self.shelf.days.get(day, [])
            if new != set(names[-len(new) :]):
                return False
            second = stamp(earliest)
            same = takewhile(lambda name: name.startswith(second), reversed(names[: -len(new)]))
            return all(name in self._times and self._times[name] <= earliest for name in same)

    # What is beside the records

    def _tell_state(self, folder: Folder, last: _Staged) -> None:
        state.write_state(
            folder,
            last.item.provenance.session_id,
            {
                "status": "stored",
                "id": last.item.memory_id,
                "time": rfc3339(self._now()),
                "remote": NOT_CONFIGURED if last.note is None else PENDING,
            },
        )

    def _refused(self, folder: Folder, work: Refusal) -> None:
        write = {"status": "refused", "id": None, "time": rfc3339(self._now()), "remote": None}
        state.write_state(folder, work.session_id, write | {"gates": list(work.gates)})

    def _mark(self, folder: Folder, work: Mark, result: Performed) -> None:
        """Write down what became of sending a record; last of all, that nothing is to be sent any more."""
        name = work.note.record
        data = folder.read(name)
        try:
            fields = decode(name, self.agent_id, data).fields
        except Damaged:
            fields = {}
        status = {
            "store_location": "local+remote" if work.sent else "local",
            "remote_store_attempted": True,
            "remote_store_error": work.error,
        }
        if fields and any(fields.get(key) != value for key, value in status.items()):
            self._rewrite(folder, name, fields | status, data, result)
            self._prove(folder, work)
            self._tell_sent(folder, work)
        elif not fields and work.done:
            self._prove(folder, work)
        if work.done:
            outbox.forget(folder, work.note)

    def _rewrite(
        self, folder: Folder, name: str, fields: dict[str, Any], known: bytes | None, result: Performed
    ) -> None:
        day = decode(name, self.agent_id, known).item.timestamp.date()
        before, new = self.shelf.revision(day), encode(fields)
        if not folder.replace(name, new, known):
            raise StoreError(f"{folder.path / name} was changed by someone else", hint="a record is never changed")
        self.shelf.put(name, len(new))
        after = self.shelf.revision(day)
        if after is not None:
            result.growths.append(Growth(part_of(self.agent_id, day, after), before, ()))

    def _prove(self, folder: Folder, work: Mark) -> None:
        now, known = self._now(), outbox.id_of(work.note)
        event: evidence.Event = evidence.REMOTE if work.sent else evidence.ERROR
        facts = work.facts if work.sent else {**work.facts, "error": work.error, "again": not work.done}
        with contextlib.ExitStack() as held:
            proofs = folder.child(evidence.FOLDER, create=True)
            assert proofs is not None
            held.enter_context(proofs)
            name = evidence.event_name(event, known, now)
            data = evidence.event_data(event, known, now, record=work.note.record, **facts)
            publish(proofs, stage(proofs, name, data), name)
            flush(proofs)

    def _tell_sent(self, folder: Folder, work: Mark) -> None:
        last = state.last_write(folder)
        if last.get("id") == outbox.id_of(work.note):
            session = state.read_state(folder)["last_session"].get("session_id")
            state.write_state(folder, session, last | {"remote": "sent" if work.sent else work.error})

    def _tidy(self, folder: Folder, work: Tidy) -> None:
        if work.recover:
            self._recover(folder)
        if self.shelf.sizes and (self.behind or not is_current(folder, self.shelf)):
            self._index.write(folder, self.shelf, self._now())

    def _recover(self, folder: Folder) -> None:
        """Finish what a killed writer left: evidence of records that are there, and notes of those that are not."""
        for name in staged(folder):
            discard(folder, name)
        proofs, waiting = folder.child(evidence.FOLDER), folder.child(outbox.FOLDER)
        if proofs is not None:
            with proofs:
                for partial, name in staged(proofs).items():
                    if evidence.local_id(name) in self.shelf.ids:
                        publish(proofs, partial, name)
                    else:
                        discard(proofs, partial)
                flush(proofs)
        if waiting is not None:
            with waiting:
                for name in staged(waiting):
                    discard(waiting, name)
                for note in outbox.notes(waiting, self.agent_id):
                    if note.record not in self.shelf.sizes:
                        discard(waiting, note.file)

    @contextlib.contextmanager
    def _forgiven(self, result: Performed) -> Iterator[None]:
        """What is beside a record that is kept must not make its write a failed one."""
        try:
            yield
        except FsyncFailed:
            raise
        except StoreError as error:
            result.faults.append(error.line())

    # The stamp that every writer leaves in the lock file, so that others know that they have to look again

    def _read_stamp(self, folder: Folder) -> bytes:
        with folder.opened(lock.NAME) as descriptor:
            return b"" if descriptor is None else os.pread(descriptor, _STAMP, 0)

    def _write_stamp(self, folder: Folder) -> None:
        new = os.urandom(_STAMP)
        with folder.opened(lock.NAME, os.O_WRONLY) as descriptor, naming(folder.path / lock.NAME, "write"):
            if descriptor is not None:
                os.pwrite(descriptor, new, 0)
        self._stamp = new

    def _now(self) -> datetime:
        return utc(self._clock.now()).astimezone(UTC)


def part_of(agent_id: str, day: date, revision: str) -> Part:
    """The part that a day's records are."""
    return Part(f"{agent_id}/{day.isoformat()}", agent_id, revision)
