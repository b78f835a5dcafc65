"""The immutable result of a compilation, which the runtime uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from dslc.frozen import FrozenDict

if TYPE_CHECKING:
    from dslc.blocks.agent import Agent
    from dslc.blocks.mcp import McpServer
    from dslc.blocks.memory import Memory
    from dslc.blocks.model import LanguageModel
    from dslc.blocks.webhook import Webhook

BLOCK_FIELDS: Mapping[str, str] = MappingProxyType(
    {"memories": "memory", "webhooks": "webhook", "agents": "agent", "models": "model", "mcp_servers": "mcp"}
)
"""Field of a program for each block kind: (field, kind)."""


@dataclass(frozen=True)
class Program:
    """All blocks by name, in source order. Read-only; two programs are equal if their definitions are equal.

    `origins`: location of the declaration of (kind, name), as `file:line`. It is ignored in comparisons, because a
    comment above a block does not change its meaning.
    """

    memories: Mapping[str, Memory] = field(default_factory=dict)
    webhooks: Mapping[str, Webhook] = field(default_factory=dict)
    agents: Mapping[str, Agent] = field(default_factory=dict)
    models: Mapping[str, LanguageModel] = field(default_factory=dict)
    mcp_servers: Mapping[str, McpServer] = field(default_factory=dict)
    origins: Mapping[tuple[str, str], str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in (*BLOCK_FIELDS, "origins"):
            object.__setattr__(self, name, FrozenDict(getattr(self, name)))
