"""Compacts one agent's memory: promotes marked bullets of its logs to `memory.md`, then deletes old logs.

The order makes it safe to interrupt: logs are read; `memory.md` is replaced, on disk, by a version that has their
bullets and records that; only then are logs deleted, each only if it is unchanged since. After a crash it continues
from what it finds (see `promoted`).
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from hashlib import sha256

from runtime.memory.errors import StoreError
from runtime.memory.files.folder import Folder, revision, sync
from runtime.memory.markdown import promoted
from runtime.memory.markdown.agent_memory import MEMORY, AgentMemory, logs_of
from runtime.memory.markdown.items import long_term_items
from runtime.memory.markdown.long_term import MarkedBullet, marked_bullets
from runtime.memory.markdown.text.annotation import Annotation
from runtime.memory.markdown.text.daily_log import DailyLog, days
from runtime.memory.markdown.text.document import MarkdownDocument, bullet_of
from runtime.memory.markdown.text.lines import unreadable_line
from runtime.memory.store import redacted_item
from runtime.memory.store_types import Compaction, StoreProblem
from runtime.memory.succession import HiddenItems, changes_among


@dataclass(frozen=True)
class _LogSnapshot:
    """A log as it was read: its revision and hash, its bullets, and why it must not be deleted, if so. Bullets in
    `unpromoted` only prevent the deletion of their log."""

    revision: str
    hash: bytes
    promotable: tuple[MarkedBullet, ...]
    problem: StoreProblem | None
    unpromoted: StoreProblem | None = None


def compact(agent_memory: AgentMemory, older_than: date) -> Compaction:
    """See `Store.compact`. Blocks.

    Logs of today and later stay whatever `older_than` says, and so do logs that are unreadable, not UTF-8, or contain
    marked bullets that cannot be promoted; the result reports them. Raises StoreError if `memory.md` cannot be written:
    then no log was deleted.
    """
    today, readings = agent_memory.now().date(), dict[date, _LogSnapshot]()
    # Reading may take long and needs no lock; changed files are read again under the lock.
    with contextlib.suppress(StoreError), agent_memory.open_folder() as folder, logs_of(folder) as logs:
        readings = _read_logs(agent_memory.agent_id, logs, today, {})
    with agent_memory.lock_folder(create=False) as folder, logs_of(folder) as logs:
        if folder is None or logs is None:
            return Compaction(0, 0)
        readings = _read_logs(agent_memory.agent_id, logs, today, readings)
        put = _promote(agent_memory, folder, readings)
        due = {day: found for day, found in sorted(readings.items()) if day < min(older_than, today)}
        kept = {day: problem for day, found in readings.items() if (problem := found.problem)}
        kept |= {day: found.unpromoted for day, found in due.items() if found.unpromoted and day not in kept}
        old = {day: found for day, found in due.items() if day not in kept}
        if old:
            folder.settle(MEMORY)
        gone = _delete(logs, old)
        return Compaction(put, gone, tuple(problem for _, problem in sorted(kept.items())))


def _read_logs(
    agent_id: str, logs: Folder | None, today: date, known: Mapping[date, _LogSnapshot]
) -> dict[date, _LogSnapshot]:
    """Return every log by its day; unchanged ones in `known` are not read again."""
    readings = {}
    for day in days(logs.names()) if logs is not None else ():
        assert logs is not None
        name = f"{day.isoformat()}.md"
        status = logs.status(name)
        if status is not None:
            there = known.get(day)
            now = revision(status)
            same = there is not None and there.revision == now
            readings[day] = there if there is not None and same else _read_log(agent_id, logs, day, today, now)
    return readings


def _read_log(agent_id: str, logs: Folder, day: date, today: date, now: str) -> _LogSnapshot:
    name = f"{day.isoformat()}.md"
    path = str(logs.path / name)
    try:
        data = logs.read(name) or b""
    except StoreError as error:
        return _LogSnapshot(now, b"", (), StoreProblem(path, error.line()))
    written = data.rstrip(b"\0")  # a power cut leaves zeros where data never reached the disk
    line = unreadable_line(written)
    problem = (
        None
        if line is None
        else StoreProblem(path, f"line {line} is not UTF-8 text, so the log is not deleted", "warning", line)
    )
    # Today's log may still be written: a last line without a line end may be incomplete.
    whole = written if day < today else written[: written.rfind(b"\n") + 1]
    found, left = marked_bullets(agent_id, DailyLog.parse(day, whole))
    if problem is not None:  # a person must fix what is not text
        found = tuple(one for one in found if "\ufffd" not in one.item.text and "\0" not in one.item.text)
    kept = None
    if left:
        why = f"line {left[0].line} is marked as long-term and cannot be copied: {left[0].why}; the log is not deleted"
        kept = StoreProblem(path, why, "warning", left[0].line)
    return _LogSnapshot(now, sha256(data).digest(), found, problem, kept)


def _promote(agent_memory: AgentMemory, folder: Folder, readings: Mapping[date, _LogSnapshot]) -> int:
    """Add missing bullets to `memory.md`; return how many."""
    count = 0

    def add(document: MarkdownDocument, otherwise: datetime) -> MarkdownDocument:
        nonlocal count
        items = long_term_items(agent_memory.agent_id, document, otherwise)
        sections = [section.name for section, _ in document.items]
        hidden = HiddenItems(changes_among(items))
        there = {
            (name, item.user_id, item.subject, item.chunk_hash)
            for name, item in zip(sections, items, strict=True)
            if item not in hidden
        }
        known = promoted.read(document)
        said = {day: known.get(day, set()) | {one.key for one in found.promotable} for day, found in readings.items()}
        new: dict[str, list[tuple[str, Annotation]]] = defaultdict(list)
        for day, found in sorted(readings.items()):
            for one in found.promotable:
                item = redacted_item(one.item)
                place = one.section.name, item.user_id, item.subject, item.chunk_hash
                if one.key in known.get(day, ()) or place in there:
                    continue
                there.add(place)
                new[one.section.name].append(bullet_of(item, one.section))
        count = sum(map(len, new.values()))
        if all(known.get(day, set()) >= keys for day, keys in said.items()):
            return document
        if new:
            document = document.with_updated_time(agent_memory.agent_id, agent_memory.now(), otherwise).adding(new)
        if document.updated_at is None:  # its bullets use the time of the file, which is about to change
            document = document.with_item_times(otherwise)
        return promoted.write(document, said)

    agent_memory.rewrite(folder, add)
    return count


def _delete(logs: Folder, readings: Mapping[date, _LogSnapshot]) -> int:
    """Delete the logs that are unchanged since they were read; return how many."""
    logs.sweep()
    gone = 0
    try:
        for day, found in sorted(readings.items()):
            name = f"{day.isoformat()}.md"
            if sha256(logs.read(name) or b"").digest() == found.hash:
                logs.unlink(name)
                gone += 1
    finally:
        if gone:
            sync(logs.descriptor, logs.path)
    return gone
