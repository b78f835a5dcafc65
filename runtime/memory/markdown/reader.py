"""Reads a markdown store: its agents, their files, and the locations of items."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path

from runtime.memory.errors import StoreError
from runtime.memory.files import lock
from runtime.memory.files.folder import Folder, file_errors, read_all, revision
from runtime.memory.files.reader import FileReader
from runtime.memory.item import Item
from runtime.memory.markdown.agent_memory import LOGS, MEMORY, logs_of, part_name
from runtime.memory.markdown.items import log_items, long_term_items
from runtime.memory.markdown.text.daily_log import DailyLog, day_of, days
from runtime.memory.markdown.text.document import MarkdownDocument
from runtime.memory.markdown.text.lines import unreadable_line
from runtime.memory.markdown.unread import UnreadText, unread_texts
from runtime.memory.store_types import UNREADABLE, Inspection, ItemLocation, Part, Scan, StoreProblem, StoreStats

_MOST_CACHED = 100_000  # number of files whose problems are cached


class MarkdownReader(FileReader):
    """The reading half of a markdown store."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._cached_findings: dict[str, tuple[str, list[UnreadText]]] = {}

    def holds_items(self, folder: Folder) -> bool:
        return folder.status(MEMORY) is not None or folder.status(LOGS) is not None

    def batches(self, agent_id: str, wanted: Scan) -> list[Callable[[], Sequence[Item]]]:
        with self.open_folder(agent_id) as folder:
            found = [] if folder is None else _days(folder)
        if wanted.memory_type not in {None, "episodic"}:
            found = []
        if wanted.since is not None:
            found = [day for day in found if day >= wanted.since.astimezone(UTC).date()]
        if wanted.until is not None:
            found = [day for day in found if day <= wanted.until.astimezone(UTC).date()]
        memory = [None] if wanted.memory_type != "episodic" else []
        files: list[date | None] = [*memory, *found]
        step = -1 if wanted.newest_first else 1
        return [partial(self._items, agent_id, day, step) for day in files[::step]]

    def _items(self, agent_id: str, day: date | None, step: int) -> list[Item]:
        return [item for item, _ in self.located_items(agent_id, day)][::step]

    def unreadable_part(self, agent_id: str) -> Part:
        return Part(part_name(agent_id, None), agent_id, UNREADABLE)

    def parts(self, agent_id: str) -> list[Part]:
        """Return `memory.md` and every log of an agent, each with its revision; only folders are opened.

        A folder, pipe or link in place of such a file is a part, too: reading it raises an error, while omitting it
        would mean that it is gone.
        """
        found: list[Part] = []
        with self.open_folder(agent_id) as agent:
            memory = None if agent is None else agent.status(MEMORY)
            if memory is not None:
                found.append(Part(part_name(agent_id, None), agent_id, revision(memory)))
            with logs_of(agent) as logs:
                for day in () if logs is None else days(logs.names()):
                    status = None if logs is None else logs.status(f"{day.isoformat()}.md")
                    if status is not None:
                        found.append(Part(part_name(agent_id, day), agent_id, revision(status)))
        return found

    def read(self, part: Part) -> list[tuple[Item, ItemLocation]]:
        """Return the items of a part that `parts` named. Raises StoreError."""
        file = part.name.rpartition("/")[2]
        day = None if file == MEMORY else day_of(file)
        if part.name != part_name(part.agent_id, day):
            raise StoreError(f"{part.name!r} is not a part of the memory of {part.agent_id}")
        return self.located_items(part.agent_id, day)

    def located_items(self, agent_id: str, day: date | None) -> list[tuple[Item, ItemLocation]]:
        """Return the items of `memory.md`, or of a day's log, with their locations; empty if the file does not
        exist."""
        name = MEMORY if day is None else f"{day.isoformat()}.md"
        with self.open_folder(agent_id) as agent, _folder_of(agent, day) as folder:
            if agent is None or folder is None:
                return []
            with lock.reading(agent):
                data, status = folder.read(name), folder.status(name)
            file = str(folder.path / name)
        if data is None or status is None:
            return []
        if day is None:
            document = MarkdownDocument.parse(data)
            items = long_term_items(agent_id, document, datetime.fromtimestamp(status.st_mtime, UTC))
            lines = [bullet.start for _, bullet in document.items]
        else:
            log = DailyLog.parse(day, data)
            items, lines = log_items(agent_id, log), [entry.start for entry in log.entries]
        return [(item, ItemLocation(file, line + 1)) for item, line in zip(items, lines, strict=True)]

    def locate(self, items: Sequence[Item]) -> dict[str, ItemLocation]:
        """Return the current locations of items by memory_id."""
        wanted: dict[tuple[str, date | None], set[str]] = defaultdict(set)
        for item in items:
            day = item.timestamp.date() if item.memory_type == "episodic" else None
            wanted[item.agent_id, day].add(item.memory_id)
        return {
            item.memory_id: place
            for (agent_id, day), ids in wanted.items()
            for item, place in self.located_items(agent_id, day)
            if item.memory_id in ids
        }

    def inspect(self, agent_id: str, day: date) -> Inspection:
        """Return the text of `memory.md` and of a day's log, with U+FFFD for what is not UTF-8."""
        log = f"{day.isoformat()}.md"
        texts: list[str | None] = []
        with self.open_folder(agent_id) as agent, _folder_of(agent, day) as logs:
            for folder, name in ((agent, MEMORY), (logs, log)):
                data = None if folder is None else folder.read(name)
                texts.append(None if data is None else data.decode("utf-8", "replace"))
        folder_path = self.root / agent_id
        return Inspection(agent_id, day, texts[0], texts[1], str(folder_path / MEMORY), str(folder_path / LOGS / log))

    def stats(self, agent_id: str | None) -> StoreStats:
        """Count agents, files, bytes and days; report what cannot be opened, is not text or is not an item. A file is
        read again only after it has changed."""
        if len(self._cached_findings) > _MOST_CACHED:
            self._cached_findings.clear()
        found, known = Measure(self._cached_findings), 0
        for agent in self.agents() if agent_id is None else (agent_id,):
            with found.reporting(self.root / agent), self.open_folder(agent) as folder:
                known += folder is not None
                if folder is not None:
                    found.take(agent, folder)
        oldest, newest = (min(found.days), max(found.days)) if found.days else (None, None)
        return StoreStats(known, len(found.sizes), sum(found.sizes), oldest, newest, tuple(found.problems))

    def sweep(self) -> None:
        """Finish interrupted deletions of folders."""
        root = Folder.open_root(self.root)
        if root is None:
            return
        with root:
            for name in root.interrupted_deletions():
                shutil.rmtree(name, dir_fd=root.descriptor, ignore_errors=True)


