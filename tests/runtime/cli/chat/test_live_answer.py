"""An answer on a terminal while it arrives: each part once, in its order, on lines of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from runtime.cli.chat.answer import LiveAnswer, print_answer, print_answer_json
from runtime.cli.chat.conversation import show_notices

CALL = {"event": "call", "id": "1", "name": "memory_append", "arguments": {"label": "human", "content": "Name: Ada"}}
FAILED = {"event": "output", "id": "1", "name": "memory_append", "status": "error", "text": "no block"}
SHOWN_CALL = "→ memory_append(label: human, content: Name: Ada)\n"
REPLY = {"event": "reply"}


def text(part: str, message: int = 0) -> Mapping[str, Any]:
    return {"event": "text", "message": message, "text": part}


def answer(*messages: str, calls: Sequence[Mapping[str, Any]] = (), ended: str = "answered") -> Mapping[str, Any]:
    return {"messages": messages, "tool_calls": calls, "ended": ended, "notes": [], "error": None, "run": "r"}


@pytest.fixture
def shown(capfd: pytest.CaptureFixture[str]) -> Any:
    """Show events and the whole answer, and return both outputs together as text."""

    def show(*events: Mapping[str, Any], whole: Mapping[str, Any]) -> str:
        live = LiveAnswer()
        outputs = []
        for event in events:
            live.show(event)
            outputs.append("".join(capfd.readouterr()))
        live.end(whole)
        outputs.append("".join(capfd.readouterr()))
        return "".join(outputs)

    return show


def test_an_answer_for_a_program_says_why_the_run_waits(capsys: pytest.CaptureFixture[str]) -> None:
    why = "a call of merge waits for the approval of a person"
    rest: Mapping[str, Any] = {"ended": None, "state": "awaiting", "error": why, "thread": "t", "usage": {}}
    print_answer_json({**answer(), **rest})
    printed = json.loads(capsys.readouterr().out)
    assert (printed["ended"], printed["state"], printed["error"], printed["notes"]) == (None, "awaiting", why, [])


def test_parts_of_a_message_are_one_line_and_shown_once(shown: Any) -> None:
    assert shown(REPLY, text("Hel"), text("lo."), whole=answer("Hello.")) == "Hello.\n"
    assert shown(REPLY, text("One."), text("Two.", 1), whole=answer("One.", "Two.")) == "One.\nTwo.\n"


def test_a_message_that_did_not_arrive_in_parts_is_shown_at_the_end(shown: Any) -> None:
    assert shown(REPLY, whole=answer("Hello.")) == "Hello.\n"


def test_a_reply_that_is_asked_for_again_begins_a_new_line(shown: Any) -> None:
    assert shown(REPLY, text("Hel"), REPLY, text("Hello."), whole=answer("Hello.")) == "Hel\nHello.\n"


def test_a_call_that_was_not_run_has_a_line_of_its_own(shown: Any) -> None:
    said = shown(REPLY, text("I note it."), FAILED, whole=answer("I note it."))
    assert said == "I note it.\n  memory_append: no block\n"


def test_what_is_told_again_after_a_restart_is_not_shown_again(shown: Any) -> None:
    message = {"event": "message", "text": "I note it."}
    said = shown(
        text("I note it."), CALL, {"event": "gone"}, message, CALL, FAILED, whole=answer("I note it.", "Hello.")
    )
    gone = "the daemon stopped; the answer goes on when it runs again\n"
    assert said == f"I note it.\n{SHOWN_CALL}{gone}  memory_append: no block\nHello.\n"


def test_the_call_that_ends_a_turn_is_not_shown(shown: Any, capfd: pytest.CaptureFixture[str]) -> None:
    done: dict[str, Any] = {"name": "done", "arguments": {}, "status": None, "output": None}
    assert shown({"event": "call", "id": "2", **done}, whole=answer("Bye.", calls=[done])) == "Bye.\n"
    print_answer(answer("Bye.", calls=[done], ended="done"))
    assert capfd.readouterr() == ("Bye.\n", "")


def test_what_a_service_says_does_not_control_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    show_notices({"event": "away", "error": "503 \x1b[2J\ngone"})
    assert capfd.readouterr().err == "the model is away; the message waits for it: 503 \ufffd[2J gone\n"
