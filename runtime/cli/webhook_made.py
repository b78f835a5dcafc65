"""`symbi webhook create` and `delete`: webhooks made at run time, the owner's."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import click

from runtime.cli.client import call, find_root
from runtime.cli.output import json_option, print_json, root_option
from runtime.errors import UsageError


@click.command(short_help="Make a webhook that no file declares.")
@click.argument("title")
@click.option("--agent", metavar="NAME", help="The agent that each delivery wakes.")
@click.option("--keep-only", is_flag=True, help="Wake no agent: deliveries are kept, to be read.")
@click.option(
    "--insecure-allow-unverified", is_flag=True, help="Accept requests that nobody signed: whoever knows the URL may."
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
    """Make a webhook called TITLE that no file declares; its URL and secret are printed, the secret this once."""
    if (agent is None) != keep_only:
        raise UsageError("say one of --agent NAME and --keep-only", hint="`symbi webhook list` shows agents")
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
        click.secho("it accepts requests that nobody signed", fg="yellow", err=True)
    else:
        click.echo(f"secret   {answer['secret']}")
        click.echo("the secret is not shown again", err=True)


@click.command(short_help="Delete the webhook ID that was made at run time.")
@click.argument("webhook_id", metavar="ID")
@root_option
@json_option
def delete(webhook_id: str, root: Path | None, as_json: bool) -> None:
    """Delete the webhook ID that was made at run time; `remove` is for those that a file declares."""
    found = find_root(root)
    if not _is_uuid(webhook_id):
        raise UsageError(
            f"{webhook_id!r} is no id of a webhook made at run time",
            hint="`symbi webhook list` has it at the end of the path; `symbi webhook remove NAME` is for declared ones",
        )
    answer = call(found, "webhook_delete", {"webhook_id": webhook_id})
    if as_json:
        print_json(answer)
    else:
        click.echo(f"deleted {webhook_id}")


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