def _folder_of(agent: Folder | None, day: date | None) -> AbstractContextManager[Folder | None]:
    """Open the agent's folder, or for a day's log the folder of logs."""
    return contextlib.nullcontext(agent) if day is None else logs_of(agent)


def _days(agent: Folder) -> list[date]:
    with logs_of(agent) as logs:
        return [] if logs is None else days(logs.names())


class Measure:
    """Sums of `stats` over the agents."""

    def __init__(self, checked: dict[str, tuple[str, list[UnreadText]]]) -> None:
        self.sizes: list[int] = []
        self.days: list[date] = []
        self.problems: list[StoreProblem] = []
        self._cached_findings = checked

    def take(self, agent_id: str, agent: Folder) -> None:
        """Add every file of an agent."""
        found: list[date] = []
        with self.reporting(agent.path / LOGS):
            found = _days(agent)
        self.days += found
        for day in [None, *found]:
            name = MEMORY if day is None else f"{day.isoformat()}.md"
            path = agent.path / (name if day is None else f"{LOGS}/{name}")
            with self.reporting(path), _folder_of(agent, day) as folder:
                if folder is not None:
                    self._take_file(agent_id, day, folder, name)

    def _take_file(self, agent_id: str, day: date | None, folder: Folder, name: str) -> None:
        with folder.open_file(name) as descriptor:
            if descriptor is None:
                return
            status = os.fstat(descriptor)
            self.sizes.append(status.st_size)
            file = str(folder.path / name)
            known, found = self._cached_findings.get(file, ("", []))
            if known != revision(status):
                with file_errors(folder.path / name, "read"):
                    data = read_all(descriptor)
                found = [*_not_utf8(data), *unread_texts(agent_id, day, data)]
                self._cached_findings[file] = revision(status), found
        self.problems += [StoreProblem(file, each.message, "warning", each.line) for each in found]

    @contextlib.contextmanager
    def reporting(self, path: Path) -> Iterator[None]:
        """Report a StoreError as a problem of this file or folder."""
        try:
            yield
        except StoreError as error:
            self.problems.append(StoreProblem(str(path), error.line()))


def _not_utf8(data: bytes) -> Iterator[UnreadText]:
    line = unreadable_line(data)
    if line is not None:
        said = f"line {line} is not UTF-8 text; the file is not changed, and invalid bytes are shown as U+FFFD"
        yield UnreadText(line, said)
