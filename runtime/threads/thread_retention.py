"""Retention of threads: those that were not used for long are deleted as a whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

import structlog
from sqlalchemy import select

from runtime.database.connection import Database
from runtime.database.schema import threads
from runtime.threads import change_log
from runtime.threads.events import log as log_of_events
from runtime.threads.removal import deletion
from runtime.threads.thread import KINDS, ThreadKind

log = structlog.get_logger("symbiont.retention")


async def prune(
    database: Database, keep_seconds: Mapping[str, float], now: int, *, kinds: Collection[ThreadKind] = KINDS
) -> int:
    """Delete the threads of these agents whose last message is older than the agent's seconds; return their number.

    `now`: Unix milliseconds. A thread that a turn holds or waits for stays, as do the threads of other agents.
    Completes interrupted deletions too, and shortens the log of changes and that of events.
    """
    count = 0
    for agent, seconds in keep_seconds.items():
        for kind in kinds:
            old = select(threads.c.id).where(
                threads.c.agent == agent,
                threads.c.kind == kind,
                threads.c.updated_at < now - int(seconds * 1000),
                deletion.not_busy(),
            )
            count += await deletion.mark(database, old.order_by(threads.c.updated_at))
    await deletion.erase(database)
    await deletion.erase_leftover_inputs(database)
    while await database.transact(change_log.prune):
        pass
    while await database.transact(partial(log_of_events.prune, now=now)):
        pass
    if count:
        log.info("threads_deleted", threads=count)
    return count
