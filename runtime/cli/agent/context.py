"""`symbi agent context`: what the context of an agent is made of."""

from __future__ import annotations

from pathlib import Path

import click

from runtime.cli.client import call, find_root
from runtime.cli.terminal.context_parts import print_parts
from runtime.cli.terminal.output import json_option, root_option, user_option
from runtime.cli.terminal.screen import echo, echo_json, echo_text, rule


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
    answer = call(find_root(root), "agent_context_preview", {"agent": agent, "thread": thread}, user=user)
    if as_json:
        echo_json(answer)
    elif whole:
        for message in answer["messages"]:
            echo(f"{rule(2)} {message['role']}", bold=True)
            echo_text(message["content"])
    else:
        print_parts(answer)
