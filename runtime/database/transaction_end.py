"""The end of a write transaction: work that comes after everything else in it, and what is told after its commit."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection

Work = Callable[[Connection, Sequence[Any]], None]
"""Stores the items that were given to `at_end` in one transaction."""

_END: Final = "symbiont.transaction_end"


class TransactionEnd:
    """What one transaction does last. `changed`: names that are published after the commit."""

    def __init__(self) -> None:
        self.work: dict[Work, list[Any]] = {}
        self.changed: set[str] = set()


@contextmanager
def ending(connection: Connection) -> Iterator[TransactionEnd]:
    """Collect the work of `at_end` in a transaction, and do it at the end of the block, unless that raises."""
    # Read once: a connection that was lost meanwhile has none.
    info = connection.info
    outer = info.get(_END)
    end = info[_END] = TransactionEnd()
    try:
        yield end
        for work, items in end.work.items():
            work(connection, items)
    finally:
        info[_END] = outer


def at_end(connection: Connection, work: Work, item: object) -> None:
    """Call `work` once with this and all other items at the end of the transaction, before its commit.

    For rows that the transactions of several daemons lock: locked last, and by one piece of work, they are locked in
    one order.
    """
    _of(connection).work.setdefault(work, []).append(item)


def note_changed(connection: Connection, name: str) -> None:
    """Publish a name to `Database.changes` after the commit of this transaction."""
    _of(connection).changed.add(name)


def _of(connection: Connection) -> TransactionEnd:
    end = connection.info.get(_END)
    if not isinstance(end, TransactionEnd):
        raise RuntimeError("this is possible only in `Database.transact` and in a stage of the group commit")
    return end


class Changes:
    """Tells those who wait in this process what transactions changed."""

    def __init__(self) -> None:
        self.on_publish: Callable[[], None] = lambda: None
        """Called after each commit of this process that changed something. Returns at once."""
        self._watching: defaultdict[str, list[asyncio.Event]] = defaultdict(list)

    @property
    def watched(self) -> Collection[str]:
        """The names that somebody watches."""
        return self._watching.keys()

    @contextmanager
    def watch(self, name: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set by each change of `name` from now on; who waits for it clears it."""
        event = asyncio.Event()
        self._watching[name].append(event)
        try:
            yield event
        finally:
            self._watching[name].remove(event)
            if not self._watching[name]:
                del self._watching[name]

    def committed(self, names: Collection[str]) -> None:
        """Publish what a transaction of this process changed."""
        if names:
            self.publish(names)
            self.on_publish()

    def publish(self, names: Collection[str]) -> None:
        """Wake those who watch one of these names."""
        for name in names:
            for event in self._watching.get(name, ()):
                event.set()
