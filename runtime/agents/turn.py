"""The kinds of turn that agents have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from dslc.blocks.agent import Agent
from runtime.memory.store import Store
from runtime.tools.context import Context
from runtime.webhooks.deliveries.delivery import ClaimedDelivery

Turn: TypeAlias = ClaimedDelivery
"""Every kind of turn, a closed union. A further kind is a file with its `ClaimedTurn` and its `TurnQueue`, a case of
`act`, and its queue among the sources of the dispatcher."""


@dataclass(frozen=True, slots=True)
class AgentContext:
    """The context of one attempt, from the generation that is current when it begins and is pinned until it ends."""

    agent: Agent
    store: Store
    """The memory that it writes to."""
    tool_context: Context
    """The context of its tools: the turn's user is the caller, and the agent, run and thread are `acting`."""
