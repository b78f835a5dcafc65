"""`act` does what a delivery asks of an agent. It chooses the kind of agent that does the work."""

from __future__ import annotations

from dslc.blocks.agent import Agent
from runtime.agents.recorder import record
from runtime.memory.store import Store
from runtime.threads.run_log import RunLog
from runtime.webhooks.deliveries.delivery import ClaimedDelivery


async def act(agent: Agent, delivery: ClaimedDelivery, log: RunLog, store: Store) -> None:
    """Do `delivery` as `agent`, remembering in `store`.

    Every act is recorded in `log` before and after it. An agent without a model is a recorder.
    """
    await record(agent, delivery, log, store)
