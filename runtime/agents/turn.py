"""The kinds of turn that agents have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from dslc.blocks.agent import Agent
from runtime.agents.services import AgentServices
from runtime.memory.open_memory import OpenMemory
from runtime.models.budgets.budgets import Budgets
from runtime.models.client import ModelClient
from runtime.threads.inputs import ClaimedInput
from runtime.tools.context import Context
from runtime.tools.model.agent_toolset import AgentTools
from runtime.webhooks.deliveries.delivery import ClaimedDelivery

Turn: TypeAlias = ClaimedDelivery | ClaimedInput
"""Every kind of turn, a closed union. A further kind is a file with its `ClaimedTurn` and its `TurnQueue`, a case of
`act`, its queue among the sources of the dispatcher, and its table in `TURN_TABLES`."""


@dataclass(frozen=True, slots=True)
class AgentContext:
    """The context of one attempt, from the generation that is current when it begins and is pinned until it ends."""

    agent: Agent
    """As it is for the turn's user."""
    settings: Mapping[str, Any]
    """Settings that the user gives the agent and that count."""
    memory: OpenMemory
    """The memory that it writes to."""
    services: AgentServices
    client: ModelClient | None
    """The agent's model; None for a recorder."""
    summarizer: ModelClient | None
    """The model that summarizes its threads; None: the sentences of the messages are the summary."""
    budgets: Budgets
    tool_context: Context
    """The context of its tools: the turn's user is the caller, and the agent, run and thread are `acting`."""
    seconds: float
    """Seconds that one attempt of an agent with a model may take."""
    tools: AgentTools
    """The tools that the program has: those of the table, and of its servers."""
    confirm_seconds: float
    """Seconds that a call waits for the approval of a person."""
