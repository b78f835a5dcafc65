"""Static properties of operations: needs an index, safe to repeat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from runtime.tools import TOOLS

CHANGING: Final = frozenset(
    {
        "chat.open",
        "chat.send",
        "deliveries.redeliver",
        "keys.rotate",
        "mcp_servers.approve",
        "mcp_servers.login_begin",
        "mcp_servers.login_end",
        "tables.insert",
        "tasks.feed",
        "tasks.write",
        "threads.delete",
        "tokens.create",
        "tokens.revoke",
        "users.add",
        "users.remove",
        "webhooks.rotate",
    }
)
"""Operations, other than tools, that change something."""
SEARCHING: Final = frozenset(
    {"agents.context", "agents.undo", "readiness", "resource_read", "tasks.read", "users.remove"}
)
"""Operations, other than tools, that read indexes."""


def looks_at_indexes(name: str) -> bool:
    """Return True if the operation may read indexes; for others none is opened."""
    tool = TOOLS.get(name)
    return name in SEARCHING if tool is None else tool.indexes


def may_be_repeated(name: str, parameters: Mapping[str, Any]) -> bool:
    """Return True if doing it twice has the same effect as doing it once."""
    tool = TOOLS.get("agent_memory_sql" if name == "tables.run" else name)
    return name not in CHANGING if tool is None else tool.idempotent or tool.only_reads(parameters)
