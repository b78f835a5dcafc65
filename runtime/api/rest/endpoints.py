"""TABLE of HTTP endpoints: a method and path, and the tool that it calls. Parameters that are not in the path come
from the query of a GET, else from a JSON body."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from pydantic import BaseModel

from runtime.api.rest.agent_streams import Watched, watch_events, watch_new_run, watch_run
from runtime.api.rest.input_parsing import LARGEST_BODY
from runtime.switches import AGENTS
from runtime.tools import TOOLS
from runtime.tools.resources import RESOURCES
from runtime.tools.tool import Tool

LARGEST_ITEMS: Final = 16 * 1024 * 1024
"""Maximum bytes of a body with items: one item of 1,048,576 characters, however JSON escapes them."""
LARGEST_VALUE: Final = 1024 * 1024
"""Maximum bytes of a body with a value of the key-value store, however JSON escapes it."""


_OF_AGENTS: Final = ("/v1/agent", "/v1/approvals", "/v1/usage")
"""Beginnings of the paths of agents, whatever tool they call."""


@dataclass(frozen=True)
class Endpoint:
    """One row. `path`: with `{parameter}` for each id and name in it. `location`: the path of the resource that a 201
    created.

    `operation`: its id in the OpenAPI document, if another endpoint has the tool's name. `largest`: maximum bytes of a
    body. `more`: kinds of problems in addition to those of every endpoint. `watch`: what a client that accepts events
    watches after the call, by its result and parameters; None: it answers JSON only, or the progress of a long call.
    `unfinished`: it answers 202 while `ended` of its result is null. `needs`: optional parameters of the tool without
    which the endpoint refuses a call. `without`: parameters of the tool that the endpoint does not have.
    """

    method: str
    path: str
    tool: Tool
    status: int = 200
    location: str | None = None
    operation: str | None = None
    largest: int = LARGEST_BODY
    more: tuple[str, ...] = ()
    watch: Callable[[BaseModel, Mapping[str, Any]], Watched] | None = None
    unfinished: bool = False
    needs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The id of the operation."""
        return self.operation or self.tool.name

    @property
    def stopped_by(self) -> str | None:
        """The switch without which it answers 503 `switched_off`; None if no switch stops it."""
        return AGENTS if self.path.startswith(_OF_AGENTS) else self.tool.stopped_by

    @property
    def given(self) -> Mapping[str, Any]:
        """Example parameters, without those in the path, if the tool has an example."""
        return {name: value for name, value in (self.tool.example or {}).items() if name in self.others}

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Pattern of the whole path of a request. A path with an impossible id or name does not match."""

        def group(match: re.Match[str]) -> str:
            return f"(?P<{match[1]}>{_form(self.tool, match[1])})"

        return re.compile(re.sub(r"\\\{(\w+)\\\}", group, re.escape(self.path)), re.ASCII)

    @property
    def in_path(self) -> tuple[str, ...]:
        """The parameters that the path names."""
        return tuple(self.pattern.groupindex)

    @property
    def others(self) -> tuple[str, ...]:
        """The parameters that the path does not name."""
        return tuple(name for name in self.tool.parameters.model_fields if name not in (*self.in_path, *self.without))

    @property
    def body(self) -> bool:
        """True if the other parameters come in a body."""
        return self.method in {"POST", "PATCH", "PUT"} and bool(self.others)


def _form(tool: Tool, name: str) -> str:
    """Return the pattern of the tool's parameter, without its anchors; of a parameter that is any text, that of its
    percent-encoded form."""
    parts: dict[str, Any] = tool.parameters.model_json_schema()["properties"][name]
    patterns = [each["pattern"] for each in (parts, *parts.get("anyOf", ())) if "pattern" in each]
    return str(patterns[0]).removeprefix("^").removesuffix("$") if patterns else r"(?:[^/%]|%[0-9A-Fa-f]{2})+"


VERSION: Final = "/v1/"
"""Prefix of the path of a resource."""


def resource_path(path: str) -> str | None:
    """Return the path of the resource that a request's path names; None if it names none."""
    below = path.removeprefix(VERSION)
    return below if below != path and any(row.pattern.fullmatch(below) for row in RESOURCES.values()) else None


