"""`symbi user`: who may be given tokens."""

from __future__ import annotations

from pathlib import Path

import click

from runtime.cli.client import call, find_root
from runtime.cli.output import ask, json_option, local, print_json, print_table, root_option


@click.group()
def user() -> None:
    """Users: each has webhooks and tokens that no other one sees. `owner` is there from the start."""


@user.command()
@click.argument("name")
@root_option
@json_option
def add(name: str, root: Path | None, as_json: bool) -> None:
    """Make the user NAME."""
    answer = call(find_root(root), "users.add", {"name": name})
    if as_json:
        print_json(answer)
    else:
        click.echo(f"there is a user {name} now; `symbi token create --user {name}` makes a token")


@user.command("list")
@root_option
@json_option
def list_(root: Path | None, as_json: bool) -> None:
    """Every user, and how many good tokens each has."""
    answer = call(find_root(root), "users.list")
    if as_json:
        print_json(answer)
        return
    rows = [
        (row["user"], local(row["created_at"]) if row["created_at"] else "-", str(row["tokens"]))
        for row in answer["users"]
    ]
    print_table(("user", "since", "tokens"), rows, empty="There are no users.")


@user.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@root_option
@json_option
def remove(name: str, yes: bool, root: Path | None, as_json: bool) -> None:
    """Remove the user NAME with its tokens and the webhooks it made.

    What these have accepted is run all the same, and kept as long as other deliveries.
    """
    found = find_root(root)
    # Who is not there, or cannot be removed, is not asked about: the answer below says so.
    if not yes and name in {row["user"] for row in call(found, "users.list")["users"] if row["created_at"]}:
        ask(f"Remove {name} with all its tokens and webhooks?", undone="nothing was removed")
    answer = call(found, "users.remove", {"name": name})
    if as_json:
        print_json(answer)
    else:
        click.echo(f"removed {name}, {answer['tokens']} tokens and {answer['webhooks']} webhooks")
