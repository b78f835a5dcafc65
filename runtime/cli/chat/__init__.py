"""`symbi chat`: a conversation with an agent, or one question to it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from runtime.cli.chat.conversation import Conversation
from runtime.cli.chat.interactive import talk
from runtime.cli.chat.printed_answer import ask_live, exit_code, print_answer, print_answer_json
from runtime.cli.client import find_root
from runtime.cli.terminal.input import text_or_input
from runtime.cli.terminal.output import json_option, root_option, user_option
from runtime.errors import UsageError

PATIENCE_SECONDS = 60
"""Seconds for which a question waits for a model that is away."""


@click.command(short_help="Talk with an agent.")
@click.argument("agent", required=False)
@click.option("-m", "--message", metavar="TEXT|-", help="Send this message, print the answer, and exit.")
@click.option("--new", is_flag=True, help="Begin a new conversation instead of continuing the main one.")
@click.option("--thread", metavar="ID", help="Continue this thread of the agent.")
@user_option("Talk as this user.")
@click.option(
    "--wait",
    type=click.IntRange(1, 86_400),
    default=PATIENCE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long a question waits for a model that is away.",
)
@root_option
@json_option
def chat(
    agent: str | None,
    message: str | None,
    new: bool,
    thread: str | None,
    user: str | None,
    wait: int,
    root: Path | None,
    as_json: bool,
) -> None:
    """Talk with AGENT, by default the main agent. It needs a running daemon.

    A conversation continues the agent's main thread, with everything that was said there. Without a terminal, standard
    input is one question, as with `-m`.

    Exit code 0 if the question was answered; 1 if the turn failed or was cancelled, if it waits for an approval, at a
    limit or because of a switch, or if the model was away for --wait seconds: the message stays, and is answered later.

    --json prints one object: the messages and tool_calls, how the run ended (null if it goes on), and its state and
    error, which say what it waits for.
    """
    if new and thread is not None:
        raise UsageError("--new and --thread exclude each other")
    question = message is not None or not sys.stdin.isatty()
    if as_json and not question:
        raise UsageError("--json needs a question", hint="give it with -m, or on standard input")
    text = text_or_input("-" if message is None else message, "--message") if question else ""
    conversation = Conversation.open(find_root(root), agent, user, new=new, thread=thread)
    if not question:
        talk(conversation)
        return
    if as_json:
        answered = conversation.ask(text, patience=wait)
        print_answer_json(answered)
    elif sys.stdout.isatty():
        answered = ask_live(conversation, text, patience=wait)
    else:
        answered = conversation.ask(text, patience=wait)
        print_answer(answered)
    sys.exit(exit_code(answered))
