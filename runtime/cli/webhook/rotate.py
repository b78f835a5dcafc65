"""`symbi webhook rotate`: a new secret; the previous one stays valid for a while."""

from __future__ import annotations

from pathlib import Path

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.output import json_option, root_option
from runtime.cli.terminal.screen import echo, echo_json
from runtime.cli.webhook.dynamic import is_id


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
    if is_id(name):
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
