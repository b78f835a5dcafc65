"""The log line of a run of an agent with a model that has ended."""

from __future__ import annotations

import structlog
from sqlalchemy import select

from runtime.database.connection import Database
from runtime.database.errors import Unavailable
from runtime.database.schema import runs
from runtime.models.calls.usage import usage_of
from runtime.threads.turns.turn import ClaimedTurn

log = structlog.get_logger("symbiont.dispatcher")


async def report_run(database: Database, turn: ClaimedTurn, outcome: str, ended: str, seconds: float) -> None:
    """Log that the run of a turn has ended: how, and what the calls of models used in all attempts.

    `outcome`: see `outcome_name`. `seconds`: of the last attempt. No text of the run is logged. Raises nothing.
    """
    used: dict[str, object] = {}
    try:
        async with database.read() as connection:
            usage = await connection.run_sync(usage_of, turn.run_id)
            thread_id = await connection.scalar(select(runs.c.thread_id).where(runs.c.id == turn.run_id))
        used = {"calls": usage.calls, "tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out}
        if thread_id is not None:
            used["thread_id"] = thread_id
    except Unavailable:
        # What is known is logged all the same.
        pass
    log.info(
        "run_ended",
        agent=turn.agent,
        trigger=turn.trigger,
        ended=ended,
        outcome=outcome,
        seconds=round(seconds, 3),
        **used,
    )
