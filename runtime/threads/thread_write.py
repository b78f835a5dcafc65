"""Writes to threads, a stage of the group commit: messages at the next positions, and summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select

from runtime.database import bulk
from runtime.database.group_commit import Stage
from runtime.database.schema import messages, summaries, threads
from runtime.errors import Conflict, GiveUp
from runtime.threads import change_log, stage_ranks
from runtime.threads.removal.deletion import DELETED
from runtime.threads.run import running_attempts
from runtime.threads.step import Superseded

KEY_LENGTH: Final = 80
"""Maximum length of a message's key."""


class ThreadGone(GiveUp):
    """The thread was deleted; a run that belongs to it ends."""


class Writer(NamedTuple):
    """The writer to a thread. `attempt`: of the run, which may write only while it is the current one; None: not
    fenced."""

    thread_id: str
    user_id: str
    run_id: str | None
    attempt: int | None
    at: int
    """Unix milliseconds."""


class MessageRow(NamedTuple):
    """A message as it is stored. A new one has no position yet."""

    id: str
    role: str
    kind: str
    tokens: int
    key: str | None
    content: bytes
    position: int
    run_id: str | None
    created_at: int


class SummaryRow(NamedTuple):
    """A summary as it is stored."""

    id: str
    first_position: int
    last_position: int
    message_count: int
    tokens: int
    embedding_model: str | None
    previous_id: str | None
    run_id: str | None
    created_at: int
    content: bytes
    embedding: bytes | None


class ThreadWrite(NamedTuple):
    """Messages to append in order, or a summary. `tell`: called, by the id of a message, in the transaction that
    appends it, and not if it is there already."""

    by: Writer
    messages: tuple[MessageRow, ...] = ()
    summary: SummaryRow | None = None
    tell: tuple[tuple[str, Callable[[Connection], None]], ...] = ()


StoredRows = list[MessageRow] | SummaryRow
"""The messages, or the summary, of a write as they are in the database."""

MESSAGE_COLUMNS: Final = MessageRow._fields
SUMMARY_COLUMNS: Final = SummaryRow._fields
_KEYS: Final = ("run_id", "key", "thread_id")
_OF_ROW: Final = ("thread_id", "user_id")


class _LockedThread:
    """A thread that this transaction has locked."""

    def __init__(self, user_id: str, kind: str, length: int, summary_count: int, updated_at: int) -> None:
        self.user_id = user_id
        self.exists = kind != DELETED
        self.length = length
        self.summary_count = summary_count
        self.updated_at = updated_at
        self.changed = False


def store(connection: Connection, writes: Sequence[ThreadWrite]) -> list[StoredRows | Exception]:
    """Store the writes of many runs in one transaction.

    A message whose run has one with its key in this thread is not stored again, nor is a summary that ends where
    another does; the answer has the stored one. `Superseded` for a write whose attempt is not the run's current one,
    `ThreadGone` without its thread, Conflict for a summary that ends before the newest one.
    """
    opened = _lock_threads(connection, _threads(connection, writes))
    current = running_attempts(connection, [w.by.run_id for w in writes if w.by.run_id and w.by.attempt is not None])
    refused = [_refusal(write.by, current, opened) for write in writes]
    valid = [write for write, error in zip(writes, refused, strict=True) if error is None]
    known = _known_messages(connection, valid)
    new: list[tuple[Any, ...]] = []
    answers: list[StoredRows | Exception] = []
    for write, error in zip(writes, refused, strict=True):
        if error is not None:
            answers.append(error)
        elif write.summary is not None:
            answers.append(_summarize(connection, write.by, write.summary, opened[write.by.thread_id]))
        else:
            answers.append(_place_messages(write, opened[write.by.thread_id], known, new))
    bulk.insert(connection, messages, (*_OF_ROW, *MESSAGE_COLUMNS), new)
    appended = {row[len(_OF_ROW)] for row in new}
    for message_id, tell in (each for write in valid for each in write.tell):
        if message_id in appended:
            tell(connection)
    changed = [
        (thread_id, each.length, each.summary_count, each.updated_at)
        for thread_id, each in opened.items()
        if each.changed
    ]
    bulk.update(connection, threads, ("id",), ("length", "summary_count", "updated_at"), changed)
    change_log.note(connection, [thread_id for thread_id, *_ in changed])
    return answers


