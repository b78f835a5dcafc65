"""The kinds of blocks. To add one: a file with its model, and its row in `TABLE`.

Light to import (pydantic alone): the runtime takes its types from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dslc.blocks.agent import Agent, Context
from dslc.blocks.block import Block, Group
from dslc.blocks.choice import Choice
from dslc.blocks.invalid import Invalid
from dslc.blocks.memory import Memory, Search
from dslc.blocks.setting import Setting, settings_of
from dslc.blocks.values import (
    HEAD,
    SINGLE,
    As,
    Duration,
    JsonPath,
    Name,
    Relation,
    SecretReference,
    Size,
    Url,
    UrlPath,
    is_reference,
)
from dslc.blocks.webhook import Filter, Limits, Webhook

TABLE: Mapping[str, type[Block]] = MappingProxyType(
    {
        "memory": Memory,
        "webhook": Webhook,
        "agent": Agent,
    }
)
"""Every kind of block by the word that opens it."""

__all__ = [
    "HEAD", "SINGLE", "TABLE",
    "Agent", "As", "Block", "Choice", "Context", "Duration", "Filter", "Group", "Invalid", "JsonPath", "Limits",
    "Memory", "Name", "Relation", "Search", "SecretReference", "Setting", "Size", "Url", "UrlPath", "Webhook",
    "is_reference", "settings_of",
]  # fmt: skip
