"""Nothing of a model, a sender or a server controls the terminal, from whichever field of an event, a listing or an
error: all that commands print goes through one module."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import click
import pyte
import pytest

import runtime.cli
from runtime.cli import client, main, symbi
from runtime.cli.chat.printed_answer import LiveAnswer, print_answer
from runtime.cli.terminal import screen
from runtime.cli.terminal.approval import print_approval
from runtime.cli.terminal.output import WEBHOOKS
from runtime.cli.terminal.progress import progress_bar
from runtime.daemon.process.root import Root, make
from runtime.errors import SymbiontError

INVISIBLE = "\u3164\u2800\ufe01\U000e0041\U000e0101\u200b\ufeff\u202e\u2066"
POISON = f"\x1b[2J\x1b[H\x1b]0;title\x07\x1b]52;c;eA==\x07\x08\r\x7f\x00\u009b2J\u0085\u2028{INVISIBLE}\n\tforged"
FOLDER = Path(runtime.cli.__file__).parent
TIME = "2026-11-26T07:00:00+00:00"
Printed = Callable[[], str]

CALL = {"id": POISON, "name": POISON, "arguments": {POISON: POISON, "deep": {POISON: [POISON]}}}
APPROVAL = {
    "id": POISON,
    "agent": POISON,
    "tool": POISON,
    "arguments": CALL["arguments"],
    "state": "denied",
    "cannot_run": POISON,
    "created_at": TIME,
    "deadline": TIME,
    "decided_at": TIME,
    "decided_by": POISON,
    "reason": POISON,
    "run_id": POISON,
    "thread_id": POISON,
    "server": POISON,
    "user": POISON,
    "kind": POISON,
    "subject": POISON,
    "webhook": POISON,
    "delivery_id": POISON,
    "message": POISON,
    "decided_via": POISON,
}
EVENTS: list[dict[str, Any]] = [
    {"event": "agent.delta", "message": 0, "text": POISON},
    {"event": "agent.message", "messages": [POISON]},
    {"event": "agent.tool", "state": "started", **CALL},
    {"event": "agent.tool", "state": "error", "name": POISON, "detail": POISON},
    {"event": "agent.note", "detail": POISON},
]
ANSWER = {
    "messages": [POISON],
    "tool_calls": [{**CALL, "status": "error", "output": POISON}],
    "ended": POISON,
    "notes": [POISON],
    "error": POISON,
    "run": POISON,
}


class Pipe(StringIO):
    encoding = "utf-8"


class Terminal(Pipe):
    def isatty(self) -> bool:
        return True


@contextmanager
def terminal() -> Iterator[Printed]:
    """Yield what returns everything that was printed; both outputs are one terminal meanwhile."""
    shown = Terminal()
    with redirect_stdout(shown), redirect_stderr(shown):
        yield shown.getvalue


def harmful(text: str) -> list[str]:
    """Return the characters that a terminal obeys or does not show, but for our colours, bars and line ends."""
    plain = re.sub(r"\x1b\[[\d;]*m|\r?\x1b\[2K|\r(?=\x1b)|\x1b\[1A\x1b\[2K|\x1b\[\?25[lh]|[\n\t]", "", text)
    return sorted({each for each in plain if not each.isprintable() or each in INVISIBLE})


def begins_lines(text: str) -> bool:
    """Return True if the text that was passed on begins a line."""
    return any(line.startswith("forged") for line in click.unstyle(text).splitlines())


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: str(event["event"]))
def test_no_field_of_an_event_controls_the_terminal(event: Mapping[str, Any]) -> None:
    with terminal() as printed:
        live = LiveAnswer()
        live.show(event)
        live.stop()
    said = printed()
    assert said.strip()
    assert harmful(said) == []
    assert event["event"] in ("agent.delta", "agent.message") or not begins_lines(said)


def test_no_field_of_an_answer_controls_the_terminal() -> None:
    with terminal() as printed:
        print_answer(ANSWER)
        LiveAnswer().end(ANSWER)
    said = printed()
    assert said.count("title") > 5
    assert harmful(said) == []


def test_no_field_of_an_approval_controls_the_terminal() -> None:
    with terminal() as printed:
        for state in ("awaiting", "denied"):
            print_approval({**APPROVAL, "state": state})
    said = printed()
    assert said.count("title") > 10
    assert harmful(said) == []
    assert not begins_lines(said)


def test_the_name_of_an_argument_draws_nothing_over_the_question() -> None:
    """A model that an injection has won calls two tools: the approved one, and one whose argument is a screen."""
    asked = {"id": "01a2", "tool": "pay", "arguments": {"to": "mallory"}, "state": "awaiting", "cannot_run": None}
    false = 'pay\r\n  {\r\n    "to": "ada"\r\n  }\r\n'
    name = f"\x1b[2J\x1b[H{false}\x1b[8;9r\x1b[8;1H" + " " * 640 + "to: ada"
    with terminal() as printed:
        live = LiveAnswer()
        live.show({"event": "agent.tool", "state": "started", "name": "pay", "arguments": {"to": "mallory"}})
        live.show({"event": "agent.tool", "state": "started", "name": "note", "arguments": {name: "x"}})
        print_approval({**APPROVAL, **asked}, err=True)
    emulator = pyte.Screen(80, 24)
    pyte.Stream(emulator).feed(printed().replace("\n", "\r\n"))
    shown = [line.rstrip() for line in emulator.display]
    assert shown[0] == "→ pay(to: mallory)"
    assert '    "to": "mallory"' in shown
    assert '    "to": "ada"' not in shown
    assert not any(line.lstrip().startswith("to: ada") for line in shown)


@pytest.mark.parametrize(
    "error",
    [
        SymbiontError(POISON, hint=POISON),
        OSError(2, POISON, POISON),
        click.ClickException(POISON),
        click.UsageError(POISON),
        click.BadParameter(POISON, param_hint=POISON),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_error_controls_the_terminal(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(symbi, "main", fails)
    with terminal() as printed, pytest.raises(SystemExit):
        main(["user", "list"])
    said = printed()
    assert "title" in said
    assert harmful(said) == []


def test_json_on_a_terminal_is_the_same_document_in_printable_characters() -> None:
    with terminal() as printed:
        screen.echo_json({POISON: [POISON, "Grüße 🙂"]})
    said = printed()
    assert harmful(said) == []
    assert "Grüße 🙂" in said
    assert json.loads(said) == {POISON: [POISON, "Grüße 🙂"]}


def test_a_program_reads_json_and_text_exactly() -> None:
    with redirect_stdout(Pipe(newline="")) as piped:
        screen.echo_json({"text": POISON}, indent=None)
        screen.echo_exact(f"a{POISON}", nl=False)
    assert piped.getvalue() == f"{json.dumps({'text': POISON}, ensure_ascii=False)}\na{click.unstyle(POISON)}"


def test_markdown_makes_no_control_characters() -> None:
    with terminal() as printed:
        screen.echo_markdown(f"# {POISON}\n\n&#27;[2J &#x9b;2J `{POISON}`\n\n| a&#27;c |\n|---|\n| &#8238; |\n")
    said = printed()
    assert "[2J" in said
    assert harmful(said) == []


def test_a_question_and_a_title_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(click, "confirm", lambda question, **_: asked.append(question))
    screen.ask(f"Approve {POISON}?")
    assert harmful(asked[0]) == []
    with terminal() as printed, progress_bar(POISON) as progress:
        progress(POISON, 1, 2)
    said = printed()
    assert "title" in said
    for each in ("\x07", "\u009b", "\u202e", "\x1b[2J"):
        assert each not in said


def test_only_what_style_made_has_colours() -> None:
    with terminal() as printed:
        screen.echo(screen.style("\x1b[1mgood", fg="red"), "\x1b[8mhidden\x1b[0m")
        screen.echo(f"{screen.style('lost', bold=True)}")
    assert printed() == "\x1b[31m\ufffd[1mgood\x1b[0m\ufffd[8mhidden\ufffd[0m\n\ufffd[1mlost\ufffd[0m\n"


LISTINGS = {
    ("webhook", "list"): "webhook_mounts",
    ("webhook", "logs"): "webhook_requests",
    ("webhook", "deliveries"): "delivery_list",
    ("mcp-server", "list"): "mcp_server_list",
    ("mcp-server", "tools", "evil"): "mcp_server_show",
    ("mcp-server", "test", "evil"): "mcp_server_test",
    ("token", "list"): "token_list",
}

DELIVERY = {
    "id": POISON,
    "received": TIME,
    "webhook": POISON,
    "event": POISON,
    "agent": POISON,
    "state": POISON,
    "tries": 1,
    "size": 1,
    "error": POISON,
}
TOKEN = {
    "id": POISON,
    "user": POISON,
    "label": POISON,
    "scopes": [POISON],
    "tools": [POISON],
    "state": POISON,
    "created_at": TIME,
    "expires_at": None,
    "used_at": None,
}
ATTEMPT = {
    "time": TIME,
    "webhook": POISON,
    "verdict": "accepted",
    "status": 202,
    "event": POISON,
    "reason": POISON,
    "count": 1,
    "run_state": POISON,
    "state": POISON,
    "size": 1,
    "source": POISON,
    "delivery_id": POISON,
    "secret": 1,
    "at": 1,
    "key": POISON,
}
MODEL = {"name": POISON, "description": POISON, "parameters": {POISON: {"enum": [POISON]}}}
SERVER = {
    "server": POISON,
    "kind": POISON,
    "state": "connected",
    "says": POISON,
    "problem": POISON,
    "offered": 1,
    "missing_secrets": [POISON],
    "differences": [POISON],
    "refused": [POISON],
    "approved_at": TIME,
    "block": {},
    "login": False,
}
"""Answers of operations that have no schema."""
OTHERS: dict[str, dict[str, Any]] = {
    "webhook_requests": {"attempts": [ATTEMPT], "more": False},
    "webhook_mounts": {"webhooks": [dict.fromkeys((*WEBHOOKS, "title", "user", "mounted", "problem", "name"), POISON)]},
    "delivery_list": {"deliveries": [DELIVERY], "more": False},
    "token_list": {"tokens": [TOKEN]},
    "user_list": {"users": []},
    "mcp_server_list": {"servers": [SERVER]},
    "mcp_server_show": {
        **SERVER,
        "tools": [{"name": POISON, "schema": {"properties": {POISON: {}}}, "model": MODEL}],
        "not_offered": [{"name": POISON, "reason": POISON}, {"name": "", "reason": POISON}],
    },
    "mcp_server_test": {
        "server": POISON,
        "tools": 1,
        "says": POISON,
        "seconds": 1,
        "differences": [POISON],
        "refused": [POISON],
    },
}


def sample_of(schema: Mapping[str, Any]) -> Any:
    """Return a value of a JSON Schema, in which each text that may be any is the poison."""
    if "anyOf" in schema:
        return sample_of(next(each for each in schema["anyOf"] if each.get("type") != "null"))
    if "enum" in schema or "const" in schema:
        return schema.get("enum", [schema.get("const")])[0]
    match schema.get("type"):
        case "object":
            parts = schema.get("properties", {})
            named = {name: TIME if name == "timestamp" else sample_of(each) for name, each in parts.items()}
            more = schema.get("additionalProperties")
            return named or {POISON: sample_of(more) if isinstance(more, dict) else POISON}
        case "array":
            return [sample_of(schema.get("items", {"type": "string"}))]
        case "string":
            return TIME if schema.get("format", "").startswith("date") else POISON
        case "integer" | "number":
            return 1
        case "boolean":
            return True
    return POISON


@pytest.mark.parametrize("arguments", LISTINGS, ids=" ".join)
def test_no_field_of_a_listing_controls_the_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    def answered(_address: str, _identity: str, name: str, *_: object) -> dict[str, Any]:
        return OTHERS[name]

    make(tmp_path, dict(os.environ))
    monkeypatch.setattr(Root, "socket", lambda _root: "/nowhere")
    monkeypatch.setattr(client, "_ask", answered)
    with terminal() as printed, pytest.raises(SystemExit) as ended:
        main([*arguments, "--root", str(tmp_path)])
    said = printed()
    assert "title" in said, said
    assert harmful(said) == []
    assert ended.value.code == 0


def test_commands_print_through_one_module() -> None:
    """So no command can forget it."""
    found = [f"{place}: {what}" for place, what in _prints()]
    assert found == []


def _prints() -> Iterator[tuple[str, str]]:
    printing = {"echo", "secho", "style", "confirm", "prompt", "progressbar", "echo_via_pager", "pause"}
    for path in sorted(FOLDER.rglob("*.py")):
        if path == FOLDER / "terminal/screen.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            place = f"{path.relative_to(FOLDER)}:{getattr(node, 'lineno', 0)}"
            match node:
                case ast.Attribute(value=ast.Name(id="click"), attr=name) if name in printing:
                    yield place, f"click.{name}"
                case ast.Name(id="print" | "input" as name):
                    yield place, name
                case ast.Attribute(
                    value=ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "stderr"), attr=name
                ) if name not in {"isatty", "flush", "fileno"}:
                    yield place, f"a stream's {name}"
                case ast.ImportFrom(module="rich.console" | "rich.markdown") if path.stem != "progress":
                    yield place, "rich"
                case ast.Constant(value=str(text)) if "\x1b" in text:
                    yield place, "an escape"
