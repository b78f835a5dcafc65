"""Reads a records store: its agents, their records, and whether these are unchanged."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from datetime import UTC, date
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import structlog

from runtime.memory.errors import StoreError
from runtime.memory.files.folder import Folder, file_errors, revision
from runtime.memory.files.reader import FileReader
from runtime.memory.item import Item
from runtime.memory.records.files import evidence, folder_index, outbox, state
from runtime.memory.records.files.name_index import RecordNameIndex, part_of
from runtime.memory.records.files.record import LARGEST, DamagedRecord, Record, decode, read_name, type_of
from runtime.memory.store_types import UNREADABLE, Inspection, ItemLocation, Part, Scan, StoreProblem, StoreStats

BATCH, BATCH_BYTES = 128, 8 * 1024 * 1024
"""Records that are read at a time, and their bytes."""

_OWN = frozenset({folder_index.NAME, state.NAME})
_log = structlog.get_logger(__name__)


class RecordReader(FileReader):
    """The reading half of a records store. A damaged record is skipped, logged once and reported."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._name_indexes: dict[str, RecordNameIndex] = {}
        self._guard = Lock()
        self._indexes: dict[str, tuple[str, dict[str, Any] | None]] = {}

    def name_index(self, agent_id: str) -> RecordNameIndex:
        """Return the name index of an agent's folder."""
        with self._guard:
            return self._name_indexes.setdefault(agent_id, RecordNameIndex())

    @contextlib.contextmanager
    def open_with_index(self, agent_id: str, *, again: bool = False) -> Iterator[tuple[Folder | None, RecordNameIndex]]:
        """Yield an agent's folder and its refreshed name index. `again`: list the folder in any case."""
        name_index = self.name_index(agent_id)
        with self.open_folder(agent_id) as folder:
            if folder is not None:
                name_index.refresh(folder, again=again)
            else:
                name_index.clear()
            yield folder, name_index

    def holds_items(self, folder: Folder) -> bool:
        with file_errors(folder.path, "list"), os.scandir(folder.descriptor) as entries:
            return any(read_name(entry.name) is not None for entry in entries)

    def unreadable_part(self, agent_id: str) -> Part:
        return part_of(agent_id, date.min, UNREADABLE)

    def parts(self, agent_id: str) -> list[Part]:
        """Return one part for every day of an agent's records."""
        with self.open_with_index(agent_id) as (_, name_index), name_index.lock:
            days = sorted(name_index.days)
            return [part_of(agent_id, day, name_index.revision(day) or "") for day in days]

    def batches(self, agent_id: str, wanted: Scan) -> list[Callable[[], Sequence[Item]]]:
        names = self._names(agent_id, wanted)
        return [partial(self._items, agent_id, some, -1 if wanted.newest_first else 1) for some in names]

    def _items(self, agent_id: str, names: Sequence[str], step: int) -> list[Item]:
        found = sorted(self.records(agent_id, names), key=lambda pair: (pair[0].timestamp, Path(pair[1].file).name))
        return [item for item, _ in found[::step]]

    def _names(self, agent_id: str, wanted: Scan) -> list[list[str]]:
        """Return the names that may be wanted, in the order of the scan, in batches of whole seconds."""
        since = None if wanted.since is None else wanted.since.astimezone(UTC).date()
        until = None if wanted.until is None else wanted.until.astimezone(UTC).date()
        with self.open_with_index(agent_id) as (folder, name_index):
            ids = None if folder is None else self._likely_ids(folder, agent_id, name_index, wanted)
            with name_index.lock:
                names = [
                    name
                    for day in sorted(name_index.days)
                    if (since is None or day >= since) and (until is None or day <= until)
                    for name in name_index.days[day]
                    if ids is None or name[16:-5] in ids
                ]
            return _batches(names[::-1] if wanted.newest_first else names, name_index.sizes)

    def _likely_ids(self, folder: Folder, agent_id: str, name_index: RecordNameIndex, wanted: Scan) -> Set[str] | None:
        """Return the ids that may be wanted, as far as known without reading records; None: any."""
        if wanted.memory_ids:
            return wanted.memory_ids
        if not (wanted.tags or wanted.tags_any or wanted.memory_type):
            return None
        status = folder.status(folder_index.NAME)
        now = "" if status is None else revision(status)
        held, index = self._indexes.get(agent_id, ("", None))
        if held != now:
            index = folder_index.read_index(folder)
            self._indexes[agent_id] = now, index
        with name_index.lock:
            current = index is not None and index.get("names") == f"{name_index.digest:032x}"
        return folder_index.wanted_ids(index, wanted) if current and index is not None else None

    def agents_behind(self) -> list[str]:
        """Return the agents whose `index.json` is out of date."""
        with self._guard:
            return [agent_id for agent_id, name_index in self._name_indexes.items() if name_index.behind]

    def records(self, agent_id: str, names: Sequence[str]) -> list[tuple[Item, ItemLocation]]:
        """Return the items of these records, with their locations; damaged ones are left out."""
        found: list[tuple[Item, ItemLocation]] = []
        with self.open_folder(agent_id) as folder:
            name_index = self.name_index(agent_id)
            for name in names if folder is not None else ():
                assert folder is not None
                try:
                    found.append((load(folder, agent_id, name).item, ItemLocation(str(folder.path / name), None)))
                except DamagedRecord as error:
                    self._report(name_index, folder, name, str(error))
        return found

    def read(self, part: Part) -> list[tuple[Item, ItemLocation]]:
        """Return the records of a day in the order of their names: by time to the second, then by id."""
        try:
            day = date.fromisoformat(part.name.rpartition("/")[2])
        except ValueError:
            return []
        with self.open_with_index(part.agent_id) as (_, name_index), name_index.lock:
            names = list(name_index.days.get(day, ()))
        return self.records(part.agent_id, names)

    def _report(self, name_index: RecordNameIndex, folder: Folder, name: str, why: str) -> None:
        if name_index.report(folder, name, why):
            _log.warning("memory_record_damaged", file=str(folder.path / name), reason=why)

    def locate(self, items: Sequence[Item]) -> dict[str, ItemLocation]:
        """Return the locations of these items by memory_id."""
        found: dict[str, ItemLocation] = {}
        for agent_id in {item.agent_id for item in items}:
            with self.open_with_index(agent_id) as (folder, name_index):
                for item in items if folder is not None else ():
                    name = name_index.ids.get(item.memory_id)
                    if folder is not None and item.agent_id == agent_id and name is not None:
                        found[item.memory_id] = ItemLocation(str(folder.path / name), None)
        return found

    def inspect(self, agent_id: str, day: date) -> Inspection:
        """Return text about long-term records and about a day's episodes."""
        known: list[str] = []
        log: list[str] = []
        for names in self._names(agent_id, Scan()):
            for item, place in self.records(agent_id, names):
                if item.memory_type != "episodic":
                    known.append(_line(item, place))
                elif item.timestamp.date() == day:
                    log.append(_line(item, place))
        folder = self.root / agent_id
        texts = ["\n".join(lines) + "\n" if lines else None for lines in (known, log)]
        return Inspection(agent_id, day, texts[0], texts[1], str(folder), str(folder / f"{day:%Y%m%d}_*.json"))

    def stats(self, agent_id: str | None) -> StoreStats:
        """Count agents, records, bytes and days; report known damage."""
        agents = self.agents() if agent_id is None else (agent_id,)
        files = size = there = 0
        days: list[date] = []
        problems: list[StoreProblem] = []
        for agent in agents:
            try:
                with self.open_with_index(agent) as (folder, name_index), name_index.lock:
                    there += folder is not None
                    files += len(name_index.sizes)
                    size += sum(name_index.sizes.values())
                    days += name_index.days
                    problems += [
                        StoreProblem(str(self.root / agent / name), why) for name, why in name_index.damaged.items()
                    ]
            except StoreError as error:
                problems.append(StoreProblem(str(self.root / agent), error.line()))
        oldest, newest = (min(days), max(days)) if days else (None, None)
        return StoreStats(there, files, size, oldest, newest, tuple(problems))

    def verify(self, agent_id: str) -> tuple[int, list[StoreProblem]]:
        """Read every record of an agent. Returns their number, and what is damaged."""
        problems: list[StoreProblem] = []
        proved = self._proven_records(agent_id)  # first, for evidence has its name after its record
        with self.open_with_index(agent_id, again=True) as (folder, name_index):
            if folder is None:
                return 0, []
            with name_index.lock:
                names = sorted(name_index.sizes)
                ids = dict(name_index.ids)
            for name in names:
                try:
                    load(folder, agent_id, name)
                except (DamagedRecord, StoreError) as error:
                    problems.append(StoreProblem(str(folder.path / name), str(error)))
                    if isinstance(error, DamagedRecord):
                        self._report(name_index, folder, name, str(error))
                known = read_name(name)
                if known is not None and ids.get(known.id, name) != name:
                    problems.append(StoreProblem(str(folder.path / name), f"{ids[known.id]} has the same id"))
            problems += _misnamed_files(folder)
            problems += [
                StoreProblem(
                    str(folder.path / evidence.FOLDER / file), f"the record {known} was stored, and is missing"
                )
                for known, file in proved.items()
                if known not in ids
            ]
        return len(names), problems

    def _proven_records(self, agent_id: str) -> dict[str, str]:
        """Return the records that evidence proves to have been stored, each with its file."""
        with self.open_folder(agent_id) as folder, contextlib.ExitStack() as held:
            proofs = folder.child(evidence.FOLDER) if folder is not None else None
            names = held.enter_context(proofs).names() if proofs is not None else []
            return {known: name for name in names if (known := evidence.local_id(name)) is not None}

    def notes(self, agent_id: str) -> list[outbox.Note]:
        """Return the notes of what an agent has still to send."""
        with self.open_folder(agent_id) as folder, contextlib.ExitStack() as held:
            waiting = folder.child(outbox.FOLDER) if folder is not None else None
            return outbox.notes(held.enter_context(waiting), agent_id) if waiting is not None else []


