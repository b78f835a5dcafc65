"""One agent's memory on disk: `memory.md` and its daily logs, read and changed under the folder's lock.

All calls block; the store runs them in threads. Requests of one batch are written together: one replacement of
`memory.md`, one append and one fsync for each day's log.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from secrets import token_hex

from runtime.clock import Clock, utc
from runtime.memory.errors import FsyncFailed, NoSuchItem, StoreBusy, StoreError
from runtime.memory.files.agent_folder import lock_folder, open_folder
from runtime.memory.files.folder import Folder, file_errors, sync
from runtime.memory.item import Item, idempotency_key
from runtime.memory.markdown.items import log_items, long_term_items
from runtime.memory.markdown.log_state import LogState
from runtime.memory.markdown.relinking import relink
from runtime.memory.markdown.text.annotation import Annotation
from runtime.memory.markdown.text.daily_log import DailyLog, day_of, days, entry_of
from runtime.memory.markdown.text.document import MarkdownDocument, bullet_of, section_of
from runtime.memory.markdown.text.literal_blocks import Inseparable
from runtime.memory.store_types import Append, Part
from runtime.memory.succession import HiddenItems, changes_among, is_change

MEMORY = "memory.md"
LOGS = "logs"
_TRIES = 50  # attempts of a replacement; each failed one met a concurrent edit by a person
_LOG_STATES = 4  # cached days of one agent


def part_name(agent_id: str, day: date | None) -> str:
    """Return the name of the part of `memory.md`, or of a day's log: its path under the store's root."""
    return f"{agent_id}/{MEMORY}" if day is None else f"{agent_id}/{LOGS}/{day.isoformat()}.md"


@dataclass(frozen=True)
class MarkdownEdit:
    """An edit of one item, or without text its deletion."""

    memory_id: str
    text: str | None


WriteRequest = tuple[Item, ...] | MarkdownEdit
WriteResult = tuple[Item, ...] | Item | None | StoreError


class AgentMemory:
    """One agent's folder under the store's root. One thread at a time may use it."""

    def __init__(self, root: Path, agent_id: str, clock: Clock) -> None:
        self.root = root
        self.agent_id = agent_id
        self._clock = clock
        self._log_states: OrderedDict[date, LogState] = OrderedDict()
        self._appends: list[Append] = []

    def appends(self) -> list[Append]:
        """Return and clear what was appended to logs, where nothing else is known to have happened to them."""
        appends, self._appends = self._appends, []
        return appends

    def perform(self, works: Sequence[WriteRequest]) -> list[WriteResult]:
        """Do all requests under one lock: first the appends together, then the deletions together, then the edits in
        order.

        Returns an outcome for each request: the items that were written, the edited item, None for a deletion, or the
        StoreError of that request alone. Raises an error that prevents all of them.
        """
        outcomes: list[WriteResult] = [()] * len(works)
        appends = [(number, work) for number, work in enumerate(works) if not isinstance(work, MarkdownEdit)]
        edits = [(number, work) for number, work in enumerate(works) if isinstance(work, MarkdownEdit)]
        with self.lock_folder(create=bool(appends)) as folder:
            if appends and folder is not None:
                written = iter(self._append(folder, [item for _, items in appends for item in items]))
                for number, items in appends:
                    outcomes[number] = tuple(item for item in (next(written) for _ in items) if item is not None)
            deleted = self._delete(folder, {edit.memory_id for _, edit in edits if edit.text is None})
            for number, edit in edits:
                if edit.text is None:
                    outcomes[number] = deleted.pop(edit.memory_id, self._no_such_item(edit.memory_id))
                else:
                    outcomes[number] = self._edit_or_error(folder, edit.memory_id, edit.text)
        return outcomes

    def _edit_or_error(self, folder: Folder | None, memory_id: str, text: str) -> Item | StoreError:
        try:
            return self._edit(folder, memory_id, text)
        except FsyncFailed:
            raise
        except StoreError as error:
            return error

    def open_folder(self) -> AbstractContextManager[Folder | None]:
        """Open the agent's folder without its lock; None if it does not exist."""
        return open_folder(self.root, self.agent_id)

    def lock_folder(self, *, create: bool) -> AbstractContextManager[Folder | None]:
        """Open the agent's folder under its lock; None if it does not exist and is not to be created."""
        return lock_folder(self.root, self.agent_id, create=create)

    # Appending

    def _append(self, folder: Folder, items: Sequence[Item]) -> list[Item | None]:
        """Return for each item the item as written, or None if it was there already."""
        written: list[Item | None] = [None] * len(items)
        long_term = [number for number, item in enumerate(items) if item.memory_type != "episodic"]
        if long_term:
            self._append_long_term(folder, items, long_term, written)
        by_day: dict[date, list[int]] = defaultdict(list)
        for number, item in enumerate(items):
            if item.memory_type == "episodic":
                by_day[item.timestamp.date()].append(number)
        if by_day:
            with contextlib.ExitStack() as stack:
                logs = folder.child(LOGS, create=True)
                assert logs is not None
                stack.enter_context(logs)
                for day, numbers in sorted(by_day.items()):
                    self._append_to_log(logs, day, items, numbers, written)
        return written

    def _append_long_term(
        self, folder: Folder, items: Sequence[Item], numbers: Sequence[int], written: list[Item | None]
    ) -> None:
        def add(document: MarkdownDocument, otherwise: datetime) -> MarkdownDocument:
            there = long_term_items(self.agent_id, document, otherwise)
            keys = {idempotency_key(item.source_uri) for item in there} - {None}
            hidden = HiddenItems(changes_among(there))
            # A set for each user and subject: one's items neither suppress nor reveal another's.
            known = {_fact_key(item) for item in there if item not in hidden}
            alike = Counter((section_of(item), item.twins) for item in there)
            new: dict[str, list[tuple[str, Annotation]]] = defaultdict(list)
            for number in numbers:
                item, section, key = items[number], section_of(items[number]), idempotency_key(items[number].source_uri)
                written[number] = None
                if key in keys or (_fact_key(item) in known and not is_change(item)):
                    continue
                known.add(_fact_key(item))
                keys |= {key} - {None}
                new[section.name].append(bullet_of(item, section))
                written[number] = item.with_id(section.name, alike[section, item.twins])
                alike[section, item.twins] += 1
            return document.with_updated_time(self.agent_id, self.now(), otherwise).adding(new) if new else document

        self.rewrite(folder, add)
        if any(written[number] is None for number in numbers):
            # The process that wrote the existing entry may have been killed before it was on disk.
            folder.settle(MEMORY)

    def _append_to_log(
        self, logs: Folder, day: date, items: Sequence[Item], numbers: Sequence[int], written: list[Item | None]
    ) -> None:
        log_state = self._log_state(day)
        elsewhere = self._neighbours(logs, day) if any(idempotency_key(items[n].source_uri) for n in numbers) else []
        repeated: set[str] = set()

        def entries() -> bytes:
            pieces = []
            for number in numbers:
                item, key = items[number], idempotency_key(items[number].source_uri)
                written[number] = None
                if key is not None:
                    there = next((each.name for each in (log_state, *elsewhere) if key in each.keys), None)
                    if there is not None:
                        repeated.add(there)
                        continue
                    log_state.keys.add(key)
                pieces.append(entry_of(item, log_state.newline))
                written[number] = item.with_id(f"{LOGS}/{day.isoformat()}", log_state.occurrences[item.twins])
                log_state.occurrences[item.twins] += 1
            return b"".join(pieces)

        step = log_state.append(logs, entries)
        for name in repeated:
            # The process that wrote the existing entry may have been killed before it was on disk.
            logs.settle(name)
        if step is not None:
            added = tuple(item for item in (written[number] for number in numbers) if item is not None)
            part = Part(part_name(self.agent_id, day), self.agent_id, step.after)
            self._appends.append(Append(part, step.before, added))

    def _neighbours(self, logs: Folder, day: date) -> list[LogState]:
        """Return the logs of the previous and the next day: a repeated run may have another time than the first."""
        found = []
        for step in (-1, 1):
            with contextlib.suppress(OverflowError):
                log_state = self._log_state(day + timedelta(days=step))
                log_state.refresh(logs)
                found.append(log_state)
        return found

    def _log_state(self, day: date) -> LogState:
        log_state = self._log_states.setdefault(day, LogState(day))
        self._log_states.move_to_end(day)
        while len(self._log_states) > _LOG_STATES:
            self._log_states.popitem(last=False)
        return log_state

    # Changing

    def rewrite(self, folder: Folder, change: Callable[[MarkdownDocument, datetime], MarkdownDocument]) -> None:
        """Change `memory.md`. `change` gets its content and its time of modification."""

        def change_data(before: bytes) -> bytes:
            return change(MarkdownDocument.parse(before), self._modified_at(folder, MEMORY)).data

        self._rewrite(folder, MEMORY, change_data)

    def _rewrite(self, place: Folder, name: str, change: Callable[[bytes], bytes]) -> None:
        """Change a file; read it again whenever a person's edit comes in between. Without a file `change` gets no
        bytes. One that changes nothing is not written."""
        for _ in range(_TRIES):
            before = place.read(name)
            data = change(before or b"")
            if data == (before or b""):
                return
            place.sweep()
            if place.replace(name, data, before):
                return
        raise StoreBusy(f"{place.path / name} keeps changing", hint="close the program that writes to it")

    def _modified_at(self, place: Folder, name: str) -> datetime:
        """Return a file's time of modification; now if it does not exist."""
        status = place.status(name)
        return self.now() if status is None else datetime.fromtimestamp(status.st_mtime, UTC)

    def _edit(self, folder: Folder | None, memory_id: str, text: str) -> Item:
        with contextlib.closing(self._files(folder)) as files:
            for place, name in files:
                item = self._edit_in(place, name, memory_id, text)
                if item is not None:
                    return item
        raise self._no_such_item(memory_id)

    def _edit_in(self, place: Folder, name: str, memory_id: str, text: str) -> Item | None:
        """Return the item with its new text; None if it is not in this file."""
        found: list[Item] = []

        def edit_data(before: bytes) -> bytes:
            found.clear()
            old = _parse_file(name, before)
            number = next((at for at, item in enumerate(self._items(old)) if item.memory_id == memory_id), None)
            if number is None:
                return before
            with item_errors(place, name):
                if isinstance(old, DailyLog):
                    new: DailyLog | MarkdownDocument = old.replacing(old.entries[number], text)
                else:
                    new = relink(self.agent_id, old, old.replacing(old.places[number], text))
            new = self._with_time(new, place, name)
            found.append(self._items(new)[number])
            return new.data

        self._rewrite(place, name, edit_data)
        return found[0] if found else None

    def _delete(self, folder: Folder | None, memory_ids: Set[str]) -> dict[str, StoreError | None]:
        """Delete these items, all of a file together: their ids are those from before that, as a deletion may change
        the ids of others. Returns for each that was found None, or why it was not deleted."""
        done: dict[str, StoreError | None] = {}
        failures: list[StoreError] = []
        with collecting(failures), contextlib.closing(self._files(folder)) as files:
            while left := memory_ids - done.keys():
                place, name = next(files, (None, ""))
                if place is None:
                    break
                with collecting(failures):
                    done |= self._delete_in(place, name, _id_condition(left))
        if failures:
            # Items that were not found may be in a file that could not be read or changed.
            return {memory_id: done.get(memory_id, failures[0]) for memory_id in memory_ids}
        return done

    def _delete_in(self, place: Folder, name: str, unwanted: Callable[[Item], bool]) -> dict[str, StoreError | None]:
        """Delete items from a file; return for each None, or why it was not deleted."""
        gone: dict[int, str] = {}
        refused: list[StoreError] = []

        def without(before: bytes) -> bytes:
            gone.clear()
            refused.clear()
            old = _parse_file(name, before)
            gone.update({number: item.memory_id for number, item in enumerate(self._items(old)) if unwanted(item)})
            try:
                with item_errors(place, name):
                    new = self._without(old, gone.keys())
            except StoreError as error:
                refused.append(error)
                return before
            return self._with_time(new, place, name).data if gone else before

        self._rewrite(place, name, without)
        if not refused:
            return dict.fromkeys(gone.values())
        if len(gone) == 1:
            return dict.fromkeys(gone.values(), refused[0])
        # Only some of them cannot be deleted. The last one first: equal items before it keep their ids.
        alone = (self._delete_in(place, name, _id_condition({memory_id})) for memory_id in [*gone.values()][::-1])
        return {memory_id: outcome for each in alone for memory_id, outcome in each.items()}

    def _without(self, old: DailyLog | MarkdownDocument, gone: Set[int]) -> DailyLog | MarkdownDocument:
        """Return the text without the items of these numbers. Raises Inseparable."""
        if not gone:
            return old
        if isinstance(old, DailyLog):
            return old.without(*(old.entries[number] for number in gone))
        return relink(self.agent_id, old, old.without(*(old.places[number] for number in gone)), gone)

    def forget_user(self, user_id: str) -> int:
        """Delete every item of the user; return how many. Other users' lines stay unchanged, byte for byte.

        Each file is replaced as a whole; an interrupted deletion has finished some of the files and is repeated. Raises
        StoreError if a file could not be changed, after changing the others.
        """
        outcomes: list[StoreError | None] = []
        failures: list[StoreError] = []
        with self.lock_folder(create=False) as folder, collecting(failures), logs_of(folder) as logs:
            for place in filter(None, (folder, logs)):
                with collecting(failures):
                    place.sweep()
            with contextlib.closing(self._files(folder)) as files:
                for place, name in files:
                    with collecting(failures):
                        outcomes += self._delete_in(place, name, lambda item: item.user_id == user_id).values()
        failures += filter(None, outcomes)
        if failures:
            raise failures[0]
        return len(outcomes)

    def _files(self, folder: Folder | None) -> Generator[tuple[Folder, str], None, None]:
        """Yield `memory.md` and every log, the newest first, each with its folder; none without a folder."""
        if folder is None:
            return
        yield folder, MEMORY
        with logs_of(folder) as logs:
            for day in reversed(days(logs.names())) if logs is not None else ():
                assert logs is not None
                yield logs, f"{day.isoformat()}.md"

    def _items(self, text: DailyLog | MarkdownDocument) -> list[Item]:
        """Return the items of a file, one for each of its places."""
        if isinstance(text, DailyLog):
            return log_items(self.agent_id, text)
        return long_term_items(self.agent_id, text, self.now())

    def _with_time(self, text: DailyLog | MarkdownDocument, place: Folder, name: str) -> DailyLog | MarkdownDocument:
        """Return the text of a changed file with the current time in its header, if it is one with a header."""
        if isinstance(text, DailyLog):
            return text
        return text.with_updated_time(self.agent_id, self.now(), self._modified_at(place, name))

    def _no_such_item(self, memory_id: str) -> NoSuchItem:
        return NoSuchItem(f"{self.agent_id} has no item with the id {memory_id}")

    def remove(self) -> bool:
        """Delete the folder with its content; True if it existed.

        It is renamed first, so that remains after a crash are never read; `sweep` deletes them.
        """
        with self.lock_folder(create=False) as folder:
            if folder is None:
                return False
            root = Folder.open_root(self.root)
            assert root is not None
            with root, file_errors(folder.path, "delete"):
                gone = f".{self.agent_id}~{token_hex(4)}"
                os.rename(self.agent_id, gone, src_dir_fd=root.descriptor, dst_dir_fd=root.descriptor)
                sync(root.descriptor, root.path)
                shutil.rmtree(gone, dir_fd=root.descriptor)
        self._log_states.clear()
        return True

    def now(self) -> datetime:
        return utc(self._clock.now()).astimezone(UTC)


