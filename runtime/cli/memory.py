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
            "search": "runtime.cli.memory_search:search",
            "list": "runtime.cli.memory_read:list_",
            "show": "runtime.cli.memory_read:show",
            "inspect": "runtime.cli.memory_read:inspect",
            "stats": "runtime.cli.memory_read:stats",
            "write": "runtime.cli.memory_write:write",
            "edit": "runtime.cli.memory_edit:edit",
            "forget": "runtime.cli.memory_edit:forget",
            "compact": "runtime.cli.memory_upkeep:compact",
            "purge": "runtime.cli.memory_upkeep:purge",
            "reindex": "runtime.cli.memory_upkeep:reindex",
            "verify": "runtime.cli.memory_upkeep:verify",
            "export": "runtime.cli.memory_transfer:export",
            "import": "runtime.cli.memory_transfer:import_",
            "move": "runtime.cli.memory_move:move",
        }
    )


@click.group(cls=_Commands)
def memory() -> None:
    """Search, write, export, move and maintain what agents remember."""
