"""TABLE of parameters: which of them name something of a user. One that is in neither table fails the matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from runtime.tools.tool import Tool
from tests.runtime.attacks.isolation.world import KEY, OWNER, PROJECT, SOURCE, SUBJECT, TAG, WORD, World

Named = Callable[[World, Tool], Any]
"""Returns what the first user has and a tool's parameter can name."""


def _memory_id(world: World, tool: Tool) -> str:
    if tool.function.__module__.startswith("runtime.tools.collection"):
        return str(world.ids["collected"])
    archival = tool.function.__module__.startswith("runtime.tools.archival")
    return str(world.ids["archived" if archival else "memory_id"])


NAMING: Final[Mapping[str, Named]] = {
    "approval_id": lambda world, _: world.ids["approval"],
    "conversation_id": lambda world, _: world.ids["thread"],
    "key": lambda *_: KEY,
    "item_id": lambda world, _: world.ids["item"],
    "memory_id": _memory_id,
    "project": lambda *_: PROJECT,
    "project_id": lambda *_: PROJECT,
    "run": lambda world, _: world.ids["run"],
    "source": lambda *_: SOURCE,
    "source_uri": lambda *_: SOURCE,
    "standing_id": lambda world, _: world.ids["standing"],
    "subject": lambda *_: SUBJECT,
    "tag": lambda *_: [TAG],
    "tags": lambda *_: [TAG],
    "task_id": lambda world, _: world.ids["todo"],
    "task_ids": lambda world, _: [world.ids["todo"]],
    "thread": lambda world, _: world.ids["thread"],
    "user": lambda *_: OWNER,
    "webhook_id": lambda world, _: world.ids["webhook_id"],
}
"""Parameters that name something of a user."""

PLAIN: Final = frozenset(
    {
        *("after", "agent", "all_tags", "always", "author", "by", "clear", "collection"),
        *("compaction_threshold", "confidence", "content", "cursor", "day", "decided", "description"),
        *("dimension", "dry_run", "due_date", "enabled", "expires_at", "force", "gates", "git_commit"),
        *("if_version", "input", "insecure_allow_unverified", "is_active", "items", "kind", "label", "limit"),
        *("line", "max_tokens", "max_words", "memory", "memory_type", "metadata", "model", "name", "new"),
        *("offset", "old", "order", "overlap", "params", "preferences", "priority", "provider", "query"),
        *("query_text", "reason", "replace", "risk_tier", "score_threshold", "session_id", "since"),
        *("source_memory", "sources", "status", "strategy", "system_prompt", "tags_add", "tags_all"),
        *("tags_remove", "target", "task", "text", "time_range", "title", "tokens", "type", "until"),
        *("value", "version", "wait"),
    }
)
"""Parameters that name nothing of one user: agents, memories and collections belong to the program. A cursor is
looked at by itself, and so is the number of an event."""


def base_of(tool: Tool) -> dict[str, Any]:
    """Return valid parameters of a tool, which find everything that its caller may find."""
    if tool.name == "agent_memory_sql":
        return {"query": "SELECT note FROM notes ORDER BY note"}
    given = dict(tool.example or {})
    if given.get("agent"):
        given["agent"] = "reviewer"
    for name in ("query", "query_text"):
        if name in given:
            given[name] = WORD
    for name in ("tags", "project_id", "memory_type", "time_range", "since"):
        if tool.read_only:
            given.pop(name, None)
    return given


def names_of(tool: Tool) -> list[str]:
    """Return the parameters of a tool that name something of a user."""
    return [name for name in tool.parameters.model_fields if name in NAMING]


def needed_by(world: World, tool: Tool) -> dict[str, Any]:
    """Return what the first user has for the parameters without which a call finds nothing."""
    fields = tool.parameters.model_fields
    return {name: NAMING[name](world, tool) for name in names_of(tool) if fields[name].is_required()}


def cases(world: World, tool: Tool) -> list[dict[str, Any]]:
    """Return what to call a tool with: nothing of the first user, each of their names, and all that it needs."""
    each = [{name: NAMING[name](world, tool)} for name in names_of(tool)]
    needed = needed_by(world, tool)
    return [{}, *each, *([needed] if len(needed) > 1 else [])]