@contextlib.contextmanager
def collecting(failures: list[StoreError]) -> Iterator[None]:
    """Add a StoreError to `failures` in place of raising it. Raises FsyncFailed."""
    try:
        yield
    except FsyncFailed:
        raise
    except StoreError as error:
        failures.append(error)


@contextlib.contextmanager
def item_errors(folder: Folder, name: str) -> Iterator[None]:
    """Turn Inseparable into a StoreError that names the file and says what to do."""
    try:
        yield
    except Inseparable as error:
        raise StoreError(
            f"cannot change {folder.path / name}: {error}", hint="close that block, and try again"
        ) from None


def _fact_key(item: Item) -> tuple[object, ...]:
    """Return the key of a long-term item in the set of its section."""
    return section_of(item), item.chunk_hash, item.user_id, item.subject


def _id_condition(memory_ids: Set[str]) -> Callable[[Item], bool]:
    """Return a condition for the items with these ids."""
    return lambda item: item.memory_id in memory_ids


def _parse_file(name: str, data: bytes) -> DailyLog | MarkdownDocument:
    """Return the content of `memory.md`, or of a day's log."""
    day = day_of(name)
    return MarkdownDocument.parse(data) if day is None else DailyLog.parse(day, data)


@contextlib.contextmanager
def logs_of(folder: Folder | None) -> Iterator[Folder | None]:
    """Yield the open folder of an agent's logs; None if it does not exist."""
    logs = None if folder is None else folder.child(LOGS)
    with logs or contextlib.nullcontext():
        yield logs
