"""Group commit: all small writes that wait at a moment are stored by one transaction and answered after it.

One sync to disk costs about as much as a hundred rows, so what arrives while one transaction commits becomes the
next one. Under load the groups grow by themselves; alone, a piece of work never waits for others.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from sqlalchemy import Connection

from runtime.database.bulk import Statement
from runtime.database.failure import Collision, Unavailable

Item = TypeVar("Item")
Result = TypeVar("Result")

SMALLEST, LARGEST = 32, 256
"""Between these bounds a group is as large as what the sync to disk is worth: about as long in storing as in syncing.

A larger one would keep everybody waiting for its last piece; a smaller one would spend the time on syncs. So answers
go out, and new work comes in, while the next group is being stored.
"""

COLLISIONS = 10
"""How often a group that collided with another daemon's is decided again before it is taken apart."""


class Plain(NamedTuple, Generic[Result]):
    """Statements for several pieces of work, and the answers when every one makes the rows it should."""

    statements: Sequence[Statement]
    answers: Sequence[Result]


class Transaction(NamedTuple, Generic[Result]):
    """One transaction of a series: `plain` is tried first where there is one, `apply` otherwise."""

    apply: Callable[[Connection], Result]
    plain: tuple[Sequence[Statement], Result] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Stage(Generic[Item, Result]):
    """One kind of work.

    `apply` stores several pieces of it over one connection and answers each, in order: a result, or an exception for
    its waiter alone. What it raises fails the whole group, which is then tried piece by piece. It may run in another
    thread. Within a transaction the stages come in the order of their `rank`, in every process alike: what must see
    another stage's rows comes after it, and no two transactions lock rows crosswise.
    """

    rank: int
    apply: Callable[[Connection, Sequence[Item]], Sequence[Result | Exception]]
    plain: Callable[[Sequence[Item]], Plain[Result]] | None = None
    """For work that nearly always only inserts: the same for SQLite as statements that are made beforehand, which hold
    good when each makes the rows it should. Otherwise they are rolled back and `apply` decides."""


class Transact(Protocol):
    """Runs a function in one write transaction: `Database.transact`."""

    def __call__(self, function: Callable[[Connection], Result], /) -> Awaitable[Result]: ...


class Series(Protocol):
    """Runs transactions one after the other for as long as `next_one` gives one: `Database.series`.

    `next_one` is called when a transaction may begin, `done` after each commit with its result, both in the event
    loop. The first error ends the series and is raised; that transaction is rolled back.
    """

    def __call__(
        self, next_one: Callable[[], Transaction[Result] | None], done: Callable[[Result], None], /
    ) -> Awaitable[None]: ...


@dataclass(slots=True, eq=False)
class _Waiting:
    stage: Stage[Any, Any]
    item: Any
    answer: asyncio.Future[Any]


class _Pace:
    """How large groups are: learned from how long storing a piece and how long a commit takes."""

    def __init__(self) -> None:
        self.size = SMALLEST
        self._piece = 0.0
        self._commit = 0.0
        self._stored_at = 0.0

    def committed(self) -> None:
        """Learn how long the commit took, when there was one."""
        if self._stored_at:
            self._commit += (time.perf_counter() - self._stored_at - self._commit) / 8
            self._stored_at = 0.0
            self.size = max(SMALLEST, min(int(self._commit / self._piece), LARGEST))

    def timed(self, group: list[_Waiting]) -> Transaction[_Stored]:
        """The transaction that stores `group`; it learns from it."""

        def store(connection: Connection) -> _Stored:
            began = time.perf_counter()
            answers = _store(connection, group)
            self._stored_at = time.perf_counter()
            self._piece += ((self._stored_at - began) / len(group) - self._piece) / 8
            return group, answers

        plain = _plain(group)
        return Transaction(store, None if plain is None else (plain.statements, (group, plain.answers)))


_Stored = tuple[Sequence[_Waiting], Sequence[Any]]


