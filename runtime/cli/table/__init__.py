"""`symbi table`: the SQL tables of a user. Each command is imported when it is called."""

from __future__ import annotations

import click

from dslc.cli.lazy_group import LazyGroup

COMMANDS = {
    "sql": "runtime.cli.table.sql:sql",
    "schema": "runtime.cli.table.sql:schema",
    "shell": "runtime.cli.table.shell:shell",
    "export": "runtime.cli.table.export:export",
    "import": "runtime.cli.table.import_:import_",
}
"""The location of every command, in the order of the help."""


@click.group(cls=LazyGroup, places=COMMANDS)
def table() -> None:
    """Query, export and import the SQL tables of a user, which agents use too."""
