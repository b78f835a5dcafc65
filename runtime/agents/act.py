"""`act` runs an agent for one turn. It selects the handler for the kind of turn."""

from __future__ import annotations

from typing import assert_never

from dslc.blocks.agent import Agent
from runtime.agents.attempt import answer
from runtime.agents.recorder import record
from runtime.agents.turn import AgentContext, Turn
from runtime.errors import GiveUp, Parked, SymbiontError
from runtime.models.budgets.limits import BudgetExceeded
from runtime.threads.inputs import ClaimedInput
from runtime.threads.run import BUDGET_EXCEEDED
from runtime.threads.run_log import RunLog
from runtime.webhooks.deliveries.delivery import ClaimedDelivery


async def act(turn: Turn, log: RunLog, context: AgentContext) -> str | None:
    """Handle `turn` for the agent of `context`. Returns how the run ended, see `runtime.threads.run.End`.

    Every act is recorded in `log` before and after it. An agent without a model is a recorder, which answers no
    messages. Raises `Retry`, or any other error, for another attempt; `Parked` at a limit for which the turn waits;
    `GiveUp` to end as a dead letter.
    """
    try:
        calls = context.client is not None
        await context.budgets.begin(turn.run_id, turn.user_id, turn.agent, calls=calls)
        return await _act(turn, log, context)
    except BudgetExceeded as error:
        raise _limit_error(context.agent, error, asked=isinstance(turn, ClaimedInput)) from error


def refuses_at_limit(agent: Agent, *, asked: bool) -> bool:
    """True if the runs of an agent are refused at a limit, instead of waiting. `asked`: a person asked."""
    return asked if agent.limits.at_limit is None else agent.limits.at_limit == "refuse"


def _limit_error(agent: Agent, error: BudgetExceeded, *, asked: bool) -> SymbiontError:
    """Return the error that ends an attempt at a limit, or lets its turn wait for the next day or hour."""
    if error.fits_never or refuses_at_limit(agent, asked=asked):
        return error
    # People who are refused are told at once, and not after a delivery that waits in their thread. Where they wait too,
    # the thread keeps its order.
    frees = refuses_at_limit(agent, asked=True)
    return Parked(str(error), state=BUDGET_EXCEEDED, until=error.until, frees_thread=frees, hint=error.hint)


async def _act(turn: Turn, log: RunLog, context: AgentContext) -> str | None:
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