def _threads(connection: Connection, writes: Sequence[ThreadWrite]) -> set[str]:
    return {write.by.thread_id for write in writes}


WRITES: Final[Stage[ThreadWrite, StoredRows]] = Stage(stage_ranks.MESSAGES, store, threads=_threads)
"""The stage of all writes to threads."""


def _lock_threads(connection: Connection, thread_ids: Iterable[str]) -> dict[str, _LockedThread]:
    """Lock these threads until the transaction ends, in the order of their ids. New runs of a thread do not wait."""
    columns = ("user_id", "kind", "length", "summary_count", "updated_at")
    keys = [(thread_id,) for thread_id in sorted(thread_ids)]
    found = bulk.find(connection, threads, ("id",), columns, keys, lock="NO KEY UPDATE")
    return {thread_id: _LockedThread(*rest) for thread_id, *rest in found}


def _refusal(by: Writer, current: dict[str, int], opened: dict[str, _LockedThread]) -> Exception | None:
    if by.attempt is not None and current.get(by.run_id or "") != by.attempt:
        return Superseded(f"run {by.run_id} continues elsewhere")
    thread = opened.get(by.thread_id)
    if thread is None or not thread.exists or thread.user_id != by.user_id:
        return ThreadGone(f"the thread {by.thread_id} was deleted")
    return None


def _known_messages(connection: Connection, writes: Sequence[ThreadWrite]) -> dict[tuple[str | None, ...], MessageRow]:
    """Return the stored messages with the keys of these writes."""
    keys = {
        (run_id, row.key, write.by.thread_id)
        for write in writes
        if (run_id := write.by.run_id) is not None
        for row in write.messages
        if row.key is not None
    }
    found = bulk.find(connection, messages, _KEYS, MESSAGE_COLUMNS, sorted(keys))
    return {key[:3]: MessageRow(*key[3:]) for key in found}


def _place_messages(
    write: ThreadWrite,
    thread: _LockedThread,
    known: dict[tuple[str | None, ...], MessageRow],
    new: list[tuple[Any, ...]],
) -> list[MessageRow]:
    """Return the messages of a write with their positions; add those that are not stored yet to `new`."""
    answer: list[MessageRow] = []
    for given in write.messages:
        key = (write.by.run_id, given.key, write.by.thread_id)
        row = known.get(key)
        if row is None:
            row = given._replace(position=thread.length)
            thread.length += 1
            thread.updated_at = max(thread.updated_at, write.by.at)
            thread.changed = True
            new.append((write.by.thread_id, write.by.user_id, *row))
            if write.by.run_id is not None and given.key is not None:
                known[key] = row
        answer.append(row)
    return answer


def _summarize(connection: Connection, by: Writer, given: SummaryRow, thread: _LockedThread) -> SummaryRow | Conflict:
    query = select(*summaries.c[*SUMMARY_COLUMNS]).where(summaries.c.thread_id == by.thread_id)
    newest = connection.execute(query.order_by(summaries.c.last_position.desc()).limit(1)).first()
    if newest is not None and newest.last_position > given.last_position:
        return Conflict(f"the newest summary of the thread ends at message {newest.last_position + 1}")
    if newest is not None and newest.last_position == given.last_position:
        return SummaryRow(*newest)
    row = given._replace(previous_id=None if newest is None else newest.id)
    bulk.insert(connection, summaries, (*_OF_ROW, *SUMMARY_COLUMNS), [(by.thread_id, by.user_id, *row)])
    thread.summary_count += 1
    thread.changed = True
    return row
