"""What a tool is given before its own parameters: for whom it acts, and on what."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from runtime.clock import Clock
from runtime.database.connection import Database
from runtime.identity.caller import Caller
from runtime.memory.indexing.progress import Progress
from runtime.memory.open_memory import OpenMemory
from runtime.webhooks.audit.audit import Audit
from runtime.webhooks.routing.dynamic_routes import MadeRoutes
from runtime.webhooks.routing.dynamic_webhooks import MadeWebhooks


class App(Protocol):
    """The part of an opened root that tools use."""

    clock: Clock
    database: Database
    audit: Audit | None
    """Where the running daemon notes what it did not accept; None when no daemon runs."""
    made: MadeWebhooks
    made_routes: MadeRoutes

    @property
    def agents(self) -> Collection[str]:
        """The names of the agents that a webhook may wake."""

    @property
    def memories(self) -> Mapping[str, OpenMemory]:
        """Every memory of the program by name."""

    def memory_of(self, agent: str) -> str:
        """The name of the memory that `agent` writes to."""

    async def collection_memory(self) -> OpenMemory:
        """The collection that is there without a block: opened when it is first asked for. Raises SymbiontError."""

    def public_url(self, path: str) -> str:
        """The URL at which senders reach `path`."""


def untold(_what: str, _done: int, _total: int) -> None:
    """For work that nobody watches."""


@dataclass(frozen=True, slots=True)
class Context:
    """The first parameter of every tool, and no part of its schema."""

    caller: Caller
    app: App
    progress: Progress = untold
    """What to tell of work that takes a while."""
