"""What operations need of the state that they act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from runtime.clock import Clock
from runtime.database import Database
from runtime.memory import Store
from runtime.secrets import Context
from runtime.webhooks.audit import Audit
from runtime.webhooks.route import Mount


class House(Protocol):
    """An opened root with a running program."""

    clock: Clock
    database: Database
    secrets: Context
    addresses: dict[str, str]
    """The listeners' addresses by name (`public`, `admin`); empty when no daemon runs."""
    audit: Audit | None
    """Where the running daemon notes what it did not accept; None when no daemon runs."""

    @property
    def mounts(self) -> Mapping[str, Mount]:
        """Every declared webhook by name."""

    @property
    def memories(self) -> Mapping[str, Store]:
        """Every memory by name."""

    def memory_of(self, agent: str) -> str:
        """The name of the memory that `agent` writes to."""
