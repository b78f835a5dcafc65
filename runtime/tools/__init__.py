"""TABLE of tools: what agents, HTTP and commands can have done, one typed function each."""

from __future__ import annotations

from runtime.rows import by_name
from runtime.tools import webhooks
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
    ],
)