def load(folder: Folder, agent_id: str, name: str) -> Record:
    """Read one record. Raises DamagedRecord, StoreError."""
    status = folder.status(name)
    if status is not None and status.st_size > LARGEST:
        raise DamagedRecord(f"it has {status.st_size} bytes; the maximum of a record is {LARGEST}")
    try:
        return decode(name, agent_id, folder.read(name))
    except StoreError as error:
        raise DamagedRecord(error.line()) from error


def _batches(names: Sequence[str], sizes: Mapping[str, int]) -> list[list[str]]:
    """Split `names` into batches that never divide a second, within which only the exact times give the order."""
    found: list[list[str]] = []
    size = 0
    for name in names:
        full = not found or len(found[-1]) >= BATCH or size >= BATCH_BYTES
        if full and (not found or found[-1][-1][:15] != name[:15]):
            found.append([])
            size = 0
        found[-1].append(name)
        size += sizes[name]
    return found


def _line(item: Item, place: ItemLocation) -> str:
    title = item.text.strip().partition("\n")[0]
    return f"- {item.timestamp:%Y-%m-%d %H:%M} [{type_of(item)}] {title} ({Path(place.file).name})"


def _misnamed_files(folder: Folder) -> Iterator[StoreProblem]:
    """Yield JSON files that do not have a record's name: nothing else finds a renamed record."""
    for name in folder.names():
        if name.endswith(".json") and name not in _OWN and read_name(name) is None:
            yield StoreProblem(str(folder.path / name), "its name is not the name of a record")
