"""TABLE of parameters: which of them name something of a user. One that is in neither table fails the matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from runtime.tools.tool import Tool
from tests.runtime.attacks.isolation.world import OWNER, PROJECT, SOURCE, SUBJECT, TAG, WORD, World

Named = Callable[[World, Tool], Any]
"""Returns what the first user has and a tool's parameter can name."""


def _memory_id(world: World, tool: Tool) -> str:
    if tool.function.__module__.startswith("runtime.tools.collection"):
        return str(world.ids["collected"])
    archival = tool.function.__module__.startswith("runtime.tools.archival")
    return str(world.ids["archived" if archival else "memory_id"])


NAMING: Final[Mapping[str, Named]] = {
    "conversation_id": lambda world, _: world.ids["thread"],
    "memory_id": _memory_id,
    "project": lambda *_: PROJECT,
    "project_id": lambda *_: PROJECT,
    "run": lambda world, _: world.ids["run"],
    "source": lambda *_: SOURCE,
    "source_uri": lambda *_: SOURCE,
    "subject": lambda *_: SUBJECT,
    "tag": lambda *_: [TAG],
    "tags": lambda *_: [TAG],
    "thread": lambda world, _: world.ids["thread"],
    "user": lambda *_: OWNER,
    "webhook_id": lambda world, _: world.ids["webhook_id"],
}
"""Parameters that name something of a user."""

PLAIN: Final = frozenset(
    {
        *(
            "agent",
            "all_tags",
            "author",
            "collection",
            "confidence",
            "content",
            "cursor",
            "day",
            "dimension",
            "dry_run",
        ),
        *("gates", "git_commit", "insecure_allow_unverified", "is_active", "items", "label", "limit", "line"),
        *("max_words", "memory", "memory_type", "model", "name", "new", "old", "overlap", "provider", "query"),
        *("query_text", "replace", "risk_tier", "score_threshold", "session_id", "since", "sources", "source_memory"),
        *("strategy", "tags_all", "target", "task", "text", "time_range", "title", "type", "until", "value", "version"),
    }
)
"""Parameters that name nothing of one user: agents, memories and collections belong to the program. A cursor is
looked at by itself."""


def base_of(tool: Tool) -> dict[str, Any]:
    """Return valid parameters of a tool, which find everything that its caller may find."""
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
