"""The kinds of blocks. To add one: a file with its model, and its row in `KINDS`.

Models load on first use: a check reads their settings from the catalog and does not import pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dslc.blocks.block import Block

    TABLE: Mapping[str, type[Block]]

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "memory": "dslc.blocks.memory:Memory",
        "webhook": "dslc.blocks.webhook:Webhook",
        "agent": "dslc.blocks.agent:Agent",
        "model": "dslc.blocks.model:LanguageModel",
        "mcp": "dslc.blocks.mcp:McpServer",
    }
)
"""Kinds of blocks: keyword → `module:class` of the model. `TABLE` holds the models themselves."""


@cache
def _table() -> Mapping[str, type[Block]]:
    return MappingProxyType({kind: _model(*path.split(":")) for kind, path in KINDS.items()})


def _model(module: str, name: str) -> type[Block]:
    model: type[Block] = getattr(import_module(module), name)
    return model


def __getattr__(name: str) -> Any:
    if name == "TABLE":
        return _table()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
