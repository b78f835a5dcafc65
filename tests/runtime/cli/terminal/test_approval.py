"""A person sees exactly what they approve: all arguments, and nothing that controls the terminal."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.cli.terminal.approval import print_approval

WAITS: dict[str, Any] = {
    "id": "01a2",
    "agent": "helper",
    "tool": "github.merge_pull_request",
    "arguments": {"number": 5, "title": "Fine\x1b[2J\u202e\nline"},
    "state": "awaiting",
    "cannot_run": None,
    "created_at": "2026-11-26T07:00:00Z",
    "deadline": "2026-11-27T07:00:00Z",
    "decided_at": None,
    "decided_by": None,
    "reason": None,
    "decided_via": None,
    "server": "github",
    "user": "owner",
    "kind": "keyed",
    "thread_id": "01a3",
    "subject": "c-2",
    "webhook": "tickets",
    "delivery_id": "01a4",
    "message": "Please merge\n\x1b[2Jit.",
}


def test_all_arguments_are_shown_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_approval(WAITS)
    said = capsys.readouterr().out
    assert '"number": 5' in said
    assert "Fine\\u001b[2J\\u202e\\nline" in said
    assert "if nobody answers" in said
    assert max(map(len, said.splitlines())) <= 80
    assert "\x1b" not in said.replace("\x1b[1m", "").replace("\x1b[0m", "")


def test_long_arguments_are_bounded_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_approval({**WAITS, "arguments": {"text": "x" * 100_000}})
    said = capsys.readouterr().out
    assert len(said) < 21_000
    assert "more characters: `symbi agent pending --json` shows all of them" in said


def test_what_cannot_be_read_is_not_shown_as_something_else(capsys: pytest.CaptureFixture[str]) -> None:
    print_approval({**WAITS, "arguments": None})
    assert "the stored call was changed, and will not be run" in capsys.readouterr().out


def test_a_call_that_cannot_run_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    print_approval({**WAITS, "cannot_run": "the agent helper is not in the program"})
    assert "it cannot run: the agent helper is not in the program\n" in capsys.readouterr().out


def test_a_decided_call_says_who_decided_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    decided = {"state": "denied", "decided_at": WAITS["created_at"], "decided_by": "ada", "reason": "No\x1b!"}
    decided["decided_via"] = "http"
    print_approval({**WAITS, **decided})
    said = capsys.readouterr().out
    assert "github.merge_pull_request, denied" in said
    assert "by ada over http: No\ufffd!" in said
    assert "if nobody answers" not in said
    # The database says so, and no sealed decision does.
    print_approval({**WAITS, **decided, "state": "approved", "decided_via": None})
    said = capsys.readouterr().out
    assert "  nobody approved it: the row was changed" in said
    assert "ada" not in said


def test_where_a_call_came_from_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    print_approval(WAITS)
    said = capsys.readouterr().out
    assert "of the server github\n" in said
    for line in ("user     owner", "subject  c-2", "thread   01a3 keyed", "webhook  tickets, delivery 01a4"):
        assert f"  {line}\n" in said
    assert "  message  Please merge \ufffd[2Jit.\n" in said
