"""`symbi webhook create`, `update` and `delete`: webhooks that no file declares, of the owner or of any user."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.output import json_option, one_line, print_json, root_option
from runtime.errors import UsageError


@click.command(short_help="Create a webhook that no file declares.")
@click.argument("title")
@click.option("--agent", metavar="NAME", help="The agent to run for each delivery.")
@click.option("--keep-only", is_flag=True, help="Run no agent; only store the deliveries.")
@click.option(
    "--insecure-allow-unverified", is_flag=True, help="Accept unsigned requests from anyone who knows the URL."
)
@root_option
@json_option
def create(
    *,
    title: str,
    agent: str | None,
    keep_only: bool,
    insecure_allow_unverified: bool,
    root: Path | None,
    as_json: bool,
) -> None:
    """Create a webhook called TITLE that no file declares, and print its URL and its secret.

    Give either --agent or --keep-only. The secret is shown only once.
    """
    if (agent is None) != keep_only:
        raise UsageError("give either --agent NAME or --keep-only", hint="`symbi webhook list` shows agents")
    for what, text in (("TITLE", title), ("--agent", agent)):
        if text is not None and not text.strip():
            raise UsageError(f"{what} is empty")
    given = {"title": title, "agent": agent, "insecure_allow_unverified": insecure_allow_unverified}
    answer = call(find_root(root), "webhook_create", given, null=("agent",))
    if as_json:
        print_json(answer)
        return
    click.echo(f"webhook  {answer['webhook_id']}")
    click.echo(f"url      {answer['url']}")
    if answer["secret"] is None:
        click.secho("it accepts unsigned requests", fg="yellow", err=True)
    else:
        click.echo(f"secret   {answer['secret']}")
        click.echo("the secret is not shown again", err=True)
    for note in answer["notes"]:
        click.secho(one_line(f"note: {note}"), fg="yellow", err=True)


@click.command(short_help="Delete a webhook that was created through the API.")
@click.argument("webhook_id", metavar="ID")
@root_option
@json_option
def delete(webhook_id: str, root: Path | None, as_json: bool) -> None:
    """Delete the webhook ID, which any user created through the API. `remove` is for webhooks that a file declares."""
    found = find_root(root)
    answer = call(found, "webhook_delete", {"webhook_id": _id(webhook_id)})
    if as_json:
        print_json(answer)
    else:
        click.echo(f"deleted {webhook_id}")


@click.command(short_help="Rename a webhook that was created through the API, or switch it on or off.")
@click.argument("webhook_id", metavar="ID")
@click.option("--title", metavar="TITLE", help="The new title.")
@click.option("--on/--off", "is_active", default=None, help="A webhook that is off answers 404.")
@root_option
@json_option
def update(webhook_id: str, title: str | None, is_active: bool | None, root: Path | None, as_json: bool) -> None:
    """Rename the webhook ID, which any user created through the API, or switch it on or off."""
    found = find_root(root)
    answer = call(found, "webhook_update", {"webhook_id": _id(webhook_id), "title": title, "is_active": is_active})
    if as_json:
        print_json(answer)
    else:
        click.echo(f"{answer['title']} ({webhook_id}) is {'on' if answer['is_active'] else 'off'}")


def _id(text: str) -> str:
    """Return `text`. Raises UsageError if it is not an id."""
    try:
        if str(UUID(text)) == text:
            return text
    except ValueError:
        pass
    raise UsageError(
        f"{text!r} is not the id of a webhook created through the API",
        hint="`symbi webhook list` shows it at the end of the path; `symbi webhook remove NAME` is for declared ones",
    )
