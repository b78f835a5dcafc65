"""Group commit: all small writes that wait at a moment are stored by one transaction and answered after it.

One sync to disk costs about as much as a hundred rows, so what arrives while one transaction commits becomes the
next one. Under load the groups grow by themselves; alone, a piece of work never waits for others.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import Connection

from runtime.database.bulk import Statement
from runtime.database.errors import Collision, Unavailable
from runtime.database.outage import Outage

Item = TypeVar("Item")
Result = TypeVar("Result")

LARGEST = 256
"""The most pieces of work in one transaction."""

ANSWER_SECONDS = 8
"""The longest that a piece of work waits for its answer. What is stored later than that was refused: its sender comes
again, and finds it there."""

COLLISIONS = 10
"""How often a group that collided with another daemon's is decided again before it is taken apart."""


class Plain(NamedTuple, Generic[Result]):
    """Statements for several pieces of work, and the answers when every one makes the rows it should."""

    statements: Sequence[Statement]
    answers: Sequence[Result]


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
    plain: Callable[[Sequence[Item]], Plain[Result] | None] | None = None
    """For work that nearly always only inserts: the same for SQLite as statements that are made beforehand, which hold
    good when each makes the rows it should. Otherwise they are rolled back and `apply` decides, as it does when there
    are none."""


@dataclass(slots=True, eq=False)
class _Waiting:
    stage: Stage[Any, Any]
    item: Any
    answer: asyncio.Future[Any]
    since: float
    """When it came, in monotonic seconds."""


class Transaction(NamedTuple):
    """What waited at a moment. `began`: monotonic seconds."""

    group: Sequence[_Waiting]
    began: float

    def plain(self) -> Plain[Any] | None:
        """The group as plain statements, when all of it is one kind of work that can be; None when `apply` has to look
        first. Only SQLite's writer asks: making them seals what they store."""
        stage = self.group[0].stage
        if stage.plain is None or any(waiting.stage is not stage for waiting in self.group):
            return None
        try:
            return stage.plain([waiting.item for waiting in self.group])
        except Exception:
            # `apply` meets the same, and tells it to whom it concerns.
            return None

    def apply(self, connection: Connection) -> list[Any]:
        """Store the group over `connection`; the answers stand in its order."""
        return _store(connection, self.group)


