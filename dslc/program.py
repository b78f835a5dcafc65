"""The frozen result of a compilation: what the runtime takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from dslc.frozen import FrozenDict

if TYPE_CHECKING:
    from dslc.blocks.agent import Agent
    from dslc.blocks.memory import Memory
    from dslc.blocks.webhook import Webhook

HOMES: Mapping[str, str] = MappingProxyType({"memories": "memory", "webhooks": "webhook", "agents": "agent"})
"""Where a program keeps the blocks of each kind: its field, and the kind."""


@dataclass(frozen=True)
class Program:
    """Every block by its name, in source order. Read-only; two programs are equal when their definitions are.

    `origins` says where a block of (kind, name) was declared, as `file:line`. It does not take part in comparison:
    a comment above a block changes no meaning.
    """

    memories: Mapping[str, Memory] = field(default_factory=dict)
    webhooks: Mapping[str, Webhook] = field(default_factory=dict)
    agents: Mapping[str, Agent] = field(default_factory=dict)
    origins: Mapping[tuple[str, str], str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("memories", "webhooks", "agents", "origins"):
            object.__setattr__(self, name, FrozenDict(getattr(self, name)))
