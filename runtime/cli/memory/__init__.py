"""`symbi memory`: the memories of agents. Each command is imported when it is called."""

from __future__ import annotations

import click

from dslc.cli.lazy_group import LazyGroup

COMMANDS = {
    "search": "runtime.cli.memory.read:search",
    "list": "runtime.cli.memory.read:list_",
    "show": "runtime.cli.memory.read:show",
    "inspect": "runtime.cli.memory.read:inspect",
    "stats": "runtime.cli.memory.read:stats",
    "write": "runtime.cli.memory.write:write",
    "edit": "runtime.cli.memory.write:edit",
    "forget": "runtime.cli.memory.write:forget",
    "compact": "runtime.cli.memory.maintenance:compact",
    "purge": "runtime.cli.memory.maintenance:purge",
    "reindex": "runtime.cli.memory.maintenance:reindex",
    "verify": "runtime.cli.memory.maintenance:verify",
    "export": "runtime.cli.memory.transfer:export",
    "import": "runtime.cli.memory.transfer:import_",
    "move": "runtime.cli.memory.maintenance:move",
}
"""The location of every command, in the order of the help."""


@click.group(cls=LazyGroup, places=COMMANDS)
def memory() -> None:
    """Search, write, export, move and maintain what agents remember."""