class GroupCommit:
    """Collects work and stores it in groups, in the order in which it came."""

    def __init__(
        self,
        transact: Callable[[Callable[[Connection], list[Any]]], Awaitable[list[Any]]],
        series: Callable[[GroupCommit], Awaitable[None]],
        known: Callable[[Exception], Unavailable | None],
        outage: Outage,
        *,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        """`transact` runs a function in one write transaction (`Database.transact`).

        `series` runs transactions for as long as `next_one` gives one, and reports each to `stored` or, rolled back,
        to `failed` (`Database.series`); all of it happens in the event loop. `known`: what an error means when it is
        about the database itself, else None.
        """
        self._transact = transact
        self._series = series
        self._known = known
        self._outage = outage
        self._answer_seconds = answer_seconds
        self.on_commit: Callable[[int, float], None] = lambda writes, seconds: None
        """Told of each transaction that is committed: how many writes it stored, and the seconds that it took."""
        self._failed: list[Sequence[_Waiting]] = []
        self._current: Sequence[_Waiting] = ()
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._storing = 0

    @property
    def depth(self) -> int:
        """How many pieces of work wait for the next transaction."""
        return len(self._waiting)

    @property
    def pressure(self) -> int:
        """How many pieces wait, or are being stored together at this moment: what a burst looks like."""
        return max(len(self._waiting), self._storing)

    async def store(self, stage: Stage[Item, Result], item: Item) -> Result:
        """Store `item` with whatever else waits, and return what the stage answered, once it is committed.

        Raises what the stage returned or raised for it, and `Unavailable` when the database fails. A caller that is
        cancelled has its item stored all the same.
        """
        answer: asyncio.Future[Result] = self.put(stage, item)
        return await answer

    def put(self, stage: Stage[Item, Result], item: Item) -> asyncio.Future[Result]:
        """Like `store`, without waiting: the future is done after the commit. Work put later is stored no earlier.

        Raises `Unavailable` here and now during an outage."""
        if self._closed:
            raise Unavailable("the database is closed")
        self._outage.check()
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(stage, item, answer, time.monotonic()))
        if self._task is None:
            # What it logs is not about the one whose work happened to come first.
            self._task = asyncio.create_task(self._drain(), name="database group commit", context=Context())
        return answer

    async def close(self) -> None:
        """Take no more work and wait until all that was taken is stored."""
        self._closed = True
        # During an outage everything has been refused, as is what is not stored by then.
        if self._task is not None and self._outage.problem is None:
            await asyncio.wait({self._task}, timeout=self._answer_seconds)

    async def _drain(self) -> None:
        self._look_in(self._answer_seconds)
        try:
            while self._waiting:
                await self._store_all()
        finally:
            self._timer.cancel()
            self._task = None
            self._current = ()
            self._storing = 0

    def _look_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        """Refuse what waits when its oldest piece has waited too long: whatever the database does, it is too late."""
        waiting = [each for group in (self._current, *self._failed, self._waiting) for each in group]
        waiting = [each for each in waiting if not each.answer.done()]
        oldest = min((each.since for each in waiting), default=time.monotonic())
        left = oldest + self._answer_seconds - time.monotonic()
        if left <= 0:
            self._waiting.clear()
            self._refuse(waiting, Unavailable(f"the database did not answer for {self._answer_seconds:g} s"))
        self._look_in(left if left > 0 else self._answer_seconds)

    def _refuse(self, waiting: Sequence[_Waiting], error: Unavailable) -> None:
        """The database is away: answer `waiting` and all that came since, and let nobody else wait for it."""
        self._outage.begin(error)
        more = list(self._waiting)
        self._waiting.clear()
        _answer([*waiting, *more], [error] * (len(waiting) + len(more)))

    async def _store_all(self) -> None:
        """Store group after group; one that fails is looked at alone."""
        try:
            await self._series(self)
        except Exception as error:
            # It did not come as far as a transaction; nobody may be left waiting for ever.
            waiting = list(self._waiting)
            self._waiting.clear()
            if isinstance(error, Unavailable):
                self._refuse(waiting, error)
            _answer(waiting, [error] * len(waiting))
        failed, self._failed = self._failed, []
        for group in failed:
            self._current = group
            await self._commit(group)

    def next_one(self) -> Transaction | None:
        """What waits at this very moment, off the queue; None when nothing does, or an earlier one has to be looked at
        first: work put later is stored no earlier."""
        if not self._waiting or self._failed:
            return None
        group = [self._waiting.popleft() for _ in range(min(len(self._waiting), LARGEST))]
        self._storing, self._current = len(group), group
        return Transaction(group, time.monotonic())

    def stored(self, transaction: Transaction, answers: Sequence[Any]) -> None:
        """`transaction` is committed: answer those who wait for it."""
        self.on_commit(len(transaction.group), time.monotonic() - transaction.began)
        _answer(transaction.group, answers)

    def failed(self, transaction: Transaction, error: Exception | None) -> None:
        """`transaction` was rolled back, by `error` or because plain statements did not do. Its pieces are looked at
        again, unless the disk failed to sync: what it wrote then may be there or not, and trying again proves nothing.
        """
        known = error if isinstance(error, Unavailable) else self._known(error) if error else None
        if known is not None and known.fatal:
            _answer(transaction.group, [known] * len(transaction.group))
        else:
            self._failed.append(transaction.group)

    async def _commit(self, group: Sequence[_Waiting]) -> None:
        """Store one group; take it apart when a piece of it spoils the rest."""
        for _ in range(COLLISIONS):
            began = time.monotonic()
            try:
                answers = await self._transact(lambda connection: _store(connection, group))
            except Collision:
                continue
            except Unavailable as error:
                return self._refuse(group, error)
            except Exception as error:
                if len(group) == 1:
                    return _answer(group, [error])
                break
            self.on_commit(len(group), time.monotonic() - began)
            return _answer(group, answers)
        if len(group) == 1:
            return _answer(group, [Unavailable("other daemons kept changing the same rows")])
        for piece in group:
            await self._commit([piece])
        return None


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
