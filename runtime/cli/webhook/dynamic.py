"""`symbi webhook create`, `update`, `delete`, `secret` and `rotate`: webhooks that no file declares, new secrets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.output import json_option, root_option
from runtime.cli.terminal.screen import echo, echo_json
from runtime.cli.tool_command import Sentence, tool_command
from runtime.errors import UsageError


def _check_new_webhook(given: dict[str, Any]) -> Mapping[str, Any]:
    keep_only, agent = given.pop("keep_only"), given["agent"]
    if (agent is None) != keep_only:
        raise UsageError("give either --agent NAME or --keep-only", hint="`symbi webhook list` shows agents")
    for what, text in (("TITLE", given["title"]), ("--agent", agent)):
        if text is not None and not text.strip():
            raise UsageError(f"{what} is empty")
    return given


def _print_created(answer: Mapping[str, Any]) -> None:
    echo(f"webhook  {answer['webhook_id']}")
    echo(f"url      {answer['url']}")
    if answer["secret"] is None:
        echo("it accepts unsigned requests", fg="yellow", err=True)
    else:
        echo(f"secret   {answer['secret']}")
        echo("the secret is not shown again", err=True)
    for note in answer["notes"]:
        echo(f"note: {note}", fg="yellow", err=True)


create = tool_command(
    "webhook_create",
    "create",
    short="Create a webhook that no file declares.",
    doc="""Create a webhook called TITLE that no file declares, and print its URL and its secret.

    Give either --agent or --keep-only. The secret is shown only once.
    """,
    arguments={"title": "TITLE"},
    more_options=[click.option("--keep-only", is_flag=True, help="Run no agent; only store the deliveries.")],
    read=_check_new_webhook,
    null=("agent",),
    view=_print_created,
)


def _is_id(text: str) -> bool:
    """Return True for the id of a webhook that was created through the API."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _check_id(given: dict[str, Any]) -> Mapping[str, Any]:
    if not _is_id(given["webhook_id"]):
        raise UsageError(
            f"{given['webhook_id']!r} is not the id of a webhook created through the API",
            hint="`symbi webhook list` shows it at the end of the path; `symbi webhook remove` is for declared ones",
        )
    return given


delete = tool_command(
    "webhook_delete",
    "delete",
    short="Delete a webhook that was created through the API.",
    doc="Delete the webhook ID, which any user created through the API. `remove` is for webhooks that a file declares.",
    arguments={"webhook_id": "ID"},
    read=_check_id,
    view=Sentence("deleted {webhook_id}"),
)


def _print_updated(answer: Mapping[str, Any]) -> None:
    echo(f"{answer['title']} ({answer['webhook_id']}) is {'on' if answer['is_active'] else 'off'}")


update = tool_command(
    "webhook_update",
    "update",
    arguments={"webhook_id": "ID"},
    read=_check_id,
    options={"title": "--title TITLE", "is_active": "--on/--off"},
    view=_print_updated,
)


def _print_secret(answer: Mapping[str, Any]) -> None:
    echo(answer["secret"])
    echo("the secret is not shown again", err=True)


secret = tool_command(
    "webhook_secret",
    "secret",
    short="Show the secret that an agent gave a webhook, once.",
    doc="""Show the signing secret of the webhook ID, which an agent created or rotated.

    It is shown once: no agent and no token reads it. A person who creates or rotates a webhook gets its secret at once.
    """,
    arguments={"webhook_id": "ID"},
    read=_check_id,
    view=_print_secret,
)


@click.command(short_help="Give the webhook NAME a new secret.")
@click.argument("name")
@click.option(
    "--overlap",
    default="24h",
    show_default=True,
    metavar="DURATION",
    help="How long the old secret stays valid, up to 30d.",
)
@root_option
@json_option
def rotate(name: str, overlap: str, root: Path | None, as_json: bool) -> None:
    """Give the webhook NAME a new secret, if Symbiont generated its current one.

    A running daemon accepts the new secret at once. It refuses the old one after the overlap; `--overlap 0s` ends the
    old secret now.
    """
    if _is_id(name):
        made = call(find_root(root), "webhook_rotate_secret", {"webhook_id": name, "overlap": overlap})
        answer = {"webhooks": [name], "ended": None, **made}
    else:
        answer = {"secret": None, **call(find_root(root), "secret_rotate", {"name": name, "overlap": overlap})}
    if as_json:
        echo_json(answer)
        return
    until = answer["previous_secret_until"]
    echo(f"{', '.join(answer['webhooks'])}: new secret generated")
    if answer["secret"] is None:
        echo(f"read it:  symbi secret show {answer['name']}")
    else:
        echo(f"secret    {answer['secret']}")
        echo("the secret is not shown again", err=True)
    echo("old one:  refused from now on" if until is None else f"old one:  valid until {until}")
    if answer["ended"] is not None:
        echo(f"the one before that was valid until {answer['ended']} and is refused now", fg="yellow", err=True)
