"""The messages of threads as parts with revisions, by which an index notices changes.

The parts are computed from the rows of threads alone, so listing them reads no message. The log of changed threads says
which of them to compute again. The first messages of some threads are one part, so that very many short threads are few
parts. The rest of a longer thread is a part for each 512 positions, and the summaries of a thread are one more part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Select, case, func, or_, select

from runtime.database import bulk
from runtime.database.connection import Database
from runtime.database.schema import threads
from runtime.errors import NotFound
from runtime.memory.store_types import Changes, Part
from runtime.threads import change_log
from runtime.threads.messages import Message, Messages
from runtime.threads.removal.deletion import DELETED
from runtime.threads.summaries import Summaries, Summary
from runtime.threads.thread import Threads

T = TypeVar("T", str, int)

BEGINNING: Final = 16
"""Positions of each thread that are in the part of several threads: with all of its threads it has 512."""

POSITIONS: Final = 512
"""Number of positions of a further part, except the first, which lacks the beginning."""

MOST_CHANGED: Final = 5_000
"""Maximum number of changed threads whose parts are computed; for more, all parts are listed."""

_SUMMARIES: Final = "summaries"
_AT_A_TIME: Final = 1000
_ASKED_AT_ONCE: Final = 500
_EXISTS: Final = threads.c.kind != DELETED


async def parts(database: Database, *, agent: str | None = None) -> AsyncIterator[Part]:
    """Yield the parts of all threads, or those of an agent, in any order.

    Deleted threads have none. Rows are read a thousand at a time, in one consistent view. The caller does nothing long
    between them.
    """
    beginnings, rest = _beginnings(), _rest()
    if agent is not None:
        beginnings, rest = beginnings.where(threads.c.agent == agent), rest.where(threads.c.agent == agent)
    async with database.read() as connection:
        async for row in await connection.stream(_in_pages(beginnings)):
            yield _beginning(*row)
        async for row in await connection.stream(_in_pages(rest)):
            for part in _parts(*row):
                yield part


async def changes(database: Database, since: str | None) -> Changes | None:
    """Return the parts of threads that changed since a mark, which is a number of the log; see `Store.changes`. None
    also if too much changed, or if the log does not reach so far back."""
    async with database.read() as connection:
        return await connection.run_sync(_changes, since)


def is_beginning(name: str) -> bool:
    """Return True if the part of this name has the beginnings of threads."""
    return name.partition("/")[2].isdigit()


async def read(sources: tuple[Threads, Messages, Summaries], part: Part) -> list[Message | Summary]:
    """Return the messages or summaries of a part, thread by thread, oldest first; none if it is gone."""
    of_threads, messages, summaries = sources
    which = part.name.partition("/")[2]
    if is_beginning(part.name):
        return list(await messages.beginnings(part.agent_id, int(which), BEGINNING))
    thread_id, _, number = which.rpartition(".")
    try:
        thread = await of_threads.get(thread_id)
    except NotFound:
        return []
    if number == _SUMMARIES:
        return list(await summaries.chain(thread))
    first = int(number) * POSITIONS
    after = max(first, BEGINNING) - 1
    return list(await messages.read(thread, after=after, before=first + POSITIONS, limit=POSITIONS))


async def subjects(database: Database, found: Sequence[Message | Summary]) -> dict[str, str | None]:
    """Return the subjects of the threads that these are of, by id, None for one without; not those of deleted
    threads."""
    ids = sorted({(each.thread_id,) for each in found})
    async with database.read() as connection:
        rows = await connection.run_sync(bulk.find, threads, ("id",), ("kind", "subject"), ids)
    return {thread_id: subject for thread_id, kind, subject in rows if kind != DELETED}


def _changes(connection: Connection, since: str | None) -> Changes | None:
    number = str(change_log.next_number(connection))
    if since is None:
        return Changes(number)
    found = change_log.changed_threads(connection, int(since), MOST_CHANGED)
    if found is None:
        return None
    together = defaultdict[str, set[int]](set)
    for each in found:
        together[each.agent].add(each.part)
    now: list[Part] = []
    for agent, numbers in together.items():
        for some in _chunks(sorted(numbers)):
            query = _beginnings().where(threads.c.agent == agent, threads.c.part.in_(some))
            now += [_beginning(*row) for row in connection.execute(query)]
    for ids in _chunks([each.thread_id for each in found]):
        for row in connection.execute(_rest().where(threads.c.id.in_(ids))):
            now += _parts(*row)
    before = {f"{agent}/{part}" for agent, numbers in together.items() for part in numbers}
    for thread_id, agent, _, length, summary_count in found:
        before.update(part.name for part in _parts(thread_id, agent, length, 0, summary_count))
    return Changes(number, tuple(now), tuple(sorted(before - {part.name for part in now})))


def _chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for begin in range(0, len(values), _ASKED_AT_ONCE):
        yield values[begin : begin + _ASKED_AT_ONCE]


def _beginnings() -> Select[Any]:
    begun = case((threads.c.length < BEGINNING, threads.c.length), else_=BEGINNING)
    # A thread of the part may be deleted and another one added: their times and ids differ.
    state = func.count(), func.sum(threads.c.created_at), func.max(threads.c.id), func.sum(threads.c.deletions)
    query = select(threads.c.agent, threads.c.part, *state, func.sum(begun))
    return query.where(_EXISTS, threads.c.length > 0).group_by(threads.c.agent, threads.c.part)


def _rest() -> Select[Any]:
    query = select(*threads.c["id", "agent", "length", "deletions", "summary_count"])
    return query.where(_EXISTS, or_(threads.c.length > BEGINNING, threads.c.summary_count > 0))


def _beginning(agent: str, number: int, *state: object) -> Part:
    return Part(f"{agent}/{number}", agent, ".".join(map(str, state)))


def _in_pages(query: Select[Any]) -> Select[Any]:
    return query.execution_options(yield_per=_AT_A_TIME)


def _parts(thread_id: str, agent: str, length: int, deletions: int, summary_count: int) -> list[Part]:
    found: list[Part] = []
    if length > BEGINNING:
        found = [
            Part(f"{agent}/{thread_id}.{number}", agent, f"{min(length - number * POSITIONS, POSITIONS)}.{deletions}")
            for number in range(-(-length // POSITIONS))
        ]
    if summary_count:
        found.append(Part(f"{agent}/{thread_id}.{_SUMMARIES}", agent, str(summary_count)))
    return found
