"""Group commit: all small writes that wait at a moment are stored in one transaction and answered after it.

One sync to disk costs about as much as a hundred rows, so writes that arrive during a commit form the next transaction.
Under load the groups grow; a single write never waits for others.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import Connection

from dslc.blocks.values.quantity import format_duration
from runtime.database import bulk
from runtime.database.bulk import Statement
from runtime.database.errors import Collision, Unavailable
from runtime.database.outage import Outage
from runtime.database.schema import threads
from runtime.database.transaction_end import ending

Item = TypeVar("Item")
Result = TypeVar("Result")

GATHERING = 6
"""Turns of the event loop for which the first write after a pause waits for others."""

LARGEST = 256
"""Maximum number of writes in one transaction."""

ANSWER_SECONDS = 8
"""Maximum seconds that a write waits for its answer. A write stored later was refused: its sender repeats it, and finds
it stored."""

COLLISIONS = 10
"""Number of attempts for a group that collides with another daemon's, before it is stored write by write."""


class PlainWrites(NamedTuple, Generic[Result]):
    """Statements for several writes, and the answers if each statement inserts the expected number of rows."""

    statements: Sequence[Statement]
    answers: Sequence[Result]


@dataclass(frozen=True, slots=True, eq=False)
class Stage(Generic[Item, Result]):
    """One kind of write.

    `apply` stores several items over one connection and returns an answer for each, in order: a result, or an exception
    for that item alone. An exception that it raises fails the whole group, which is then stored item by item. It may
    run in another thread. Within a transaction the stages run in the order of `rank`, the same in every process: a
    stage that reads another stage's rows comes after it, and no two transactions lock rows in opposite order.
    """

    rank: int
    apply: Callable[[Connection, Sequence[Item]], Sequence[Result | Exception]]
    plain: Callable[[Sequence[Item]], PlainWrites[Result] | None] | None = None
    """For writes that nearly always only insert, on SQLite: the same as prepared statements, valid if each inserts the
    expected number of rows. Otherwise they are rolled back and `apply` decides; also if it returns None."""
    threads: Callable[[Connection, Sequence[Item]], Iterable[str]] | None = None
    """For a stage that locks rows of the table `threads`, which daemons share: their ids. A transaction of several
    stages locks the threads of all of them first (PostgreSQL)."""


@dataclass(slots=True, eq=False)
class _QueuedWrite:
    stage: Stage[Any, Any]
    item: Any
    answer: asyncio.Future[Any]
    since: float
    """Monotonic seconds at which it was put."""


@dataclass(slots=True, eq=False)
class Transaction:
    """The writes of one transaction. `began`: monotonic seconds. `changed`: names to publish after its commit."""

    group: Sequence[_QueuedWrite]
    began: float
    changed: Mapping[str, Sequence[object]] = field(default_factory=dict)

    def plain(self) -> PlainWrites[Any] | None:
        """Return the group as plain statements, or None if it has several kinds of writes or `apply` has to decide.

        Called only by SQLite's writer, because it seals the values.
        """
        stage = self.group[0].stage
        if stage.plain is None or any(waiting.stage is not stage for waiting in self.group):
            return None
        try:
            return stage.plain([waiting.item for waiting in self.group])
        except Exception:
            # `apply` meets the same error and reports it to its caller.
            return None

    def apply(self, connection: Connection) -> list[Any]:
        """Store the group over `connection`; return the answers in its order."""
        with ending(connection) as end:
            answers = _store(connection, self.group)
        self.changed = end.changed
        return answers


