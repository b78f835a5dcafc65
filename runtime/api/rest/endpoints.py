"""TABLE of HTTP endpoints: a method and path, and the tool that it calls. Parameters that are not in the path come
from the query of a GET, else from a JSON body."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pydantic import BaseModel

from runtime.api.rest.agent_streams import follow_events, follow_new_run, follow_run
from runtime.switches import AGENTS
from runtime.tools import TOOLS
from runtime.tools.agent.follower import Target
from runtime.tools.resources import RESOURCES
from runtime.tools.tool import Tool

_OF_AGENTS: Final = ("/v1/agent", "/v1/approvals", "/v1/usage")
"""Beginnings of the paths of agents, whatever tool they call."""


@dataclass(frozen=True)
class Endpoint:
    """One row. `path`: with `{parameter}` for each id and name in it. `location`: the path of the resource that a 201
    created.

    `operation`: its id in the OpenAPI document, if another endpoint has the tool's name. `follow`: what a client that
    accepts events follows after the call, by its result and parameters; None: it answers JSON only, or the progress of
    a long call. `unfinished`: it answers 202 while `ended` of its result is null. `needs`: optional parameters of the
    tool without which the endpoint refuses a call. `without`: parameters of the tool that the endpoint does not have.
    """

    method: str
    path: str
    tool: Tool
    status: int = 200
    location: str | None = None
    operation: str | None = None
    follow: Callable[[BaseModel, Mapping[str, Any]], Target] | None = None
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
    def example(self) -> Mapping[str, Any]:
        """Example parameters, without those in the path, if the tool has an example."""
        return {name: value for name, value in (self.tool.example or {}).items() if name in self.others}

    @cached_property
    def forms(self) -> Mapping[str, re.Pattern[str]]:
        """The forms of the parameters in the path, in their order. A path with an impossible id or name is none."""
        return {name: _form(self.tool, name) for name in re.findall(r"\{(\w+)\}", self.path)}

    @property
    def in_path(self) -> tuple[str, ...]:
        """The parameters that the path names."""
        return tuple(self.forms)

    @property
    def others(self) -> tuple[str, ...]:
        """The parameters that the path does not name."""
        return tuple(name for name in self.tool.parameters.model_fields if name not in (*self.in_path, *self.without))

    @property
    def body(self) -> bool:
        """True if the other parameters come in a body."""
        return self.method in {"POST", "PATCH", "PUT"} and bool(self.others)

    def match(self, values: Sequence[str | None]) -> dict[str, str] | None:
        """Return the parameters in a path as sent; None if one has another form. A value that is None is left out."""
        if all(value is None or form.fullmatch(value) for form, value in zip(self.forms.values(), values, strict=True)):
            return {name: value for name, value in zip(self.forms, values, strict=True) if value is not None}
        return None


def _form(tool: Tool, name: str) -> re.Pattern[str]:
    """Return the pattern of the tool's parameter; of a parameter that is any text, that of its percent-encoded form."""
    parts: dict[str, Any] = tool.parameters.model_json_schema()["properties"][name]
    patterns = [each["pattern"] for each in (parts, *parts.get("anyOf", ())) if "pattern" in each]
    return re.compile(patterns[0] if patterns else r"(?:[^/%]|%[0-9A-Fa-f]{2})+", re.ASCII)


VERSION: Final = "/v1/"
"""Prefix of the path of a resource."""
TOOLS_PATH: Final = "/v1/tools/"
"""Prefix of the path of a tool by its name."""


def resource_path(path: str) -> str | None:
    """Return the path of the resource that a request's path names; None if it names none."""
    below = path.removeprefix(VERSION)
    return below if below != path and any(row.pattern.fullmatch(below) for row in RESOURCES.values()) else None


DELTAS: Final = "deltas"
"""The query parameter with which a client asks for the parts of messages in a stream."""
_WEBHOOKS = "/v1/webhooks"
_WEBHOOK = f"{_WEBHOOKS}/{{webhook_id}}"
_MEMORY = "/v1/memory"
_MEMORY_ITEM = f"{_MEMORY}/items/{{memory_id}}"
_COLLECTIONS = "/v1/collections"
_ITEM = f"{_COLLECTIONS}/items/{{memory_id}}"
_TABLES = "/v1/tables"
_KV = "/v1/kv"
_ENTRY = f"{_KV}/entries/{{key}}"
_TASKS = "/v1/tasks"
_TASK = f"{_TASKS}/{{task_id}}"
_APPROVALS = "/v1/approvals"
_APPROVAL = f"{_APPROVALS}/{{approval_id}}"

