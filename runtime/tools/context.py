"""First parameter of every tool: the caller, and the state that the tool acts on."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from runtime.clock import Clock
from runtime.database.connection import Database
from runtime.identity.caller import Caller
from runtime.memory.indexing.progress import Progress
from runtime.memory.memories import Memories
from runtime.webhooks.audit.audit import Audit
from runtime.webhooks.routing.dynamic_routes import DynamicRoutes
from runtime.webhooks.routing.dynamic_webhooks import DynamicWebhooks


def no_progress(_what: str, _done: int, _total: int) -> None:
    """Ignore progress, for callers that report none."""


@dataclass(frozen=True, slots=True)
class Acting:
    """The agent that calls a tool, with its run and thread. Set by the agent's turn, never by the model."""

    agent: str
    run_id: str
    thread_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """State that a tool acts on. It is not part of a tool's schema. Valid while its generation is pinned."""

    caller: Caller
    clock: Clock
    database: Database
    agents: Collection[str]
    """Names of the agents that a webhook may run."""
    memories: Memories
    webhooks: DynamicWebhooks
    routes: DynamicRoutes
    """Routes of `webhooks`; `refresh` after a change."""
    audit: Audit | None
    """Records requests that the daemon does not accept; None without a daemon."""
    public_url: Callable[[str], str]
    """Returns the URL at which senders reach a path."""
    acting: Acting | None = None
    """The calling agent; None for a person or a client."""
    progress: Progress = no_progress
    """Called with the progress of long work."""


OpenContext = Callable[[Caller, Progress], AbstractAsyncContextManager[Context]]
"""Pins the running generation and yields a context of it for this caller."""
