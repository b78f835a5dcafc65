"""An answer of an agent: as text, as JSON, and while it arrives."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from runtime.cli.chat.conversation import Conversation, Event, show_notices
from runtime.cli.chat.decision import decide
from runtime.cli.terminal.screen import echo, echo_exact, echo_json, echo_text, one_line
from runtime.errors import SymbiontError
from runtime.threads.events import run_event

ANSWERED = ("answered", "done")
_FIELDS = ("run", "thread", "messages", "tool_calls", "usage", "ended", "state", "error", "notes")
_LONGEST = 200
_LONGEST_CALL = 400
_DONE = "done"
"""The name of the call that ends a turn, and does nothing else."""


def exit_code(answer: Mapping[str, Any]) -> int:
    """Return the exit code of a question with this answer."""
    return 0 if answer["ended"] in ANSWERED else 1


def print_answer_json(answer: Mapping[str, Any]) -> None:
    """Print an answer for a program."""
    echo_json({name: answer[name] for name in _FIELDS})
    print_end(answer)


def print_answer(answer: Mapping[str, Any]) -> None:
    """Print the messages of an answer on standard output, and on standard error what was called and why it failed."""
    for call in answer["tool_calls"]:
        show_call(call["name"], call["arguments"])
        if call["status"] not in ("ok", None):
            show_failure(call["name"], call["output"])
    echo_exact("\n\n".join(answer["messages"]), nl=bool(answer["messages"]))
    print_end(answer)


def print_end(answer: Mapping[str, Any]) -> None:
    """Print on standard error the notes of a turn, and how it ended if it was not answered."""
    if answer["ended"] is None:
        why = answer["error"] or "the model is away"
        echo(f"no answer yet: {why}", fg="red", err=True)
        echo(f"the message is kept and will be answered: run {answer['run']}", err=True)
        return
    answered = answer["ended"] in ANSWERED
    why = [] if answered else [answer["error"] or f"the turn ended: {answer['ended']}"]
    for note in answer["notes"] or why:
        echo(note, fg="yellow" if answered else "red", err=True)


def ask_live(conversation: Conversation, message: str, *, patience: int = 0) -> dict[str, Any]:
    """Send a message, show its answer while it arrives, and return it; see `Conversation.ask`. A person on the terminal
    is asked about calls that wait for approval. Raises DecisionPostponed."""
    return _show_live(conversation, partial(conversation.ask, message, patience=patience))


def follow_live(conversation: Conversation, run: str) -> dict[str, Any]:
    """Show how a run goes on, as `ask_live` does."""
    return _show_live(conversation, partial(conversation.follow, run))


def _show_live(conversation: Conversation, ask: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    decides = sys.stdin.isatty()
    live = LiveAnswer(conversation if decides else None)
    try:
        answer = ask(show=live.show, decides=decides)
    except SymbiontError:
        live.stop()
        raise
    live.end(answer)
    return answer


class LiveAnswer:
    """Shows an answer on a terminal while it arrives."""

    def __init__(self, conversation: Conversation | None = None) -> None:
        """`conversation`: in which a person decides about calls that wait for approval; None: nobody does."""
        self._conversation = conversation
        self._texts: list[str] = []
        self._message: int | None = None

    def show(self, event: Event) -> None:
        """Show an event of a run, see `runtime.threads.events.run_event`."""
        if event["event"] == run_event.DELTA and event["text"]:
            self._text(event["message"], event["text"])
            return
        self.stop()
        match event["event"], event.get("state"):
            case run_event.MESSAGE, _:
                for number, text in enumerate(event["messages"]):
                    if text.strip() not in self._texts:
                        self._text(number, text)
                        self.stop()
            case run_event.TOOL, run_event.STARTED:
                show_call(event["name"], event["arguments"])
            case run_event.TOOL, "error" | "unknown":
                show_failure(event["name"], event["detail"])
            case run_event.CONFIRM, "awaiting" if self._conversation is not None:
                approval = self._conversation.approval(event["approval"])
                # Nobody decided meanwhile.
                if approval["state"] == "awaiting":
                    decide(self._conversation, approval)
            case _:
                show_notices(event)

    def stop(self) -> None:
        """End the line of the message that is being shown, if there is one."""
        if self._message is not None:
            self._message = None
            self._texts[-1] = self._texts[-1].strip()
            echo()

    def end(self, answer: Mapping[str, Any]) -> None:
        """Show what of the whole answer was not shown yet, and how it ended."""
        self.stop()
        shown = list(self._texts)
        for text in answer["messages"]:
            if text.strip() in shown:
                shown.remove(text.strip())
            else:
                echo_text(text)
        print_end(answer)

    def _text(self, message: int, text: str) -> None:
        if message != self._message:
            self.stop()
            self._texts.append("")
            self._message = message
        self._texts[-1] += text
        echo_text(text, nl=False)
        sys.stdout.flush()


def show_call(name: str, arguments: Mapping[str, Any]) -> None:
    """Show a tool call in one line on standard error; nothing of the call that ends a turn."""
    if name == _DONE:
        return
    given = _short(", ".join(f"{_short(key)}: {_short(value)}" for key, value in arguments.items()), _LONGEST_CALL)
    echo(f"→ {_short(name)}({given})", dim=True, err=True)


def show_failure(name: str, text: str) -> None:
    """Show the output of a call that failed."""
    echo(f"  {_short(name)}: {_short(text)}", fg="red", err=True)


def _short(value: object, longest: int = _LONGEST) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # Without runs of spaces, which would reach a line of the terminal of their choice.
    text = " ".join(one_line(text[: 10 * longest]).split())
    return text if len(text) <= longest else f"{text[:longest]}…"