_AGENTS = "/v1/agents"
_AGENT = f"{_AGENTS}/{{agent}}"
_RUN = f"{_AGENT}/chat/{{run}}"
_BLOCK = f"{_AGENT}/memory/blocks/{{label}}"
_CONVERSATION = f"{_AGENT}/conversations/{{conversation_id}}"

ENDPOINTS: Final = (
    Endpoint("POST", _WEBHOOKS, TOOLS["webhook_create"], status=201, location=_WEBHOOK),
    Endpoint("GET", _WEBHOOKS, TOOLS["webhook_list"]),
    Endpoint("GET", _WEBHOOK, TOOLS["webhook_get"]),
    Endpoint("PATCH", _WEBHOOK, TOOLS["webhook_update"]),
    Endpoint("DELETE", _WEBHOOK, TOOLS["webhook_delete"], status=204),
    Endpoint("POST", f"{_WEBHOOK}/rotate", TOOLS["webhook_rotate_secret"]),
    Endpoint("GET", f"{_WEBHOOK}/audit", TOOLS["webhook_get_audit_log"]),
    Endpoint("GET", _MEMORY, TOOLS["memory_stats"]),
    Endpoint("DELETE", _MEMORY, TOOLS["memory_purge"]),
    Endpoint("GET", f"{_MEMORY}/items", TOOLS["memory_list"]),
    Endpoint("POST", f"{_MEMORY}/items", TOOLS["memory_write"]),
    Endpoint("GET", _MEMORY_ITEM, TOOLS["memory_show"]),
    Endpoint("PATCH", _MEMORY_ITEM, TOOLS["memory_edit"]),
    Endpoint("DELETE", _MEMORY_ITEM, TOOLS["memory_forget"]),
    Endpoint("GET", f"{_MEMORY}/search", TOOLS["memory_search"]),
    Endpoint("GET", f"{_MEMORY}/inspect", TOOLS["memory_inspect"]),
    Endpoint("POST", f"{_MEMORY}/compact", TOOLS["memory_compact"]),
    Endpoint("GET", f"{_MEMORY}/export", TOOLS["memory_export"]),
    Endpoint("POST", f"{_MEMORY}/import", TOOLS["memory_import"]),
    Endpoint("GET", f"{_MEMORY}/verify", TOOLS["memory_verify"]),
    Endpoint("POST", f"{_MEMORY}/reindex", TOOLS["memory_reindex"]),
    Endpoint("GET", _COLLECTIONS, TOOLS["get-collections"]),
    Endpoint("POST", _COLLECTIONS, TOOLS["new-collection"]),
    Endpoint("GET", f"{_COLLECTIONS}/metrics", TOOLS["metrics"]),
    Endpoint("GET", _ITEM, TOOLS["get"]),
    Endpoint("PATCH", _ITEM, TOOLS["update"]),
    Endpoint("DELETE", _ITEM, TOOLS["forget"]),
    Endpoint("GET", _TABLES, TOOLS["agent_memory_schema"]),
    Endpoint("POST", f"{_TABLES}/sql", TOOLS["agent_memory_sql"]),
    Endpoint("GET", _AGENTS, TOOLS["agent_list"]),
    Endpoint("POST", f"{_AGENT}/chat", TOOLS["agent_chat"], location=_RUN, follow=follow_new_run, unfinished=True),
    Endpoint("GET", _RUN, TOOLS["agent_run_show"], follow=follow_run),
    Endpoint("POST", f"{_RUN}/cancel", TOOLS["agent_run_cancel"]),
    Endpoint("GET", f"{_AGENT}/events", TOOLS["agent_events"], follow=follow_events),
    Endpoint("GET", f"{_AGENT}/config", TOOLS["agent_config_show"]),
    Endpoint("PUT", f"{_AGENT}/config", TOOLS["agent_config_edit"], needs=("version",)),
    Endpoint("GET", f"{_AGENT}/context", TOOLS["agent_context"]),
    Endpoint("GET", f"{_AGENT}/memory/blocks", TOOLS["agent_block_list"]),
    Endpoint("GET", _BLOCK, TOOLS["agent_block_show"]),
    Endpoint("PUT", _BLOCK, TOOLS["agent_block_edit"], needs=("version",)),
    Endpoint("GET", f"{_BLOCK}/history", TOOLS["agent_block_history"]),
    Endpoint("POST", f"{_BLOCK}/restore", TOOLS["agent_block_restore"]),
    Endpoint("POST", f"{_AGENT}/memory/archival", TOOLS["archival_insert"]),
    Endpoint("DELETE", f"{_AGENT}/memory/archival/{{memory_id}}", TOOLS["archival_forget"]),
    Endpoint("POST", f"{_AGENT}/memory/search", TOOLS["agent_memory_search"]),
    Endpoint("GET", f"{_AGENT}/conversations", TOOLS["agent_conversation_list"]),
    Endpoint("POST", f"{_AGENT}/conversations", TOOLS["agent_conversation_create"], status=201, location=_CONVERSATION),
    Endpoint("GET", _CONVERSATION, TOOLS["agent_conversation_show"]),
    Endpoint("DELETE", _CONVERSATION, TOOLS["agent_conversation_delete"]),
    Endpoint("GET", f"{_CONVERSATION}/items", TOOLS["agent_conversation_items"]),
    Endpoint("DELETE", f"{_CONVERSATION}/items/{{item_id}}", TOOLS["agent_conversation_item_delete"]),
    Endpoint("GET", "/v1/usage", TOOLS["agent_usage"]),
    Endpoint("GET", _TASKS, TOOLS["task_list"]),
    Endpoint("POST", _TASKS, TOOLS["task_create"], status=201, location=_TASK),
    Endpoint("POST", f"{_TASKS}/search", TOOLS["task_search"]),
    Endpoint("POST", f"{_TASKS}/bulk", TOOLS["task_bulk_update"]),
    Endpoint("GET", _TASK, TOOLS["task_show"]),
    Endpoint("PATCH", _TASK, TOOLS["task_update"]),
    Endpoint("DELETE", _TASK, TOOLS["task_delete"], status=204),
    Endpoint("POST", f"{_TASK}/complete", TOOLS["task_complete"]),
    Endpoint("GET", _APPROVALS, TOOLS["approval_list"]),
    Endpoint("GET", f"{_APPROVALS}/standing", TOOLS["standing_approval_list"]),
    Endpoint("DELETE", f"{_APPROVALS}/standing/{{standing_id}}", TOOLS["standing_approval_revoke"], status=204),
    Endpoint("GET", _APPROVAL, TOOLS["approval_show"]),
    Endpoint("POST", f"{_APPROVAL}/approve", TOOLS["approval_approve"]),
    Endpoint("POST", f"{_APPROVAL}/deny", TOOLS["approval_deny"]),
    Endpoint("GET", _KV, TOOLS["agent_memory_get"], operation="agent_memory_list", without=("key",)),
    Endpoint("DELETE", _KV, TOOLS["agent_memory_delete"], operation="agent_memory_delete_all", without=("key",)),
    Endpoint("GET", f"{_KV}/export", TOOLS["agent_memory_kv_export"]),
    Endpoint("GET", _ENTRY, TOOLS["agent_memory_get"], without=("tags", "limit", "cursor")),
    Endpoint("PUT", _ENTRY, TOOLS["agent_memory_set"]),
    Endpoint("DELETE", _ENTRY, TOOLS["agent_memory_delete"], without=("tags",)),
    # Paths of the fifth design, which have no version.
    Endpoint("POST", "/index", TOOLS["push"]),
    Endpoint("POST", "/search", TOOLS["search"]),
    Endpoint("POST", "/summarize", TOOLS["summarize"]),
    # Every tool by its name, its parameters in the body.
    *(Endpoint("POST", f"{TOOLS_PATH}{name}", tool, operation=f"call_{name}") for name, tool in TOOLS.items()),
)

