"""Static properties of operations: needs an index, safe to repeat."""

from __future__ import annotations

from typing import Final

from runtime.tools import TOOLS

CHANGING: Final = frozenset(
    {"deliveries.replay", "tokens.create", "tokens.revoke", "users.add", "users.remove", "webhooks.rotate"}
)
"""The operations, no tools, that change something."""
SEARCHING: Final = frozenset({"readiness", "resource_read", "users.remove"})
"""The operations, no tools, that look at indexes."""


def looks_at_indexes(name: str) -> bool:
    """True if the operation may read indexes; for others none is opened."""
    tool = TOOLS.get(name)
    return name in SEARCHING if tool is None else tool.indexes


def may_be_repeated(name: str) -> bool:
    """True if doing it twice has the effect of doing it once."""
    tool = TOOLS.get(name)
    return name not in CHANGING if tool is None else tool.read_only or tool.idempotent
