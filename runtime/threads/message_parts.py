"""What is in the threads, as parts with revisions: how an index over messages finds out what changed.

The parts are computed from the rows of threads alone, so listing them reads no message. The first messages of some
threads are one part, so that very many short threads are few parts. The rest of a longer thread is a part for each 512
positions, and the summaries of a thread are one more part.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

from sqlalchemy import Select, case, func, or_, select

from runtime.database.connection import Database
from runtime.database.schema import threads
from runtime.errors import NotFound
from runtime.threads.deletion import DELETED
from runtime.threads.messages import Message, Messages
from runtime.threads.summaries import Summaries, Summary
from runtime.threads.thread import Thread, Threads

BEGINNING: Final = 16
"""Positions of each thread that are in the part of several threads: with all of its threads it has 512."""

POSITIONS: Final = 512
"""Number of positions of a further part, except the first, which lacks the beginning."""

_SUMMARIES: Final = "summaries"
_AT_A_TIME: Final = 1000
_EXISTS: Final = threads.c.kind != DELETED


class MessagePart(NamedTuple):
    """Messages or summaries of one agent's threads that are read together. `name`: `AGENT/…`, unique. `revision`
    changes with them."""

    name: str
    agent: str
    revision: str


async def parts(
    database: Database, *, agent: str | None = None, thread: Thread | None = None
) -> AsyncIterator[MessagePart]:
    """Yield the parts of all threads, those of an agent, or those that one thread is in, in any order.

    Deleted threads have none. Rows are read a thousand at a time, in one consistent view. The caller does nothing long
    between them.
    """
    beginnings, rest = _beginnings(), _rest()
    if thread is not None:
        number = select(threads.c.part).where(threads.c.id == thread.id).scalar_subquery()
        beginnings = beginnings.where(threads.c.agent == thread.agent, threads.c.part == number)
        rest = rest.where(threads.c.id == thread.id)
    elif agent is not None:
        beginnings, rest = beginnings.where(threads.c.agent == agent), rest.where(threads.c.agent == agent)
    async with database.read() as connection:
        async for name, number, *state in await connection.stream(_paged(beginnings)):
            yield MessagePart(f"{name}/{number}", name, ".".join(map(str, state)))
        async for row in await connection.stream(_paged(rest)):
            for part in _parts(*row):
                yield part


def is_beginning(name: str) -> bool:
    """Return True if the part of this name has the beginnings of threads."""
    return name.partition("/")[2].isdigit()


async def read(sources: tuple[Threads, Messages, Summaries], part: MessagePart) -> list[Message | Summary]:
    """Return the messages or summaries of a part, thread by thread, oldest first; none if it is gone."""
    of_threads, messages, summaries = sources
    which = part.name.partition("/")[2]
    if is_beginning(part.name):
        return list(await messages.beginnings(part.agent, int(which), BEGINNING))
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


def _beginnings() -> Select[Any]:
    begun = case((threads.c.length < BEGINNING, threads.c.length), else_=BEGINNING)
    # A thread of the part may be deleted and another one added: their times and ids differ.
    state = func.count(), func.sum(threads.c.created_at), func.max(threads.c.id), func.sum(threads.c.deletions)
    query = select(threads.c.agent, threads.c.part, *state, func.sum(begun))
    return query.where(_EXISTS, threads.c.length > 0).group_by(threads.c.agent, threads.c.part)


def _rest() -> Select[Any]:
    query = select(*threads.c["id", "agent", "length", "deletions", "summary_count"])
    return query.where(_EXISTS, or_(threads.c.length > BEGINNING, threads.c.summary_count > 0))


def _paged(query: Select[Any]) -> Select[Any]:
    return query.execution_options(yield_per=_AT_A_TIME)


def _parts(thread_id: str, agent: str, length: int, deletions: int, summary_count: int) -> list[MessagePart]:
    found: list[MessagePart] = []
    if length > BEGINNING:
        found = [
            MessagePart(
                f"{agent}/{thread_id}.{number}", agent, f"{min(length - number * POSITIONS, POSITIONS)}.{deletions}"
            )
            for number in range(-(-length // POSITIONS))
        ]
    if summary_count:
        found.append(MessagePart(f"{agent}/{thread_id}.{_SUMMARIES}", agent, str(summary_count)))
    return found
