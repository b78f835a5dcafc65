"""TABLE of tools: operations for agents, MCP, HTTP and commands, one typed function each, see `runtime.tools.tool`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Final

from runtime.extension_table import table_of
from runtime.tools.tool import Tool

_MODULES: Final = (
    "webhooks.manage",
    "memory.search",
    "memory.write",
    "memory.items",
    "maintenance.memories",
    "maintenance.move",
    "maintenance.export_items",
    "maintenance.import_items",
    "core_memory.blocks",
    "archival.memory",
    "core_memory.recall",
    "core_memory.usage",
    "agent.chat",
    "agent.events",
    "knowledge.knowledge",
    "agent.config",
    "conversations.overview",
    "conversations.items",
    "collection.push",
    "collection.search",
    "collection.summarize",
    "collection.overview",
    "collection.items",
    "approvals.decide",
    "tables.sql",
    "kv.entries",
    "tasks.manage",
    "tasks.search",
)
"""The modules of tools, in the order in which clients are shown them."""


def _tools() -> Iterator[Tool]:
    """Yield the tools of each module in the order of their definition."""
    for name in _MODULES:
        module = import_module(f"runtime.tools.{name}")
        rows = (each for each in vars(module).values() if isinstance(each, Tool))
        yield from (each for each in rows if each.function.__module__ == module.__name__)


TOOLS: Final = table_of("tool", _tools())
