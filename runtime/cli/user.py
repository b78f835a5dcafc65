"""`symbi user`: who may be given tokens."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from runtime.cli.client import call, find_root
from runtime.cli.output import ask, counted, json_option, local, print_json, print_table, printable, root_option


@click.group()
def user() -> None:
    """Users: each has webhooks, tokens and memories that no other one sees. `owner` is there from the start.

    What is a user's hangs on its id: a new user of the same name has nothing of it.
    """


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
        (row["user"], row["id"], local(row["created_at"]) if row["created_at"] else "-", str(row["tokens"]))
        for row in answer["users"]
    ]
    print_table(("user", "id", "since", "tokens"), rows, empty="There are no users.")


@user.command(short_help="Remove a user and, unless --keep, all that is theirs.")
@click.argument("name")
@click.option("--keep", is_flag=True, help="Keep what is theirs; nobody sees it but administrators.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@root_option
@json_option
def remove(name: str, keep: bool, yes: bool, root: Path | None, as_json: bool) -> None:
    """Remove the user NAME with its tokens, the webhooks it made, and everything that it has: what it remembers, in
    every memory, and what its webhooks received. It cannot be had back.

    Exit code 1 when something could not be deleted: the daemon tries again, and so does the same command with `id:ID`.
    """
    found = find_root(root)
    # Who is not there, or cannot be removed, is not asked about: the answer below says so.
    if not yes and name in {row["user"] for row in call(found, "users.list")["users"] if row["created_at"]}:
        what = "all its tokens and webhooks" if keep else "its tokens and webhooks, and all that it remembers"
        ask(f"Remove {name} with {what}?", undone="nothing was removed")
    answer = call(found, "users.remove", {"name": name, "keep": keep})
    if as_json:
        print_json(answer)
    else:
        click.echo(f"removed {name}, {answer['tokens']} tokens and {answer['webhooks']} webhooks")
        _print_erased(answer)
    for problem in answer["problems"]:
        click.secho(printable(f"not deleted yet: {problem}"), fg="red", err=True)
    if answer["problems"]:
        click.echo(f"the daemon tries again; so does `symbi user remove id:{answer['id']}`", err=True)
        sys.exit(1)


def _print_erased(answer: Mapping[str, Any]) -> None:
    if answer["kept"]:
        click.echo(f"what is theirs is kept, under id:{answer['id']}")
    for memory, count in answer["items"].items():
        click.echo(f"deleted {counted(count, 'item')} in the memory {memory}")
    for table, count in answer["rows"].items():
        click.echo(f"deleted {counted(count, 'row')} of {table}")
