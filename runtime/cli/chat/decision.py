"""A person decides in a chat about a call that waits for approval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from runtime.cli.chat.conversation import Conversation
from runtime.cli.client import call_daemon
from runtime.cli.terminal.approval import print_approval
from runtime.cli.terminal.screen import echo, read_line
from runtime.errors import SymbiontError

_QUESTION: Final = "Run this call? (y)es, (n)o, (a)lways, (l)ater: "
_ANSWERS: Final = {"y": "y", "yes": "y", "n": "n", "no": "n", "a": "a", "always": "a", "l": "l", "later": "l"}


class DecisionPostponed(SymbiontError):  # noqa: N818 - it says what became of the turn
    """The person decides later: the turn waits, and the chat goes on."""

    def __init__(self, approval_id: str) -> None:
        super().__init__(
            "the call waits for your decision", hint=f"`/pending` in a chat, or `symbi agent approve {approval_id}`"
        )


def decide(conversation: Conversation, approval: Mapping[str, Any]) -> None:
    """Show a call, ask, and store the decision; if another one was made meanwhile, that is shown. Raises
    DecisionPostponed."""
    print_approval(approval, err=True)
    match _answer():
        case "y":
            _store(conversation, "approval_approve", approval)
        case "a":
            _store(conversation, "approval_approve", approval, always=True)
        case "n":
            reason = _read_reply("Why? (the agent reads it; empty for no reason): ")
            _store(conversation, "approval_deny", approval, reason=reason or None)
        case _:
            raise DecisionPostponed(approval["id"])


def _answer() -> str:
    """Return one of the answers; an empty line is none, and the end of the input decides later."""
    while True:
        try:
            answer = _ANSWERS.get(_read_reply(_QUESTION).lower())
        except EOFError:
            echo()
            return "l"
        if answer is not None:
            return answer
        echo("answer y, n, a or l", fg="yellow", err=True)


def _read_reply(question: str) -> str:
    try:
        return read_line(question).strip()
    except UnicodeDecodeError:
        return ""


def _store(conversation: Conversation, operation: str, approval: Mapping[str, Any], **given: Any) -> None:
    try:
        call_daemon(conversation.root, operation, {"approval_id": approval["id"], **given})
    except SymbiontError as error:
        # It was decided elsewhere, or its time is over; the run goes on.
        echo(error.line(), fg="yellow", err=True)
