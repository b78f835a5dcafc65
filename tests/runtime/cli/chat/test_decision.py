"""A person decides in a chat about a call that waits, or decides later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.cli.chat import decision
from runtime.cli.chat.conversation import Conversation
from runtime.cli.chat.decision import DecisionPostponed, decide
from runtime.daemon.process.root import Root
from runtime.errors import Conflict
from tests.runtime.cli.terminal.test_approval import WAITS

CHAT = Conversation(Root(Path()), "helper", None, "m", "t", None, 0, ())

Deciding = Callable[..., list[tuple[str, dict[str, Any]]]]


@pytest.fixture
def deciding(monkeypatch: pytest.MonkeyPatch) -> Deciding:
    """Return a function that returns what is stored after a person typed these lines."""
    stored: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(decision, "call_daemon", lambda _root, name, given: stored.append((name, given)))

    def typed(*lines: str | Exception) -> list[tuple[str, dict[str, Any]]]:
        left = iter(lines)

        def read(_prompt: str) -> str:
            line = next(left)
            if isinstance(line, Exception):
                raise line
            return line

        monkeypatch.setattr("builtins.input", read)
        decide(CHAT, WAITS)
        return stored

    return typed


@pytest.mark.parametrize(
    ("lines", "name", "more"),
    [
        (("y",), "approval_approve", {}),
        (("", "what?", "YES"), "approval_approve", {}),
        (("a",), "approval_approve", {"always": True}),
        (("n", "Not now."), "approval_deny", {"reason": "Not now."}),
        (("no", ""), "approval_deny", {"reason": None}),
    ],
)
def test_an_answer_is_stored_and_an_empty_line_is_none(
    deciding: Deciding, lines: tuple[str, ...], name: str, more: dict[str, Any]
) -> None:
    assert deciding(*lines) == [(name, {"approval_id": WAITS["id"], **more})]


@pytest.mark.parametrize("lines", [("l",), (EOFError(),)])
def test_a_person_decides_later(deciding: Deciding, lines: tuple[str | Exception, ...]) -> None:
    with pytest.raises(DecisionPostponed, match="waits for your decision") as left:
        deciding(*lines)
    assert left.value.hint == f"`/pending` in a chat, or `symbi agent approve {WAITS['id']}`"


def test_a_decision_that_was_made_elsewhere_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object) -> None:
        raise Conflict("this call was denied already")

    monkeypatch.setattr(decision, "call_daemon", refused)
    monkeypatch.setattr("builtins.input", lambda _: "y")
    decide(CHAT, WAITS)
    assert "this call was denied already" in capsys.readouterr().err
