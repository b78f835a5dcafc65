"""`symbi collection`: what clients keep and search. Each command is imported when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import click

from dslc.cli.late import LateGroup


class _Commands(LateGroup):
    """In the order of the help: what there is, what is in it, single items."""

    places: Mapping[str, str] = MappingProxyType(
        {
            "list": "runtime.cli.collection.state:list_",
            "new": "runtime.cli.collection.state:new",
            "metrics": "runtime.cli.collection.state:metrics",
            "search": "runtime.cli.collection.search:search",
            "summarize": "runtime.cli.collection.search:summarize",
            "get": "runtime.cli.collection.items:get",
            "update": "runtime.cli.collection.items:update",
            "forget": "runtime.cli.collection.items:forget",
        }
    )


@click.group(cls=_Commands)
def collection() -> None:
    """List, search, summarize and edit collections, which `symbi push` and assistants write."""
