"""Tools and resources as the protocol lists them, read from `listing.json`, which is generated from the tables.

Loading the tables takes a second, because of everything that their functions import; a client's first request does
not wait for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from runtime.identity.caller import Scope

FILE: Final = Path(__file__).with_name("listing.json")
"""Written by `python -m runtime.generate.mcp_listing`: tools, each with the scope that it needs, and resources."""

May = Callable[["Scope"], bool]
"""Returns True if a caller has a scope."""


def tools(may: May) -> Sequence[Mapping[str, Any]]:
    """The tools that the caller may call."""
    return [row["tool"] for row in _tools().values() if may(row["scope"])]


def tool(name: str, may: May) -> Mapping[str, Any] | None:
    """Return the tool of this name; None if there is none, or not for this caller."""
    row = _tools().get(name)
    return row["tool"] if row is not None and may(row["scope"]) else None


def resources(may: May) -> Sequence[Mapping[str, Any]]:
    """Return the resources that the caller may read; one whose address has parameters has a `uriTemplate` and no
    `uri`."""
    found: list[Mapping[str, Any]] = _listing()["resources"]
    return found if may("read") else []


@cache
def _tools() -> Mapping[str, Mapping[str, Any]]:
    return {row["tool"]["name"]: row for row in _listing()["tools"]}


@cache
def _listing() -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_bytes())
    return found
