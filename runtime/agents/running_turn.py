"""The turns that run in this process: their leases, and their cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import structlog

from runtime.clock import Clock
from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.threads.run import cancelled_runs
from runtime.threads.turns.queue import TurnQueue
from runtime.threads.turns.turn import ClaimedTurn

log = structlog.get_logger("symbiont.dispatcher")

Source: TypeAlias = TurnQueue[Any]


@dataclass(slots=True)
class RunningTurn:
    """A turn that runs here. `leased_at`: when its lease was last renewed, by the monotonic clock. `interrupted`: it is
    stopped because leases could not be renewed. `cancelled`: it is stopped because a person cancelled it. `acting`: its
    agent runs; the end of the attempt is not stored yet."""

    source: Source
    turn: ClaimedTurn
    leased_at: float
    interrupted: bool = False
    cancelled: bool = False
    acting: bool = True


RunningTurns: TypeAlias = dict[asyncio.Task[None], RunningTurn]


async def renew_leases(turns: RunningTurns, source: Source, clock: Clock) -> None:
    """Renew the leases of one source's turns; stop runs whose lease is lost, or may be soon."""
    asked = clock.monotonic()
    running = {task: each for task, each in turns.items() if each.source is source}
    if not running:
        return
    try:
        held = await source.renew([each.turn for each in running.values()])
    except Unavailable as error:
        log.warning("leases_not_renewed", error=str(error))
        late = asked - 0.6 * source.lease
        lost = [task for task, each in running.items() if each.leased_at < late]
        for task in lost:
            running[task].interrupted = True
    else:
        lost = [task for task, each in running.items() if (each.turn.id, each.turn.attempt) not in held]
        for each in running.values():
            each.leased_at = asked
    for task in lost:
        task.cancel()


async def stop_cancelled_runs(turns: RunningTurns, database: Database) -> None:
    """Stop the runs that were cancelled on another daemon."""
    acting = [each.turn.run_id for each in turns.values() if each.acting]
    if acting:
        with suppress(Unavailable):
            stop_runs(turns, await cancelled_runs(database, acting))


def stop_runs(turns: RunningTurns, run_ids: Collection[str]) -> None:
    """Stop the attempts at these runs, which a person cancelled."""
    for task, each in turns.items():
        if each.turn.run_id in run_ids and each.acting and not each.cancelled:
            each.cancelled = True
            task.cancel()
