"""`act` runs an agent for one turn. It selects the handler for the kind of turn."""

from __future__ import annotations

from typing import assert_never

from runtime.agents.recorder import record
from runtime.agents.turn import AgentContext, Turn
from runtime.threads.run_log import RunLog
from runtime.webhooks.deliveries.delivery import ClaimedDelivery


async def act(turn: Turn, log: RunLog, context: AgentContext) -> None:
    """Handle `turn` for the agent of `context`.

    Every act is recorded in `log` before and after it. An agent without a model is a recorder. Raises `Retry`, or any
    other error, for another attempt; `GiveUp` to end as a dead letter.
    """
    match turn:
        case ClaimedDelivery():
            await record(turn, log, context.agent, context.store)
        case _ as unknown:
            assert_never(unknown)
