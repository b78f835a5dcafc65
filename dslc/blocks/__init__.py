"""The kinds of blocks. To add one: a file with its model, and its row in `KINDS`.

Models load on first use: a check goes by what the catalogue says of them, and needs no pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dslc.blocks.agent import Agent as Agent
    from dslc.blocks.agent import Context as Context
    from dslc.blocks.block import Block as Block
    from dslc.blocks.block import Group as Group
    from dslc.blocks.choice import Choice as Choice
    from dslc.blocks.filter import AnyOf as AnyOf
    from dslc.blocks.filter import Condition as Condition
    from dslc.blocks.filter import Filter as Filter
    from dslc.blocks.filter import InnerFilter as InnerFilter
    from dslc.blocks.invalid import Invalid as Invalid
    from dslc.blocks.memory import Memory as Memory
    from dslc.blocks.memory import Search as Search
    from dslc.blocks.memory import Summarize as Summarize
    from dslc.blocks.secret import is_reference as is_reference
    from dslc.blocks.setting import settings_of as settings_of
    from dslc.blocks.values import HEAD as HEAD
    from dslc.blocks.values import SINGLE as SINGLE
    from dslc.blocks.values import As as As
    from dslc.blocks.values import Duration as Duration
    from dslc.blocks.values import Event as Event
    from dslc.blocks.values import HeaderName as HeaderName
    from dslc.blocks.values import JsonPath as JsonPath
    from dslc.blocks.values import Name as Name
    from dslc.blocks.values import Network as Network
    from dslc.blocks.values import Pattern as Pattern
    from dslc.blocks.values import Relation as Relation
    from dslc.blocks.values import SecretReference as SecretReference
    from dslc.blocks.values import Size as Size
    from dslc.blocks.values import Url as Url
    from dslc.blocks.values import UrlPath as UrlPath
    from dslc.blocks.webhook import Limits as Limits
    from dslc.blocks.webhook import Webhook as Webhook
    from dslc.setting import Setting as Setting

    TABLE: Mapping[str, type[Block]]

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "memory": "dslc.blocks.memory:Memory",
        "webhook": "dslc.blocks.webhook:Webhook",
        "agent": "dslc.blocks.agent:Agent",
    }
)
"""Every kind of block by the word that opens it, and where its model is. `TABLE` has the models themselves."""

_HOMES = {
    **dict.fromkeys(("Agent", "Context"), "dslc.blocks.agent"),
    **dict.fromkeys(("Block", "Group"), "dslc.blocks.block"),
    **dict.fromkeys(("AnyOf", "Condition", "Filter", "InnerFilter"), "dslc.blocks.filter"),
    **dict.fromkeys(("Memory", "Search", "Summarize"), "dslc.blocks.memory"),
    **dict.fromkeys(("Limits", "Webhook"), "dslc.blocks.webhook"),
    **dict.fromkeys(("HEAD", "SINGLE", "As", "Relation"), "dslc.blocks.values"),
    **dict.fromkeys(
        (
            "Duration",
            "Event",
            "HeaderName",
            "JsonPath",
            "Name",
            "Network",
            "Pattern",
            "SecretReference",
            "Size",
            "Url",
            "UrlPath",
        ),
        "dslc.blocks.values",
    ),
    "Choice": "dslc.blocks.choice",
    "Invalid": "dslc.blocks.invalid",
    "Setting": "dslc.setting",
    "is_reference": "dslc.blocks.secret",
    "settings_of": "dslc.blocks.setting",
}


@cache
def _table() -> Mapping[str, type[Block]]:
    return MappingProxyType({kind: _load(*home.split(":")) for kind, home in KINDS.items()})


def _load(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def __getattr__(name: str) -> Any:
    if name == "TABLE":
        return _table()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _load(_HOMES[name], name)
