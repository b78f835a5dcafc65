"""Senders' text is shown as text: it never starts a line of the log or controls a terminal or a browser."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.lanes import LONG
from tests.runtime.attacks.wire import exchange, github_headers, request, statuses
from tests.runtime.daemon.running import BIN, Daemon, environment, until
from tests.runtime.daemon.terminal import terminal
from tests.runtime.daemon.v1 import ask, make_webhook

pytestmark = LONG

# The one-byte CSI is U+009B, which a header may contain as UTF-8; a body may contain ESC, CR and LF.
C1 = "\u009b31m\u009b2J"
UNSEEN = "\u202egpj.exe\u2066\u200b\ufeff"
IN_JSON = f"\x1b[31m\x1b]0;title\x07\r\nforged{C1}{UNSEEN}\x00\u2028\x85"


def speaks(text: str) -> list[str]:
    """Return the control characters in `text` that a terminal would interpret, except our colours and line ends."""
    for ours in ("\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[1;31m", "\x1b[1;32m"):
        text = text.replace(ours, "")
    return sorted({each for each in text if not each.isprintable() and each not in "\r\n\t"})


@pytest.fixture(scope="module")
def written(shared_daemon: Daemon) -> str:
    """Send requests with control sequences in every part; return the id of an accepted delivery."""
    body = json.dumps({"id": "evt_1", "type": "thing", "title": IN_JSON, "action": IN_JSON}).encode()
    hostile = [("User-Agent", f"agent {C1}{UNSEEN}"), ("Content-Type", f"application/json; {C1}")]
    signed = [pair for pair in github_headers(body) if pair[0] != "X-GitHub-Event"]
    accepted = shared_daemon.request("POST", "/hooks/github", body, [*signed, ("X-GitHub-Event", "push"), *hostile])
    assert accepted.status == 202
    for field in ("type", "id"):
        evil = json.dumps({"id": "evt_2", "type": "t", field: IN_JSON}).encode()
        assert shared_daemon.request("POST", "/hooks/open", evil, hostile).status == 400
    for name in ("X-GitHub-Event", "X-GitHub-Delivery"):
        assert shared_daemon.request("POST", "/hooks/github", body, [*signed, (name, f"push{C1}")]).status in {400, 401}
    refused = [("X-Hub-Signature-256", f"sha256={C1}"), ("X-GitHub-Event", UNSEEN), *hostile]
    assert shared_daemon.request("POST", "/hooks/github", body, refused).status == 401
    for raw in (b"\x1b[31m", b"\r\nX-Injected: 1", b"\n", b"\0", b"\x7f"):
        sent = request("/hooks/github", body, {"User-Agent": "@"}).replace(b"@", b"a" + raw + b"b")
        answer = exchange(shared_daemon, sent)
        assert statuses(answer) in ([400], [401])
        assert b"X-Injected" not in answer
    for path in (f"/{C1}".encode(), b"/%1b%5b31m", b"/%0d%0aX-Injected:1", f"/v1/{UNSEEN}".encode()):
        assert statuses(exchange(shared_daemon, request(path, body))) in ([400], [404])
        exchange(shared_daemon, request(path, body, {"Connection": "close"}), "admin")
    delivery = str(accepted.json()["delivery_id"])

    def run() -> bool:
        rows = shared_daemon.attempts("--limit", "200")
        return any(row["delivery_id"] == delivery and row["run_state"] == "done" for row in rows)

    until(run)
    return delivery


def test_no_line_of_the_log_is_the_senders(daemon: Daemon, written: str) -> None:
    text = daemon.log.read_bytes().decode()
    assert speaks(text) == []
    assert not any(line.startswith(("forged", "X-Injected")) for line in text.splitlines())


@pytest.mark.parametrize(
    "command",
    [
        *(("webhook", "logs"), ("webhook", "deliveries"), ("webhook", "show", "@"), ("webhook", "list")),
        *(("memory", "inspect", "reviewer"), ("memory", "list"), ("memory", "search", "reviewer", "forged action")),
        *(("memory", "stats"), ("memory", "export"), ("token", "list"), ("user", "list")),
    ],
    ids=" ".join,
)
def test_no_command_hands_escapes_to_the_terminal(daemon: Daemon, written: str, command: tuple[str, ...]) -> None:
    shown = terminal(daemon, *(written if each == "@" else each for each in command))
    assert len(shown) > 20
    assert speaks(shown) == []


def test_following_the_log_hands_no_escapes_to_the_terminal(daemon: Daemon, written: str) -> None:
    shown = terminal(daemon, "webhook", "logs", "--follow", "--limit", "1000", shown="refused")
    assert "refused" in shown
    assert speaks(shown) == []


def test_json_holds_what_was_sent_and_is_one_document(daemon: Daemon, written: str) -> None:
    done = daemon.symbi("webhook", "logs", "--json", "--limit", "200")
    rows = json.loads(done.stdout)["attempts"]
    assert any(C1 in value for row in rows for _, value in row["headers"])
    assert "\x1b" not in done.stdout


def test_what_an_agent_remembers_has_no_line_of_the_senders(daemon: Daemon, written: str) -> None:
    for file in (daemon.root / "data/agents").rglob("*.md"):
        text = file.read_text()
        assert "\nforged" not in text
        assert "\x1b" not in text
        assert "\u009b" not in text


@pytest.mark.parametrize(
    "title",
    [
        *(
            "a\0b",
            "a\nb",
            "a\r\nX: b",
            "\x1b[31mred",
            "a\u009bb",
            "a\u202eb",
            "a\u2066b",
            "a\u2028b",
            "\u200b",
            "\ufeff",
        ),
        *(
            "ad\u00admin",
            "ad\u200bmin",
            "ad\u2060min",
            "\u200fadmin",
            "\u061cadmin",
            "\u3164",
            "\u115f",
            "a\ufff9b",
            " a",
        ),
        *("a ", "", "x" * 201),
    ],
    ids=ascii,
)
def test_a_title_is_what_it_looks_like(daemon: Daemon, token: str, title: str) -> None:
    raw = json.dumps({"title": title, "agent": "reviewer"}).encode()
    answer = ask(daemon, token, "POST", "/v1/webhooks", raw)
    assert answer.status in {400, 422}, answer
    made = make_webhook(daemon, token)
    answer = ask(daemon, token, "PATCH", f"/v1/webhooks/{made.id}", json.dumps({"title": title}).encode())
    assert answer.status in {400, 422}, answer
    assert ask(daemon, token, "DELETE", f"/v1/webhooks/{made.id}").status == 204


def test_half_a_character_in_a_title_is_shown_as_one_that_is_not_known(daemon: Daemon, token: str) -> None:
    made = make_webhook(daemon, token)
    for title, shown in (("\ud800", "\ufffd"), ("a\udfffb", "a\ufffdb")):
        answer = ask(daemon, token, "PATCH", f"/v1/webhooks/{made.id}", json.dumps({"title": title}).encode())
        assert (answer.status, answer.json()["title"]) == (200, shown)
    assert ask(daemon, token, "DELETE", f"/v1/webhooks/{made.id}").status == 204


def test_titles_of_every_language_are_taken(daemon: Daemon, token: str) -> None:
    for title in ("Évening build", "ночная сборка", "夜間ビルド", "می‌خواهم", "क्‍ष", "👩‍💻 build"):
        made = make_webhook(daemon, token, title)
        assert ask(daemon, token, "DELETE", f"/v1/webhooks/{made.id}").status == 204


@pytest.mark.parametrize(
    "agent",
    [
        *(
            "reviewer\0",
            "r\u0435viewer",
            "\uff52eviewer",
            "Reviewer",
            "reviewer ",
            " reviewer",
            "../reviewer",
            "reviewer/",
        ),
        *("%72eviewer", "reviewer\u200b", "r\u00e9viewer", "reviewer\n", "*", "", "x" * 65, "\ud800"),
    ],
    ids=ascii,
)
def test_an_agents_name_is_that_name_and_no_other(daemon: Daemon, token: str, agent: str) -> None:
    raw = json.dumps({"title": "x", "agent": agent}).encode()
    answer = ask(daemon, token, "POST", "/v1/webhooks", raw)
    assert answer.status in {400, 422}, answer
    assert not any(ord(each) < 32 for each in answer.body.decode())


def test_what_a_command_is_given_is_shown_as_text(daemon: Daemon) -> None:
    for arguments in (
        ("webhook", "logs", "--name", "\x1b[31m\u009b2J"),
        ("webhook", "show", "\x1b[31m"),
        ("memory", "inspect", "\x1b[31m\u202e"),
        ("webhook", "test", "\x1b[31m", "--payload", "{}"),
        ("token", "revoke", "\x1b[31m"),
        ("user", "add", "\x1b[31m"),
        ("webhook", "logs", "--name", os.fsdecode(b"\xff\xfe")),
    ):
        done = subprocess.run(
            [BIN / "symbi", *arguments],
            cwd=daemon.root,
            env=environment(),
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2, done
        assert b"Traceback" not in done.stderr
        assert speaks(done.stdout.decode() + done.stderr.decode()) == []
