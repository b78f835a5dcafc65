"""`act` runs an agent for one turn. It selects the handler for the kind of turn."""

from __future__ import annotations

from typing import assert_never

from runtime.agents.answer import answer
from runtime.agents.recorder import record
from runtime.agents.turn import AgentContext, Turn
from runtime.errors import GiveUp
from runtime.threads.inputs import ClaimedInput
from runtime.threads.run_log import RunLog
from runtime.webhooks.deliveries.delivery import ClaimedDelivery


async def act(turn: Turn, log: RunLog, context: AgentContext) -> str | None:
    """Handle `turn` for the agent of `context`. Returns how the run ended, see `runtime.threads.run.End`.

    Every act is recorded in `log` before and after it. An agent without a model is a recorder, which answers no
    messages. Raises `Retry`, or any other error, for another attempt; `GiveUp` to end as a dead letter.
    """
    if context.client is not None:
        return await answer(turn, log, context, context.client)
    match turn:
        case ClaimedDelivery():
            await record(turn, log, context.agent, context.memory.store)
        case ClaimedInput():
            raise GiveUp(
                f"the agent {context.agent.name} has no model, so it cannot answer",
                hint="give it one: `agent NAME { model … }`",
            )
        case _ as unknown:
            assert_never(unknown)
    return None
