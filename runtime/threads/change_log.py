"""The log of changed threads: written in the transaction of each change, read by indexes over messages.

A reader keeps the number from which it reads next. On SQLite transactions follow one another, and each has the next
number. On PostgreSQL a number is the id of the transaction, because transactions of several daemons do not end in the
order in which they began: a reader reads again from the oldest one that had not ended, so it may see a change twice
and misses none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, literal_column, select
from sqlalchemy.dialects import postgresql, sqlite

from runtime.database.schema import thread_changes, threads

KEPT: Final = 100_000
"""Number of changes that are kept; a reader that is further behind compares everything."""

_DELETED_AT_ONCE: Final = 20_000
_COLUMNS: Final = ("number", "thread_id", "agent", "part", "length", "summary_count")
_NEXT: Final = select(func.coalesce(func.max(thread_changes.c.number), 0) + 1)
_OLDEST_RUNNING: Final = select(func.txid_snapshot_xmin(func.txid_current_snapshot()))
_NOT_BEGUN: Final = "txid_snapshot_xmax(txid_current_snapshot())"


class ChangedThread(NamedTuple):
    """A thread that changed: the largest `length` and `summary_count` that were noted with its changes."""

    thread_id: str
    agent: str
    part: int
    length: int
    summary_count: int


def note(connection: Connection, thread_ids: Sequence[str]) -> None:
    """Note that messages or summaries of these threads were added or deleted, or the threads marked as deleted. Called
    after the change, in its transaction."""
    if thread_ids:
        connection.execute(_NOTE[connection.dialect.name], {"ids": list(thread_ids)})


def next_number(connection: Connection) -> int:
    """Return the number from which a reader that knows the current state has to read."""
    return int(connection.execute(_NEXT if connection.dialect.name == "sqlite" else _OLDEST_RUNNING).scalar_one())


def changed_threads(connection: Connection, since: int, limit: int, kept: int = KEPT) -> list[ChangedThread] | None:
    """Return the threads that changed from the number `since` on. None: they are more than `limit`, or some of the
    changes are no longer in the log."""
    oldest = connection.execute(select(func.min(thread_changes.c.number))).scalar()
    if oldest is None:
        return []
    # A transaction of PostgreSQL that runs for long keeps readers at a number from before the first change.
    if oldest > since and _last_to_delete(connection, kept) is not None:
        return None
    of = thread_changes.c["thread_id", "agent", "part"]
    sizes = func.max(thread_changes.c.length), func.max(thread_changes.c.summary_count)
    query = select(*of, *sizes).where(thread_changes.c.number >= since).group_by(*of).limit(limit + 1)
    found = [ChangedThread._make(row) for row in connection.execute(query)]
    return found if len(found) <= limit else None


def prune(connection: Connection, kept: int = KEPT) -> bool:
    """Delete some of the changes beyond the newest `kept`. False: no more of them are left."""
    number = thread_changes.c.number
    if connection.dialect.name == "postgresql":
        # Of a copied database, whose server had more transactions.
        connection.execute(delete(thread_changes).where(number >= literal_column(_NOT_BEGUN)))
    last = _last_to_delete(connection, kept)
    if last is None:
        return False
    some = connection.execute(select(number).order_by(number).offset(_DELETED_AT_ONCE).limit(1)).scalar()
    end = last if some is None else min(last, some)
    # One more than `kept` stays: it tells that there were others, and SQLite counts from the newest.
    gone = connection.execute(delete(thread_changes).where(number <= end, number < last)).rowcount
    return gone > 0 and end < last


def _last_to_delete(connection: Connection, kept: int) -> int | None:
    """Return the number of the newest change beyond the newest `kept`; None: there is none, and never was."""
    number = thread_changes.c.number
    return connection.execute(select(number).order_by(number.desc()).offset(kept).limit(1)).scalar()


def _note_statement(dialect: str) -> Any:
    number = _NEXT.scalar_subquery() if dialect == "sqlite" else literal_column("txid_current()")
    wanted = threads.c.id.in_(bindparam("ids", expanding=True))
    found = select(number, *threads.c["id", "agent", "part", "length", "summary_count"]).where(wanted)
    if dialect == "sqlite":
        return sqlite.insert(thread_changes).from_select(_COLUMNS, found)
    # A transaction may change a thread twice.
    return postgresql.insert(thread_changes).from_select(_COLUMNS, found).on_conflict_do_nothing()


_NOTE: Final = {dialect: _note_statement(dialect) for dialect in ("sqlite", "postgresql")}
