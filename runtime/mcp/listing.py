"""Tools and resources as the protocol lists them, read from `listing.json`, which is generated from the tables.

Loading the tables takes a second, because of everything that their functions import; a client's first request does
not wait for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from runtime.tables.statement import seems_to_read
from runtime.tool_groups import ToolChoice

if TYPE_CHECKING:
    from runtime.identity.caller import Scope

FILE: Final = Path(__file__).with_name("listing.json")
"""Written by `python -m runtime.generate.mcp_listing`: tools, each with the scope that it needs and its group, and
resources."""

May = Callable[["Scope"], bool]
"""Returns True if a caller has a scope."""


class ListedTool(NamedTuple):
    """A tool as the protocol lists it, in `definition`, but for the schema of its result. `may_read`: it changes
    nothing with some arguments."""

    scope: Scope
    group: str
    may_read: bool
    definition: Mapping[str, Any]
    output_schema: Mapping[str, Any]

    @property
    def read_only(self) -> bool:
        """True if it changes nothing."""
        return bool(self.definition["annotations"]["readOnlyHint"])

    @property
    def repeatable(self) -> bool:
        """True if it may be called again when it is unknown whether the first call was executed."""
        return self.read_only or bool(self.definition["annotations"]["idempotentHint"])

    def only_reads(self, arguments: Mapping[str, Any]) -> bool:
        """True if a call with these arguments changes nothing."""
        return self.read_only or (self.may_read and seems_to_read(str(arguments.get("query"))))

    def is_in(self, choice: ToolChoice) -> bool:
        """True if the tool is in the choice."""
        return choice.has(self.group, read_only=self.read_only or self.may_read)


def tools(may: May, choice: ToolChoice, *, output_schemas: bool = False) -> Sequence[Mapping[str, Any]]:
    """The tools of the choice that the caller may call."""
    return [
        {**row.definition, "outputSchema": row.output_schema} if output_schemas else row.definition
        for row in _tools().values()
        if may(row.scope) and row.is_in(choice)
    ]


def tool(name: str, may: May) -> ListedTool | None:
    """Return the tool of this name; None if there is none, or not for this caller."""
    row = _tools().get(name)
    return row if row is not None and may(row.scope) else None


def resources(may: May) -> Sequence[Mapping[str, Any]]:
    """Return the resources that the caller may read; one whose address has parameters has a `uriTemplate` and no
    `uri`."""
    found: list[Mapping[str, Any]] = _listing()["resources"]
    return found if may("read") else []


@cache
def _tools() -> Mapping[str, ListedTool]:
    rows = (
        ListedTool(row["scope"], row["group"], row["mayRead"], row["tool"], row["outputSchema"])
        for row in _listing()["tools"]
    )
    return {row.definition["name"]: row for row in rows}


@cache
def _listing() -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_bytes())
    return found