UNVERSIONED: Final = tuple(row.path for row in ENDPOINTS if not row.path.startswith(VERSION))
"""The paths that are not below `/v1`."""


class _Node:
    """A beginning of paths. `below`: by the next segment; `parameter`: if that is a value. `rows`: those whose path
    ends here."""

    def __init__(self) -> None:
        self.below: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.rows: list[Endpoint] = []


def _tree(rows: Sequence[Endpoint]) -> _Node:
    root = _Node()
    for row in rows:
        node = root
        for segment in row.path.split("/"):
            if segment.startswith("{"):
                node.parameter = node = node.parameter or _Node()
            else:
                node = node.below.setdefault(segment, _Node())
        node.rows.append(row)
    return root


_TREE: Final = _tree(ENDPOINTS)
_MAIN_AGENT: Final = ["", "v1", "agent"]


def endpoints_at(path: str) -> dict[str, tuple[Endpoint, dict[str, str]]]:
    """Return the endpoints of a request's path by method, each with the parameters in it as sent. `/v1/agent/…` is
    `/v1/agents/{agent}/…` without the parameter `agent`: the main agent."""
    segments: list[str | None] = list(path.split("/"))
    if segments[:3] == _MAIN_AGENT:
        segments[2:3] = ["agents", None]
    node, values = _TREE, list[str | None]()
    for segment in segments:
        if segment is not None and (below := node.below.get(segment)) is not None:
            node = below
        elif node.parameter is not None:
            node = node.parameter
            values.append(segment)
        else:
            return {}
    return {row.method: (row, found) for row in node.rows if (found := row.match(values)) is not None}
