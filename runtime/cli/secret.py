"""`symbi secret`: the secrets that the daemon makes."""

from __future__ import annotations

from pathlib import Path

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.output import json_option, print_json, root_option


@click.group()
def secret() -> None:
    """Show secrets that the daemon generated and stores encrypted."""


@secret.command(short_help="Print the generated secret NAME.")
@click.argument("name")
@root_option
@json_option
def show(name: str, root: Path | None, as_json: bool) -> None:
    """Print the generated secret NAME in the form that the settings page of the sender expects."""
    answer = call(find_root(root), "secrets.show", {"name": name})
    if as_json:
        print_json(answer)
    else:
        click.echo(answer["value"])
