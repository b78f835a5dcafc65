"""`symbi agent context`: what the context of an agent is made of."""

from __future__ import annotations

from pathlib import Path

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.context_parts import print_parts
from runtime.cli.terminal.output import json_option, print_json, printable, root_option, user_option


@click.command(short_help="Show what the context of an agent is made of.")
@click.argument("agent", required=False)
@click.option("--thread", metavar="ID", help="In this thread.  [default: the main one]")
@click.option("--text", "whole", is_flag=True, help="Print the whole text that the model would read.")
@user_option("For this user.")
@root_option
@json_option
def context(
    agent: str | None, thread: str | None, whole: bool, user: str | None, root: Path | None, as_json: bool
) -> None:
    """Show the parts of the context with which AGENT would answer now, and how many tokens each has.

    No model is asked. The tokens are counted as they are for the model's window.
    """
    answer = call(find_root(root), "agents.context", {"agent": agent, "thread": thread, "user": user})
    if as_json:
        print_json(answer)
    elif whole:
        for message in answer["messages"]:
            click.secho(f"── {message['role']}", bold=True)
            click.echo(printable(message["content"]))
    else:
        print_parts(answer)
