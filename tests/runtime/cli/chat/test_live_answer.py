"""An answer on a terminal while it arrives: each part once, in its order, on lines of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from runtime.cli.chat.conversation import show_notices
from runtime.cli.chat.printed_answer import LiveAnswer, print_answer, print_answer_json

CALL = {
    "event": "agent.tool",
    "state": "started",
    "name": "memory_append",
    "arguments": {"label": "human", "content": "Name: Ada"},
}
FAILED = {"event": "agent.tool", "state": "error", "name": "memory_append", "detail": "no block"}
SHOWN_CALL = "→ memory_append(label: human, content: Name: Ada)\n"
REPLY = {"event": "agent.delta", "step": 1, "message": 0, "text": ""}
"""A reply begins."""


def text(part: str, message: int = 0) -> Mapping[str, Any]:
    return {**REPLY, "message": message, "text": part}


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


def test_a_person_reads_the_notes_of_an_answer(shown: Any) -> None:
    note = "In the context the block human is shortened: 11,776 of 12,911 characters have room."
    assert shown(REPLY, text("Hello."), whole={**answer("Hello."), "notes": [note]}) == f"Hello.\n{note}\n"


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


def test_a_message_that_was_shown_in_parts_is_not_shown_again(shown: Any) -> None:
    message = {"event": "agent.message", "step": 1, "messages": ["I note it.", "And more."]}
    said = shown(text("I note it."), message, CALL, FAILED, whole=answer("I note it.", "And more.", "Hello."))
    assert said == f"I note it.\nAnd more.\n{SHOWN_CALL}  memory_append: no block\nHello.\n"


def test_the_call_that_ends_a_turn_is_not_shown(shown: Any, capfd: pytest.CaptureFixture[str]) -> None:
    done: dict[str, Any] = {"name": "done", "arguments": {}, "status": None, "output": None}
    assert shown({**CALL, **done}, whole=answer("Bye.", calls=[done])) == "Bye.\n"
    print_answer(answer("Bye.", calls=[done], ended="done"))
    assert capfd.readouterr() == ("Bye.\n", "")


def test_what_a_service_says_does_not_control_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    show_notices({"event": "agent.note", "detail": "the model is away: 503 \x1b[2J\ngone"})
    assert capfd.readouterr().err == "the model is away: 503 \ufffd[2J gone\n"
