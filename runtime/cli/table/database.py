"""`symbi database`: the database of the daemon."""

from __future__ import annotations

from pathlib import Path

import click

from runtime.cli.client import find_root
from runtime.cli.terminal.output import json_option, root_option
from runtime.cli.terminal.screen import echo, echo_exact, echo_json
from runtime.cli.tool_command import tool_command


@click.group()
def database() -> None:
    """Create a database for a root that lost its own, and show what one needs."""


@database.command(short_help="Create a database for a root that lost its own.")
@root_option
@json_option
def create(root: Path | None, as_json: bool) -> None:
    """Create a database for a root that lost its own, or let the root use another one from now on.

    The database is the one of SYMBIONT_DATABASE, else the SQLite file in the root. A new one has none of the former
    deliveries, tokens and conversations, and new webhook secrets; keys of users that are still there are used again. A
    database that has data is used as it is. No daemon may run on the root.
    """
    from runtime.daemon.database_creation import create_database

    created = create_database(find_root(root, adopt=True))
    if as_json:
        echo_json(created._asdict())
        return
    what = "is new" if created.is_new else "had data before, and is used as it is"
    echo(f"the database of the root is {created.database}, which {what}")


tool_command(
    "database_grants",
    "grant-sql",
    short="Print the SQL that lets users have tables in PostgreSQL.",
    doc="""Print the SQL that lets users have SQL tables in PostgreSQL, for a superuser to run.

    Each user has a role of their own. The daemon needs the right to create roles, or with --pool a number of prepared
    ones, one for each user who has tables. The statements contain no passwords. `symbi readiness` says whether there
    are tables.
    """,
    view=lambda answer: echo_exact(answer["sql"], nl=False),
    group=database,
)