_ABSENT: Final = ("not_found",)
_LIMITED: Final = ("budget_exceeded",)
_FULL: Final = ("quota_exceeded",)
_RATED: Final = ("rate_limited",)
_LIMITED_TOOLS: Final = {
    "agent_chat": _LIMITED,
    "summarize": _LIMITED,
    "agent_memory_set": _FULL,
    "agent_memory_sql": _FULL,
    "task_create": _RATED,
}
"""The problems of tools that a limit of an agent or a user may refuse."""


def _mirrors(tools: Mapping[str, Tool]) -> Iterator[Endpoint]:
    """Return every tool under its own name, its parameters in the body."""
    for name, tool in tools.items():
        more = (*_ABSENT, *_LIMITED_TOOLS.get(name, ()))
        yield Endpoint("POST", f"/v1/tools/{name}", tool, operation=f"call_{name}", largest=LARGEST_ITEMS, more=more)


_MAIN_AGENT: Final = "/v1/agent"
_NAMED_AGENT: Final = "/v1/agents/{agent}"


def _of_agents(rows: Sequence[Endpoint]) -> Iterator[Endpoint]:
    """Return rows of the main agent, whose paths begin with `/v1/agent`, and the same for an agent by name. Their tools
    have the parameter `agent`; None is the main agent."""
    for row in rows:
        yield replace(row, more=(*row.more, "not_found", "conflict"), without=("agent",))
        yield replace(
            row,
            path=row.path.replace(_MAIN_AGENT, _NAMED_AGENT, 1),
            location=row.location and row.location.replace(_MAIN_AGENT, _NAMED_AGENT, 1),
            operation=f"{row.name}_of_agent",
        )


_RUN: Final = f"{_MAIN_AGENT}/chat/{{run}}"
DELTAS: Final = "deltas"
"""The query parameter with which a client asks for the parts of messages in a stream."""
_WATCHED: Final = ("too_many_streams",)
_WEBHOOKS = "/v1/webhooks"
_WEBHOOK = f"{_WEBHOOKS}/{{webhook_id}}"
_MEMORY = "/v1/memory"
_AGENT = f"{_MEMORY}/{{agent}}"
_COLLECTIONS = "/v1/collections"
_ITEM = f"{_COLLECTIONS}/items/{{memory_id}}"
_TABLES = "/v1/tables"
_KV = "/v1/kv"
_ENTRY = f"{_KV}/entries/{{key}}"
_TASKS = "/v1/tasks"
_TASK = f"{_TASKS}/{{task_id}}"
_APPROVALS = "/v1/approvals"
_APPROVAL = f"{_APPROVALS}/{{approval_id}}"

