"""Limits of users."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.models.budgets.budgets import Budgets
from runtime.tables.storage import UserStorage
from runtime.tables.texts import TextStorage


@dataclass(frozen=True, slots=True)
class UserLimits:
    """Limits of users, with the usage that counts against them. None: there is no such limit here."""

    budgets: Budgets | None = None
    """Calls, tokens and costs of agents and users."""
    storage: UserStorage | None = None
    """Bytes in tables and in the key-value store."""
    texts: TextStorage | None = None
    """Bytes in memories, conversations and core memory."""
