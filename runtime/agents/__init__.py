"""Agents: what a delivery sets going. `act` is the one seam: it picks what kind of agent does the work."""

from __future__ import annotations

from dslc.blocks import Agent
from runtime.agents.recorder import record
from runtime.memory import Store
from runtime.threads import RunLog
from runtime.webhooks.delivery import Work

__all__ = ["act", "record"]


async def act(agent: Agent, work: Work, log: RunLog, store: Store) -> None:
    """Do `work` as `agent`, remembering in `store`.

    Every act is recorded in `log` before and after it. An agent without a model is a recorder.
    """
    await record(agent, work, log, store)
