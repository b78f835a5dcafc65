"""`symbi kv`: the key-value store. Each command is imported when it is called."""

from __future__ import annotations

import click

from dslc.cli.lazy_group import LazyGroup

COMMANDS = {
    "set": "runtime.cli.kv.entries:set_",
    "get": "runtime.cli.kv.entries:get",
    "list": "runtime.cli.kv.entries:list_",
    "delete": "runtime.cli.kv.entries:delete",
    "export": "runtime.cli.kv.export:export",
}
"""The location of every command, in the order of the help."""


@click.group(cls=LazyGroup, places=COMMANDS)
def kv() -> None:
    """Set, list, delete and export what agents keep by name.

    A value is any JSON of at most 64 KiB. Agents use the same entries with the tools `agent_memory_set`,
    `agent_memory_get` and `agent_memory_delete`.
    """