_BLOCK = f"{_MAIN_AGENT}/memory/blocks/{{label}}"
_CONVERSATION = f"{_MAIN_AGENT}/conversations/{{conversation_id}}"
_AGENT_ROWS: Final = (
    Endpoint(
        "POST",
        f"{_MAIN_AGENT}/chat",
        TOOLS["agent_chat"],
        location=_RUN,
        largest=LARGEST_ITEMS,
        more=(*_WATCHED, *_LIMITED),
        watch=watch_new_run,
        unfinished=True,
    ),
    Endpoint("GET", _RUN, TOOLS["agent_run_show"], more=_WATCHED, watch=watch_run),
    Endpoint("POST", f"{_RUN}/cancel", TOOLS["agent_run_cancel"], more=("conflict",)),
    Endpoint("GET", f"{_MAIN_AGENT}/events", TOOLS["agent_events"], more=_WATCHED, watch=watch_events),
    Endpoint("GET", f"{_MAIN_AGENT}/config", TOOLS["agent_config_show"]),
    Endpoint("PUT", f"{_MAIN_AGENT}/config", TOOLS["agent_config_edit"], largest=LARGEST_ITEMS, needs=("version",)),
    Endpoint("GET", f"{_MAIN_AGENT}/context", TOOLS["agent_context"]),
    Endpoint("GET", f"{_MAIN_AGENT}/memory/blocks", TOOLS["agent_block_list"]),
    Endpoint("GET", _BLOCK, TOOLS["agent_block_show"]),
    Endpoint("PUT", _BLOCK, TOOLS["agent_block_edit"], largest=LARGEST_ITEMS, needs=("version",)),
    Endpoint("GET", f"{_BLOCK}/history", TOOLS["agent_block_history"]),
    Endpoint("POST", f"{_BLOCK}/restore", TOOLS["agent_block_restore"]),
    Endpoint("POST", f"{_MAIN_AGENT}/memory/archival", TOOLS["archival_insert"], largest=LARGEST_ITEMS),
    Endpoint("DELETE", f"{_MAIN_AGENT}/memory/archival/{{memory_id}}", TOOLS["archival_forget"], more=("conflict",)),
    Endpoint("POST", f"{_MAIN_AGENT}/memory/search", TOOLS["agent_memory_search"]),
    Endpoint("GET", f"{_MAIN_AGENT}/conversations", TOOLS["agent_conversation_list"]),
    Endpoint(
        "POST",
        f"{_MAIN_AGENT}/conversations",
        TOOLS["agent_conversation_create"],
        status=201,
        location=_CONVERSATION,
    ),
    Endpoint("GET", _CONVERSATION, TOOLS["agent_conversation_show"]),
    Endpoint("DELETE", _CONVERSATION, TOOLS["agent_conversation_delete"], more=("conflict",)),
    Endpoint("GET", f"{_CONVERSATION}/items", TOOLS["agent_conversation_items"]),
    Endpoint("DELETE", f"{_CONVERSATION}/items/{{item_id}}", TOOLS["agent_conversation_item_delete"]),
)

