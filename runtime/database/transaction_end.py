"""The end of a write transaction: work that comes after everything else in it, and events that follow its commit."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection

Work = Callable[[Connection, Sequence[Any]], None]
"""Stores the items that were given to `at_end` in one transaction."""

MOST_EVENTS: Final = 64
"""Maximum events that wait in one `Watch`."""

_END: Final = "symbiont.transaction_end"


class TransactionEnd:
    """The last work of one transaction. `changed`: names that are published after the commit, with their events."""

    def __init__(self) -> None:
        self.work: dict[Work, list[Any]] = {}
        self.changed: dict[str, list[object]] = {}


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


def note_change(connection: Connection, name: str, *events: object) -> None:
    """Publish a name to `Database.changes` after the commit of this transaction. `events`: for those who watch it in
    this process."""
    _of(connection).changed.setdefault(name, []).extend(events)


def _of(connection: Connection) -> TransactionEnd:
    end = connection.info.get(_END)
    if not isinstance(end, TransactionEnd):
        raise RuntimeError("this is possible only in `Database.transact` and in a stage of the group commit")
    return end


class Watch(asyncio.Event):
    """An event that each change of a name sets; the one who waits for it clears it."""

    def __init__(self) -> None:
        super().__init__()
        self.events: deque[object] = deque(maxlen=MOST_EVENTS)
        """Events of transactions of this process, in the order of their commits; the oldest is dropped."""


class Changes:
    """Tells those who wait in this process what transactions changed."""

    def __init__(self) -> None:
        self.on_publish: Callable[[], None] = lambda: None
        """Called after each commit of this process that changed something. Returns at once."""
        self._watching: defaultdict[str, list[Watch]] = defaultdict(list)

    @property
    def watched_names(self) -> Collection[str]:
        """The names that somebody watches."""
        return self._watching.keys()

    @contextmanager
    def watch(self, name: str) -> Iterator[Watch]:
        """Yield a `Watch` of the changes of `name` from now on."""
        watch = Watch()
        self._watching[name].append(watch)
        try:
            yield watch
        finally:
            self._watching[name].remove(watch)
            if not self._watching[name]:
                del self._watching[name]

    def publish_commit(self, changed: Mapping[str, Sequence[object]]) -> None:
        """Publish what a transaction of this process changed."""
        if changed:
            for name, events in changed.items():
                for watch in self._watching.get(name, ()):
                    watch.events.extend(events)
            self.publish(changed.keys())
            self.on_publish()

    def publish(self, names: Collection[str]) -> None:
        """Wake those who watch one of these names."""
        for name in names:
            for watch in self._watching.get(name, ()):
                watch.set()
