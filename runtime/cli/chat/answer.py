"""An answer of an agent: as text, as JSON, and while it arrives."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import click

from runtime.cli.chat.conversation import Event, show_notices
from runtime.cli.terminal.output import one_line, print_json, printable

ANSWERED = ("answered", "done")
_FIELDS = ("run", "thread", "messages", "tool_calls", "usage", "ended")
_LONGEST = 200


def exit_code(answer: Mapping[str, Any]) -> int:
    """Return the exit code of a question with this answer."""
    return 0 if answer["ended"] in ANSWERED else 1


def print_answer_json(answer: Mapping[str, Any]) -> None:
    """Print an answer for a program."""
    print_json({name: answer[name] for name in _FIELDS})
    print_end(answer)


def print_answer(answer: Mapping[str, Any]) -> None:
    """Print the messages of an answer on standard output, and on standard error what was called and why it failed."""
    for call in answer["tool_calls"]:
        show_call(call["name"], call["arguments"])
        if call["status"] not in ("ok", None):
            show_failed(call["name"], call["output"])
    click.echo("\n\n".join(as_read(text) for text in answer["messages"]), nl=bool(answer["messages"]))
    print_end(answer)


def print_end(answer: Mapping[str, Any]) -> None:
    """Print on standard error how a turn ended that was not answered."""
    if answer["ended"] in ANSWERED:
        return
    if answer["ended"] is None:
        why = answer["error"] or "the model is away"
        click.secho(printable(f"no answer yet: {why}"), fg="red", err=True)
        click.echo(f"the message is kept and will be answered: run {answer['run']}", err=True)
        return
    for note in answer["notes"] or [answer["error"] or f"the turn ended: {answer['ended']}"]:
        click.secho(printable(note), fg="red", err=True)


class LiveAnswer:
    """Shows an answer on a terminal while it arrives."""

    def __init__(self) -> None:
        self._shown: list[str] = []
        self._message: int | None = None

    def show(self, event: Event) -> None:
        """Show an event, see `runtime.agents.loop.events`."""
        match event["event"]:
            case "text":
                self._text(event["message"], event["text"])
            case "message":
                self._end_message()
                self._text(0, event["text"])
                self._end_message()
            case "call":
                self._end_message()
                show_call(event["name"], event["arguments"])
            case "output" if event["status"] != "ok":
                show_failed(event["name"], event["text"])
            case "compacted":
                click.secho(f"summarized {event['messages']} earlier messages", dim=True, err=True)
            case _:
                show_notices(event)

    def end(self, answer: Mapping[str, Any]) -> None:
        """Show what of the whole answer was not shown yet, and how it ended."""
        self._end_message()
        shown = list(self._shown)
        for text in answer["messages"]:
            if text.strip() in shown:
                shown.remove(text.strip())
            else:
                click.echo(printable(text))
        print_end(answer)

    def _text(self, message: int, text: str) -> None:
        if message != self._message:
            self._end_message()
            self._shown.append("")
            self._message = message
        self._shown[-1] += text
        click.echo(printable(text), nl=False)
        sys.stdout.flush()

    def _end_message(self) -> None:
        if self._message is not None:
            self._message = None
            self._shown[-1] = self._shown[-1].strip()
            click.echo()


def show_call(name: str, arguments: Mapping[str, Any]) -> None:
    """Show a tool call in one line on standard error."""
    given = ", ".join(f"{key}: {_short(value)}" for key, value in arguments.items())
    click.secho(f"→ {printable(name)}({given})", dim=True, err=True)


def show_failed(name: str, text: str) -> None:
    """Show the output of a call that failed."""
    click.secho(f"  {printable(name)}: {_short(text)}", fg="red", err=True)


def as_read(text: str) -> str:
    """Return the exact text for a program, and a printable one for a terminal."""
    return printable(text) if sys.stdout.isatty() else text


def _short(value: object) -> str:
    text = one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
