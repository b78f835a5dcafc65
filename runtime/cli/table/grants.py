"""`symbi database`: the database of the daemon."""

from __future__ import annotations

from pathlib import Path

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.output import json_option, print_json, root_option


@click.group()
def database() -> None:
    """Show what the daemon's database needs."""


@database.command("grant-sql", short_help="Print the SQL that lets users have tables in PostgreSQL.")
@click.option("--pool", type=click.IntRange(1, 10_000), help="Prepare so many roles; else the daemon may create them.")
@click.option("--strict", is_flag=True, help="Also take rights from everyone that users' statements never need.")
@root_option
@json_option
def grant_sql(pool: int | None, strict: bool, root: Path | None, as_json: bool) -> None:
    """Print the SQL that lets users have SQL tables in PostgreSQL, for a superuser to run.

    Each user has a role of their own. The daemon needs the right to create roles, or with --pool a number of prepared
    ones, one for each user who has tables. The statements contain no passwords. `symbi readiness` says whether there
    are tables.
    """
    answer = call(find_root(root), "database.grants", {"pool": pool or 0, "strict": strict})
    if as_json:
        print_json(answer)
    else:
        click.echo(answer["sql"], nl=False)