class GroupCommit:
    """Collects work and stores it in groups, in the order in which it came.

    `on_fatal` is called once with the error when the disk itself fails.
    """

    def __init__(self, transact: Transact, series: Series) -> None:
        self.on_fatal: Callable[[Unavailable], None] | None = None
        self._transact = transact
        self._series = series
        self._pace = _Pace()
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def depth(self) -> int:
        """How many pieces of work wait for the next transaction."""
        return len(self._waiting)

    async def store(self, stage: Stage[Item, Result], item: Item) -> Result:
        """Store `item` with whatever else waits, and return what the stage answered, once it is committed.

        Raises what the stage returned or raised for it, and `Unavailable` when the database fails. A caller that is
        cancelled has its item stored all the same.
        """
        answer: asyncio.Future[Result] = self.put(stage, item)
        return await answer

    def put(self, stage: Stage[Item, Result], item: Item) -> asyncio.Future[Result]:
        """Like `store`, without waiting: the future is done after the commit. Work put later is stored no earlier."""
        if self._closed:
            raise Unavailable("the database is closed")
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(stage, item, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._drain(), name="database group commit")
        return answer

    async def close(self) -> None:
        """Take no more work and wait until all that was taken is stored."""
        self._closed = True
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _drain(self) -> None:
        try:
            while self._waiting:
                await self._store_all()
        finally:
            self._task = None

    async def _store_all(self) -> None:
        """Store group after group; one that fails is looked at alone."""
        group: list[_Waiting] = []

        def next_one() -> Transaction[_Stored] | None:
            nonlocal group
            self._pace.committed()
            # What waits at this very moment; only one transaction takes from the queue at a time.
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._pace.size))]
            return self._pace.timed(group) if group else None

        try:
            await self._series(next_one, lambda stored: _answer(*stored))
        except Exception:
            await self._commit(group)

    async def _commit(self, group: list[_Waiting]) -> None:
        """Store one group; take it apart when a piece of it spoils the rest."""
        for _ in range(COLLISIONS):
            try:
                answers = await self._transact(lambda connection: _store(connection, group))
            except Collision:
                continue
            except Unavailable as error:
                self._failed(error)
                return _answer(group, [error] * len(group))
            except Exception as error:
                if len(group) == 1:
                    return _answer(group, [error])
                break
            return _answer(group, answers)
        if len(group) == 1:
            return _answer(group, [Unavailable("other daemons kept changing the same rows")])
        for piece in group:
            await self._commit([piece])
        return None

    def _failed(self, error: Unavailable) -> None:
        if error.fatal and self.on_fatal is not None:
            on_fatal, self.on_fatal = self.on_fatal, None
            on_fatal(error)


def _plain(group: Sequence[_Waiting]) -> Plain[Any] | None:
    """The group as plain statements, when all of it is one kind of work that can be."""
    stage = group[0].stage
    if stage.plain is None or any(waiting.stage is not stage for waiting in group):
        return None
    return stage.plain([waiting.item for waiting in group])


def _store(connection: Connection, group: Sequence[_Waiting]) -> list[Any]:
    """Let each stage store its own pieces together; the answers stand in the order of `group`."""
    stages: dict[Stage[Any, Any], list[int]] = {}
    for index, waiting in enumerate(group):
        stages.setdefault(waiting.stage, []).append(index)
    answers: list[Any] = [None] * len(group)
    for stage in sorted(stages, key=attrgetter("rank")):
        places = stages[stage]
        for place, answer in zip(places, stage.apply(connection, [group[i].item for i in places]), strict=True):
            answers[place] = answer
    return answers


def _answer(group: Sequence[_Waiting], answers: Sequence[Any]) -> None:
    for waiting, answer in zip(group, answers, strict=True):
        if waiting.answer.done():
            continue
        if isinstance(answer, Exception):
            waiting.answer.set_exception(answer)
        else:
            waiting.answer.set_result(answer)
