"""`symbi collection`: collections of items, written and searched by clients. Each command is imported when it is
called."""

from __future__ import annotations

import click

from dslc.cli.lazy_group import LazyGroup

COMMANDS = {
    "list": "runtime.cli.collection.state:list_",
    "new": "runtime.cli.collection.state:new",
    "metrics": "runtime.cli.collection.state:metrics",
    "search": "runtime.cli.collection.search:search",
    "summarize": "runtime.cli.collection.search:summarize",
    "get": "runtime.cli.collection.items:get",
    "update": "runtime.cli.collection.items:update",
    "forget": "runtime.cli.collection.items:forget",
}
"""The location of every command, in the order of the help."""


@click.group(cls=LazyGroup, places=COMMANDS)
def collection() -> None:
    """List, search, summarize and edit collections, which `symbi push` and assistants write."""
