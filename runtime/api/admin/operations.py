"""TABLE of operations: available on the admin socket, and to commands that own the root."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from runtime.api.admin import deliveries, filter_explanation, readiness, secrets, tokens, users, webhooks
from runtime.api.admin.agents import chat, context, mcp_servers, overview, threads, undo
from runtime.api.admin.keys import keys
from runtime.api.admin.state import AdminContext
from runtime.api.admin.tables import grants, tables
from runtime.api.admin.tasks import calls, feed
from runtime.api.admin.tools import TOOL_OPERATIONS, resource_read
from runtime.errors import SymbiontError
from runtime.tools.failure import failure_of
from runtime.tools.tool import Tool

Operation = Callable[[AdminContext, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Takes flat JSON parameters, returns a JSON object, raises SymbiontError."""

OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "agents.cancel": chat.cancel,
        "agents.context": context.show,
        "agents.list": overview.list_agents,
        "agents.runs": overview.list_runs,
        "agents.show": overview.show,
        "agents.undo": undo.undo,
        "chat.follow": chat.follow,
        "chat.open": chat.open_conversation,
        "chat.send": chat.send,
        "database.grants": grants.grants,
        "deliveries.list": deliveries.list_deliveries,
        "deliveries.redeliver": deliveries.redeliver,
        "deliveries.select": deliveries.select,
        "deliveries.show": deliveries.show,
        "filters.explain": filter_explanation.explain_delivery,
        "keys.export": keys.export_keys,
        "keys.exported": keys.record_export,
        "keys.rotate": keys.rotate,
        "keys.status": keys.status,
        "mcp_servers.approve": mcp_servers.approve,
        "mcp_servers.inspect": mcp_servers.inspect,
        "mcp_servers.list": mcp_servers.list_servers,
        "mcp_servers.login_begin": mcp_servers.login_begin,
        "mcp_servers.login_end": mcp_servers.login_end,
        "mcp_servers.show": mcp_servers.show,
        "mcp_servers.test": mcp_servers.test,
        "readiness": readiness.readiness,
        "secrets.show": secrets.show,
        "tables.insert": tables.insert,
        "tables.page": tables.page,
        "tables.run": tables.run,
        "tables.schema": tables.schema,
        "tables.status": tables.status,
        "tasks.feed": feed.feed,
        "tasks.find": calls.find,
        "tasks.read": calls.read,
        "tasks.write": calls.write,
        "tasks.zone": calls.zone,
        "threads.delete": threads.delete,
        "threads.list": threads.list_threads,
        "threads.messages": threads.messages,
        "threads.show": threads.show,
        "tokens.create": tokens.create,
        "tokens.list": tokens.list_tokens,
        "tokens.revoke": tokens.revoke,
        "users.add": users.add,
        "users.list": users.list_users,
        "users.remove": users.remove,
        "users.set": users.change,
        "users.show": users.show,
        "webhooks.list": webhooks.list_webhooks,
        "webhooks.log": webhooks.log,
        "webhooks.sample": webhooks.sample,
        "webhooks.samples": webhooks.list_samples,
        "webhooks.rotate": secrets.rotate,
        "webhooks.sign": webhooks.sign_delivery,
        "resource_read": resource_read,
        **TOOL_OPERATIONS,
    }
)


def error_json(error: SymbiontError, tool: Tool | None) -> dict[str, Any]:
    """Return an error in the form that commands read; `failure` is for clients of tools."""
    failure = failure_of(error, tool).json()
    return {"message": str(error), "hint": error.hint, "exit_code": error.exit_code, "failure": failure}