class GroupCommit:
    """Collects writes and stores them in groups, in the order of their arrival."""

    def __init__(
        self,
        transact: Callable[[Callable[[Connection], list[Any]]], Awaitable[list[Any]]],
        series: Callable[[GroupCommit], Awaitable[None]],
        to_unavailable: Callable[[Exception], Unavailable | None],
        outage: Outage,
        *,
        answer_seconds: float = ANSWER_SECONDS,
        publish: Callable[[Mapping[str, Sequence[object]]], None] = lambda changed: None,
    ) -> None:
        """`transact` runs a function in one write transaction (`Database.transact`).

        `series` runs transactions for as long as `next_transaction` gives one, and reports each to `finish` or, rolled
        back, to `schedule_retry` (`Database.series`); all of it happens in the event loop. `to_unavailable`: translates
        an error of the database itself to `Unavailable`, others to None. `publish` is called after a commit in a series
        with the names that its transaction changed.
        """
        self._transact = transact
        self._series = series
        self._to_unavailable = to_unavailable
        self._outage = outage
        self._publish = publish
        self._answer_seconds = answer_seconds
        self.on_commit: Callable[[int, float], None] = lambda writes, seconds: None
        """Called after each commit with its number of writes and its duration in seconds."""
        self._to_retry: list[Sequence[_QueuedWrite]] = []
        self._current: Sequence[_QueuedWrite] = ()
        self._waiting: deque[_QueuedWrite] = deque()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._storing = 0

    @property
    def depth(self) -> int:
        """The number of writes that wait for the next transaction."""
        return len(self._waiting)

    @property
    def pressure(self) -> int:
        """The number of writes that wait or are being stored together; large during a burst."""
        return max(len(self._waiting), self._storing)

    async def store(self, stage: Stage[Item, Result], item: Item) -> Result:
        """Store `item` together with other waiting writes, and return the stage's answer after the commit.

        Raises the exception that the stage returned or raised for it, and `Unavailable` if the database fails. The item
        of a cancelled caller is stored nevertheless.
        """
        answer: asyncio.Future[Result] = self.put(stage, item)
        return await answer

    def put(self, stage: Stage[Item, Result], item: Item) -> asyncio.Future[Result]:
        """Like `store`, without waiting: the future is done after the commit. Writes are stored in the order of `put`.

        Raises `Unavailable` immediately during an outage.
        """
        if self._closed:
            raise Unavailable("the database is closed")
        self._outage.check()
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append(_QueuedWrite(stage, item, answer, time.monotonic()))
        if self._task is None:
            # A new context: its log lines do not belong to the caller that came first.
            self._task = asyncio.create_task(self._drain(), name="database group commit", context=Context())
        return answer

    async def close(self) -> None:
        """Accept no more writes, and wait until all accepted ones are stored."""
        self._closed = True
        # During an outage all of them have been refused already.
        if self._task is not None and self._outage.problem is None:
            await asyncio.wait({self._task}, timeout=self._answer_seconds)

    async def _drain(self) -> None:
        self._schedule_check(self._answer_seconds)
        try:
            # What the callers of the first write do next often belongs to the same commit: the result of a step and the
            # intents of the next ones.
            for _ in range(GATHERING):
                await asyncio.sleep(0)
            while self._waiting:
                await self._store_all()
        finally:
            self._timer.cancel()
            self._task = None
            self._current = ()
            self._storing = 0

    def _schedule_check(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check_oldest)

    def _check_oldest(self) -> None:
        """Refuse all waiting writes if the oldest has waited too long for an answer."""
        waiting = [each for group in (self._current, *self._to_retry, self._waiting) for each in group]
        waiting = [each for each in waiting if not each.answer.done()]
        oldest = min((each.since for each in waiting), default=time.monotonic())
        left = oldest + self._answer_seconds - time.monotonic()
        if left <= 0:
            self._waiting.clear()
            self._refuse(
                waiting, Unavailable(f"the database did not answer for {format_duration(self._answer_seconds)}")
            )
        self._schedule_check(left if left > 0 else self._answer_seconds)

    def _refuse(self, waiting: Sequence[_QueuedWrite], error: Unavailable) -> None:
        """Begin an outage: refuse `waiting` and all writes put since."""
        self._outage.begin(error)
        more = list(self._waiting)
        self._waiting.clear()
        _answer([*waiting, *more], [error] * (len(waiting) + len(more)))

    async def _store_all(self) -> None:
        """Store group after group, then retry the failed ones."""
        try:
            await self._series(self)
        except Exception as error:
            # It failed before a transaction; every caller needs an answer.
            waiting = list(self._waiting)
            self._waiting.clear()
            if isinstance(error, Unavailable):
                self._refuse(waiting, error)
            _answer(waiting, [error] * len(waiting))
        failed, self._to_retry = self._to_retry, []
        for group in failed:
            self._current = group
            await self._commit(group)

    def next_transaction(self) -> Transaction | None:
        """Take the writes that wait now; None if there are none, or if a failed group has to be retried first, because
        writes are stored in the order of `put`."""
        if not self._waiting or self._to_retry:
            return None
        group = [self._waiting.popleft() for _ in range(min(len(self._waiting), LARGEST))]
        self._storing, self._current = len(group), group
        return Transaction(group, time.monotonic())

    def finish(self, transaction: Transaction, answers: Sequence[Any]) -> None:
        """Answer the callers of `transaction`, which is committed."""
        self._publish(transaction.changed)
        self.on_commit(len(transaction.group), time.monotonic() - transaction.began)
        _answer(transaction.group, answers)

    def schedule_retry(self, transaction: Transaction, error: Exception | None) -> None:
        """Schedule the retry of `transaction`, which was rolled back because of `error`, or because plain statements
        did not apply.

        No retry after a failed fsync: the data may be on the disk or not, and a retry proves nothing.
        """
        known = error if isinstance(error, Unavailable) else self._to_unavailable(error) if error else None
        if known is not None and known.fatal:
            _answer(transaction.group, [known] * len(transaction.group))
        else:
            self._to_retry.append(transaction.group)

    async def _commit(self, group: Sequence[_QueuedWrite]) -> None:
        """Store one group; item by item if one item fails the group."""
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


def _store(connection: Connection, group: Sequence[_QueuedWrite]) -> list[Any]:
    """Let each stage store its own items; return the answers in the order of `group`."""
    stages: dict[Stage[Any, Any], list[int]] = {}
    for index, waiting in enumerate(group):
        stages.setdefault(waiting.stage, []).append(index)
    if len(stages) > 1 and connection.dialect.name == "postgresql":
        _lock_threads(connection, [(stage, [group[i].item for i in places]) for stage, places in stages.items()])
    answers: list[Any] = [None] * len(group)
    for stage in sorted(stages, key=attrgetter("rank")):
        places = stages[stage]
        for place, answer in zip(places, stage.apply(connection, [group[i].item for i in places]), strict=True):
            answers[place] = answer
    return answers


def _lock_threads(connection: Connection, stages: Sequence[tuple[Stage[Any, Any], Sequence[Any]]]) -> None:
    """Lock the threads that these stages will lock for their items, in the order of their ids.

    Each stage alone locks its threads in that order, but two stages of one transaction would not.
    """
    ids: set[str] = set()
    for stage, items in stages:
        if stage.threads is not None:
            ids.update(stage.threads(connection, items))
    bulk.find(connection, threads, ("id",), (), [(each,) for each in sorted(ids)], lock="NO KEY UPDATE")


def _answer(group: Sequence[_QueuedWrite], answers: Sequence[Any]) -> None:
    for waiting, answer in zip(group, answers, strict=True):
        if waiting.answer.done():
            continue
        if isinstance(answer, Exception):
            waiting.answer.set_exception(answer)
        else:
            waiting.answer.set_result(answer)
