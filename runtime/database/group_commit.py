"""Group commit: all small writes that wait at a moment are stored by one transaction and answered after it.

One sync to disk costs about as much as a hundred rows, so what arrives while one transaction commits becomes the
next one. Under load the groups grow by themselves; alone, a piece of work never waits for others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection

from runtime.database.failure import Collision, Unavailable

Item = TypeVar("Item")
Result = TypeVar("Result")

GROUP = 256
"""The most pieces of work in one transaction."""

COLLISIONS = 10
"""How often a group that collided with another daemon's is decided again before it is taken apart."""

Store = Callable[[Connection, Sequence[Item]], Sequence[Result | Exception]]
"""Stores several pieces of work over one connection and answers each, in order: a result, or an exception for its
waiter alone. What it raises fails the whole group, which is then tried piece by piece. It may run in another thread."""


class Transact(Protocol):
    """Runs a function in one write transaction: `Database.transact`."""

    def __call__(self, function: Callable[[Connection], Result], /) -> Awaitable[Result]: ...


@dataclass(slots=True, eq=False)
class _Waiting:
    store: Store[Any, Any]
    item: Any
    answer: asyncio.Future[Any]


class GroupCommit:
    """Collects work and stores it in groups, in the order in which it came.

    `on_fatal` is called once with the error when the disk itself fails.
    """

    def __init__(self, transact: Transact) -> None:
        self.on_fatal: Callable[[Unavailable], None] | None = None
        self._transact = transact
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def depth(self) -> int:
        """How many pieces of work wait for the next transaction."""
        return len(self._waiting)

    async def store(self, store: Store[Item, Result], item: Item) -> Result:
        """Store `item` with whatever else waits, and return what `store` answered, once it is committed.

        Raises what `store` returned or raised for it, and `Unavailable` when the database fails. A caller that is
        cancelled has its item stored all the same.
        """
        answer: asyncio.Future[Result] = self.put(store, item)
        return await answer

    def put(self, store: Store[Item, Result], item: Item) -> asyncio.Future[Result]:
        """Like `store`, without waiting: the future is done after the commit. Work put later is stored no earlier."""
        if self._closed:
            raise Unavailable("the database is closed")
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(store, item, answer))
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
                group = [self._waiting.popleft() for _ in range(min(GROUP, len(self._waiting)))]
                await self._commit(group)
        finally:
            self._task = None

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


def _store(connection: Connection, group: Sequence[_Waiting]) -> list[Any]:
    """Let each kind of work store its own pieces together; the answers stand in the order of `group`.

    Kinds go in the order of their names, in every process, so that no two transactions lock rows crosswise.
    """
    kinds: dict[Store[Any, Any], list[int]] = {}
    for index, waiting in enumerate(group):
        kinds.setdefault(waiting.store, []).append(index)
    answers: list[Any] = [None] * len(group)
    for store in sorted(kinds, key=_name):
        places = kinds[store]
        for place, answer in zip(places, store(connection, [group[i].item for i in places]), strict=True):
            answers[place] = answer
    return answers


def _name(store: Store[Any, Any]) -> str:
    return getattr(store, "__qualname__", "")


def _answer(group: Sequence[_Waiting], answers: Sequence[Any]) -> None:
    for waiting, answer in zip(group, answers, strict=True):
        if waiting.answer.done():
            continue
        if isinstance(answer, Exception):
            waiting.answer.set_exception(answer)
        else:
            waiting.answer.set_result(answer)
