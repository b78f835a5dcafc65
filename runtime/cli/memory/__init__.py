"""`symbi memory`: what agents remember. Each command is imported when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import click

from dslc.cli.late import LateGroup


class _Commands(LateGroup):
    """In the order of the help: reading, writing, upkeep, carrying over."""

    places: Mapping[str, str] = MappingProxyType(
        {
            "search": "runtime.cli.memory.search:search",
            "list": "runtime.cli.memory.read:list_",
            "show": "runtime.cli.memory.read:show",
            "inspect": "runtime.cli.memory.read:inspect",
            "stats": "runtime.cli.memory.read:stats",
            "write": "runtime.cli.memory.write:write",
            "edit": "runtime.cli.memory.edit:edit",
            "forget": "runtime.cli.memory.edit:forget",
            "compact": "runtime.cli.memory.maintenance:compact",
            "purge": "runtime.cli.memory.maintenance:purge",
            "reindex": "runtime.cli.memory.maintenance:reindex",
            "verify": "runtime.cli.memory.maintenance:verify",
            "export": "runtime.cli.memory.transfer:export",
            "import": "runtime.cli.memory.transfer:import_",
            "move": "runtime.cli.memory.move:move",
        }
    )


@click.group(cls=_Commands)
def memory() -> None:
    """Search, write, export, move and maintain what agents remember."""
