"""TABLE of tools: what agents, HTTP and commands can have done, one typed function each."""

from __future__ import annotations

from runtime.rows import by_name
from runtime.tools import memory, memory_export, memory_upkeep, memory_write, webhooks
from runtime.tools.context import Context, House
from runtime.tools.tool import Tool, WrongParameters

__all__ = ["TOOLS", "Context", "House", "Tool", "WrongParameters"]

TOOLS = by_name(
    "tool",
    [
        Tool(webhooks.webhook_create, "write", shows_secret=True),
        Tool(webhooks.webhook_list, "read"),
        Tool(webhooks.webhook_get, "read"),
        Tool(webhooks.webhook_update, "write"),
        Tool(webhooks.webhook_delete, "write"),
        Tool(webhooks.webhook_rotate_secret, "write", shows_secret=True),
        Tool(webhooks.webhook_get_audit_log, "read"),
        Tool(memory.memory_search, "read"),
        Tool(memory_write.memory_write, "write"),
        Tool(memory.memory_list, "read"),
        Tool(memory.memory_show, "read"),
        Tool(memory.memory_inspect, "admin"),
        Tool(memory_upkeep.memory_stats, "read"),
        Tool(memory_upkeep.memory_compact, "admin"),
        Tool(memory_upkeep.memory_purge, "admin"),
        Tool(memory_upkeep.memory_reindex, "admin"),
        Tool(memory_upkeep.memory_verify, "admin"),
        Tool(memory_export.memory_export, "read"),
        Tool(memory_write.memory_import, "write"),
    ],
)