ENDPOINTS: Final = (
    Endpoint("POST", _WEBHOOKS, TOOLS["webhook_create"], status=201, location=_WEBHOOK),
    Endpoint("GET", _WEBHOOKS, TOOLS["webhook_list"]),
    Endpoint("GET", _WEBHOOK, TOOLS["webhook_get"]),
    Endpoint("PATCH", _WEBHOOK, TOOLS["webhook_update"]),
    Endpoint("DELETE", _WEBHOOK, TOOLS["webhook_delete"], status=204),
    Endpoint("POST", f"{_WEBHOOK}/rotate", TOOLS["webhook_rotate_secret"]),
    Endpoint("GET", f"{_WEBHOOK}/audit", TOOLS["webhook_get_audit_log"]),
    Endpoint("GET", _MEMORY, TOOLS["memory_stats"], more=_ABSENT),
    Endpoint("GET", f"{_MEMORY}/items", TOOLS["memory_list"], more=_ABSENT),
    Endpoint("GET", f"{_MEMORY}/items/{{memory_id}}", TOOLS["memory_show"]),
    Endpoint(
        "PATCH", f"{_MEMORY}/items/{{memory_id}}", TOOLS["memory_edit"], largest=LARGEST_ITEMS, more=("conflict",)
    ),
    Endpoint("DELETE", f"{_MEMORY}/items/{{memory_id}}", TOOLS["memory_forget"], more=("conflict",)),
    Endpoint("GET", f"{_MEMORY}/export", TOOLS["memory_export"], more=_ABSENT),
    Endpoint("POST", f"{_MEMORY}/import", TOOLS["memory_import"], largest=LARGEST_ITEMS, more=_ABSENT),
    Endpoint("GET", f"{_MEMORY}/verify", TOOLS["memory_verify"], more=_ABSENT),
    Endpoint("POST", f"{_MEMORY}/reindex", TOOLS["memory_reindex"], more=_ABSENT),
    Endpoint("GET", f"{_AGENT}/search", TOOLS["memory_search"]),
    Endpoint("GET", f"{_AGENT}/items", TOOLS["memory_list"], operation="memory_list_of_agent"),
    Endpoint("POST", f"{_AGENT}/items", TOOLS["memory_write"], largest=LARGEST_ITEMS),
    Endpoint("GET", f"{_AGENT}/stats", TOOLS["memory_stats"], operation="memory_stats_of_agent"),
    Endpoint("GET", f"{_AGENT}/inspect", TOOLS["memory_inspect"]),
    Endpoint("POST", f"{_AGENT}/compact", TOOLS["memory_compact"]),
    Endpoint("DELETE", _AGENT, TOOLS["memory_purge"], more=("conflict",)),
    Endpoint("DELETE", _MEMORY, TOOLS["memory_purge"], operation="memory_purge_of_user", more=_ABSENT),
    Endpoint("GET", _COLLECTIONS, TOOLS["get-collections"]),
    Endpoint("POST", _COLLECTIONS, TOOLS["new-collection"], more=_ABSENT),
    Endpoint("GET", f"{_COLLECTIONS}/metrics", TOOLS["metrics"], more=_ABSENT),
    Endpoint("GET", _ITEM, TOOLS["get"]),
    Endpoint("PATCH", _ITEM, TOOLS["update"], largest=LARGEST_ITEMS),
    Endpoint("DELETE", _ITEM, TOOLS["forget"]),
    Endpoint("GET", _TABLES, TOOLS["agent_memory_schema"]),
    Endpoint("POST", f"{_TABLES}/sql", TOOLS["agent_memory_sql"], largest=LARGEST_ITEMS, more=_FULL),
    Endpoint("GET", "/v1/agents", TOOLS["agent_list"]),
    *_of_agents(_AGENT_ROWS),
    Endpoint("GET", "/v1/usage", TOOLS["agent_usage"], more=_ABSENT),
    Endpoint("GET", _TASKS, TOOLS["task_list"]),
    Endpoint("POST", _TASKS, TOOLS["task_create"], status=201, location=_TASK, more=(*_ABSENT, *_RATED)),
    Endpoint("POST", f"{_TASKS}/search", TOOLS["task_search"]),
    Endpoint("POST", f"{_TASKS}/bulk", TOOLS["task_bulk_update"], more=_ABSENT),
    Endpoint("GET", _TASK, TOOLS["task_show"]),
    Endpoint("PATCH", _TASK, TOOLS["task_update"]),
    Endpoint("DELETE", _TASK, TOOLS["task_delete"], status=204),
    Endpoint("POST", f"{_TASK}/complete", TOOLS["task_complete"]),
    Endpoint("GET", _APPROVALS, TOOLS["approval_list"], more=_ABSENT),
    Endpoint("GET", f"{_APPROVALS}/standing", TOOLS["standing_approval_list"], more=_ABSENT),
    Endpoint("DELETE", f"{_APPROVALS}/standing/{{standing_id}}", TOOLS["standing_approval_revoke"], status=204),
    Endpoint("GET", _APPROVAL, TOOLS["approval_show"]),
    Endpoint("POST", f"{_APPROVAL}/approve", TOOLS["approval_approve"], more=("conflict",)),
    Endpoint("POST", f"{_APPROVAL}/deny", TOOLS["approval_deny"], more=("conflict",)),
    Endpoint("GET", _KV, TOOLS["agent_memory_get"], more=_ABSENT),
    Endpoint("DELETE", _KV, TOOLS["agent_memory_delete"], more=_ABSENT),
    Endpoint("GET", f"{_KV}/export", TOOLS["agent_memory_kv_export"]),
    Endpoint(
        "GET",
        _ENTRY,
        TOOLS["agent_memory_get"],
        operation="agent_memory_get_of_key",
        without=("tags", "limit", "cursor"),
    ),
    Endpoint("PUT", _ENTRY, TOOLS["agent_memory_set"], largest=LARGEST_VALUE, more=_FULL),
    Endpoint("DELETE", _ENTRY, TOOLS["agent_memory_delete"], operation="agent_memory_delete_of_key", without=("tags",)),
    # Paths of the fifth design, which have no version.
    Endpoint("POST", "/index", TOOLS["push"], operation="index", largest=LARGEST_ITEMS, more=_ABSENT),
    Endpoint("POST", "/search", TOOLS["search"], more=_ABSENT),
    Endpoint("POST", "/summarize", TOOLS["summarize"], more=(*_ABSENT, *_LIMITED)),
    *_mirrors(TOOLS),
)

UNVERSIONED: Final = tuple(row.path for row in ENDPOINTS if not row.path.startswith(VERSION))
"""The paths that are not below `/v1`."""
