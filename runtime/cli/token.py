"""`symbi token`: bearer tokens for `/v1` on the operators' listener."""

from __future__ import annotations

from pathlib import Path

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.output import json_option, local_time, print_json, print_table, root_option, user_option


@click.group()
def token() -> None:
    """Create, list and revoke bearer tokens, with which users call `/v1` on the operators' listener."""


@token.command()
@user_option("The user of the token.")
@click.option("--label", metavar="TEXT", help="A label to recognize the token in the list.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(["read", "write", "admin"]),
    help="The permission; each scope includes those before it.  [default: read]",
)
@click.option(
    "--tools",
    metavar="GROUP[,GROUP]...",
    help="The only tools of the token, on /v1 and /mcp: collections, memory, agents, webhooks, tasks, tables, kv; "
    "`read-only` leaves out what changes something.  [default: all]",
)
@click.option(
    "--expires", metavar="DURATION", help="How long the token is valid, such as 90d.  [default: until revoked]"
)
@root_option
@json_option
def create(
    user: str | None,
    label: str | None,
    scopes: tuple[str, ...],
    tools: str | None,
    expires: str | None,
    root: Path | None,
    as_json: bool,
) -> None:
    """Create a token and print it. It is shown only once: only its hash is stored."""
    given = {"user": user, "label": label, "scopes": list(scopes) or None, "tools": tools, "expires": expires}
    answer = call(find_root(root), "tokens.create", given)
    if as_json:
        print_json(answer)
        return
    until = f"until {answer['expires_at']}" if answer["expires_at"] else "until it is revoked"
    # Only the token goes to standard output, for scripts.
    click.echo(f"token {answer['id']} of {answer['user']}, valid {until}; it is not shown again:", err=True)
    click.echo(answer["token"])


@token.command("list")
@click.option("--user", metavar="NAME", help="Only tokens of this user.")
@root_option
@json_option
def list_(user: str | None, root: Path | None, as_json: bool) -> None:
    """List every token, valid or not, without its value."""
    answer = call(find_root(root), "tokens.list", {"user": user})
    if as_json:
        print_json(answer)
        return
    rows = [
        (
            row["id"],
            row["user"],
            row["label"] or "-",
            " ".join(row["scopes"]),
            "all" if row["tools"] is None else " ".join(row["tools"]),
            row["state"],
            local_time(row["created_at"]),
            _when(row["expires_at"]),
            _when(row["used_at"]),
        )
        for row in answer["tokens"]
    ]
    columns = ("id", "user", "label", "scopes", "tools", "state", "created", "expires", "used")
    print_table(columns, rows, empty="There are no tokens; `symbi token create` creates one.")


def _when(moment: str | None) -> str:
    return "never" if moment is None else local_time(moment)


@token.command()
@click.argument("token_id", metavar="ID")
@root_option
@json_option
def revoke(token_id: str, root: Path | None, as_json: bool) -> None:
    """Revoke the token ID. ID is an id, its unique prefix, or the token itself. Every daemon refuses it from now on."""
    answer = call(find_root(root), "tokens.revoke", {"id": token_id})
    if as_json:
        print_json(answer)
    else:
        click.echo(f"revoked {answer['id']}")
