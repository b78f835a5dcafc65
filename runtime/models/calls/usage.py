"""The rows of calls."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import Final, NamedTuple

import structlog
from sqlalchemy import Connection, func, select

from runtime.clock import Clock, uuid7
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import usage
from runtime.database.text import storable
from runtime.models.budgets.ledger import LEDGER, Answer, CallEnd
from runtime.models.budgets.limits import Total, day_of
from runtime.models.calls.call import Call

log = structlog.get_logger("symbiont.models")

MOST_KEPT: Final = 10_000
"""Number of rows that are kept while the database is away; further ones are lost."""


class RunUsage(NamedTuple):
    """The usage of the calls of one run. Tokens that a service does not tell are not counted. `cost`: in US dollars;
    None if no price is known."""

    calls: int
    tokens_in: int
    tokens_out: int
    cached: int
    cost: float | None


async def run_usage(database: Database, run_id: str) -> RunUsage:
    """Return the usage of the calls of a run. Raises `Unavailable`."""
    async with database.read() as connection:
        return await connection.run_sync(usage_of, run_id)


def usage_of(connection: Connection, run_id: str) -> RunUsage:
    """Return the usage of the calls of a run, as far as they are stored."""
    sums = (func.sum(usage.c[name]) for name in ("tokens_in", "tokens_out", "cached", "cost"))
    query = select(func.count(), *sums).where(usage.c.run_id == run_id)
    calls, tokens_in, tokens_out, cached, cost = connection.execute(query).one()
    return RunUsage(
        calls, int(tokens_in or 0), int(tokens_out or 0), int(cached or 0), None if cost is None else float(cost) / 1e9
    )


class UsageLog:
    """Stores a row for each call, together with other small writes. No call waits for it or fails because of it: while
    the database is away, the rows are kept in memory, up to `MOST_KEPT`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._pending: deque[CallEnd] = deque()
        self._lost = 0

    def add(self, call: Call) -> None:
        """Store the row of `call` soon, with what it counts against limits. Raises nothing."""
        self._pending.append(self._ended_call(call))
        self.store_pending()

    def store_pending(self) -> None:
        """Store the rows that could not be stored before."""
        while self._pending:
            ended = self._pending[0]
            try:
                future = self._database.commits.put(LEDGER, ended)
            except Unavailable:
                return self._bound()
            self._pending.popleft()
            future.add_done_callback(partial(self._finish_write, ended))
        return None

    def _finish_write(self, ended: CallEnd, done: asyncio.Future[Answer]) -> None:
        error = done.exception()
        if isinstance(error, Unavailable):
            # It may be stored nevertheless.
            self._pending.append(ended._replace(again=True))
            self._bound()
        elif error is not None:
            log.error("usage_not_stored", reason=f"{type(error).__name__}: {error}")
        elif self._lost:
            log.warning("usage_rows_lost", rows=self._lost)
            self._lost = 0

    def _bound(self) -> None:
        """Drop the oldest rows beyond `MOST_KEPT`; the first loss is logged, and their number when rows are stored
        again."""
        while len(self._pending) > MOST_KEPT:
            self._pending.popleft()
            if not self._lost:
                log.error("usage_not_stored", reason="the database is not available, and too many rows wait for it")
            self._lost += 1

    def _ended_call(self, call: Call) -> CallEnd:
        owner, tokens = call.owner, call.usage
        row = (
            uuid7(self._clock),
            *(owner.user_id, owner.agent, owner.thread_id, owner.run_id),
            *(call.purpose, call.name, storable(call.model)),
            *(tokens.tokens_in, tokens.tokens_out, tokens.cached),
            *(call.cost, round(call.seconds * 1000), call.outcome, call.began_at),
        )
        totals = (Total.of_user(owner.user_id), *([Total.of_agent(owner.agent)] if owner.agent else []))
        return CallEnd(row, totals, day_of(call.began_at), call.counts, call.reservation)
