"""A conversation on a terminal: lines, their history, and commands that begin with `/`."""

from __future__ import annotations

import readline
from contextlib import suppress
from typing import Final

from runtime.cli.chat.conversation import Conversation
from runtime.cli.chat.decision import decide
from runtime.cli.chat.printed_answer import ask_live, follow_live
from runtime.cli.terminal.context_parts import print_parts
from runtime.cli.terminal.output import count_text
from runtime.cli.terminal.screen import echo, echo_text, printable, read_line
from runtime.errors import SymbiontError, UsageError

PROMPT: Final = "> "

HELP: Final = """\
/context show what the agent's context is made of
/memory  show the agent's core memory
/pending decide about calls that wait for approval
/new     begin a new conversation
/help    show this help
/quit    end (also Ctrl-D)
Ctrl-C cancels an answer."""


def talk(conversation: Conversation) -> None:
    """Talk until the end of the input. The history of lines is what the user said in the thread before; nothing is
    written to a file."""
    _greet(conversation)
    readline.clear_history()
    for said in conversation.said:
        readline.add_history(printable(said))
    while True:
        try:
            line = _line()
        except EOFError:
            echo()
            return
        if line in ("/quit", "/exit"):
            return
        try:
            if line == "/new":
                conversation = Conversation.open(conversation.root, conversation.agent, conversation.user, new=True)
                echo("a new conversation")
            elif line.startswith("/"):
                _command(conversation, line)
            elif line:
                _ask(conversation, line)
        except SymbiontError as error:
            # The conversation goes on.
            echo(error.line(), fg="red", err=True)


def _line() -> str:
    """Return what the user types; an empty line if it is abandoned or cannot be read. Raises EOFError."""
    try:
        return read_line(PROMPT).strip()
    except KeyboardInterrupt:
        echo()
    except UnicodeDecodeError:
        echo("what you typed is not UTF-8 text", fg="red", err=True)
    return ""


def _greet(conversation: Conversation) -> None:
    earlier = f", {count_text(conversation.messages, 'message')}" if conversation.messages else ""
    echo(f"{conversation.agent} ({conversation.model}){earlier}; /help lists commands")


def _ask(conversation: Conversation, message: str) -> None:
    try:
        ask_live(conversation, message)
    except KeyboardInterrupt:
        echo_text("\ncancelled", fg="yellow", err=True)


def _pending(conversation: Conversation) -> None:
    """Ask about the calls of the thread that wait for approval, and show how the runs of messages go on."""
    found = conversation.call("approval_list", {})["approvals"]
    waiting = [each for each in found[::-1] if each["thread_id"] == conversation.thread]
    if not waiting:
        echo("no call waits for approval here")
    with suppress(KeyboardInterrupt):
        for each in waiting:
            decide(conversation, each)
        for run in dict.fromkeys(each["run_id"] for each in waiting):
            # That of a delivery is not followed.
            with suppress(UsageError):
                follow_live(conversation, run)


def _command(conversation: Conversation, line: str) -> None:
    match line.split():
        case ["/help"]:
            echo_text(HELP)
        case ["/context"]:
            print_parts(conversation.call("agent_context_preview", {"thread": conversation.thread}))
        case ["/memory"]:
            _memory(conversation)
        case ["/pending"]:
            _pending(conversation)
        case _:
            echo(f"no command is called {line}; /help lists them", fg="red", err=True)


def _memory(conversation: Conversation) -> None:
    whose = {"subject": conversation.subject}
    for block in conversation.call("agent_block_list", whose)["blocks"]:
        whole = conversation.call("agent_block_show", {**whose, "label": block["label"]})
        echo(f"{block['label']}, version {whole['version']}", bold=True)
        echo_text(f"{whole['value'].strip() or '(empty)'}\n")
