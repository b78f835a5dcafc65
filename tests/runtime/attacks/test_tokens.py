"""`/v1` accepts a valid token only in the Authorization header, and returns only that user's data."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.identity.tokens import make_token as some_token
from tests.runtime.attacks.wire import exchange, request, statuses
from tests.runtime.daemon.running import Daemon, running, write_program
from tests.runtime.daemon.v1 import ask, make_token, make_webhook

PATHS = ("/v1/webhooks", "/v1/openapi.json", "/v1/nothing", "/v1", "/v1/webhooks/5f3c1f0e-7c7b-4a55-9a3e-0d6a5f0f7a11")


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, str, str]]:
    """A daemon and the tokens of two users."""
    root = Path(tmp_path_factory.mktemp("tokens"))
    write_program(root)
    with running(root, "program") as daemon:
        for name in ("ada", "bob"):
            assert daemon.symbi("user", "add", name).returncode == 0
        ada, bob = (make_token(daemon, "--user", name, "--scope", "write") for name in ("ada", "bob"))
        yield daemon, ada, bob


def test_a_token_anywhere_but_in_its_header_is_not_looked_at(users: tuple[Daemon, str, str]) -> None:
    daemon, ada, _ = users
    for path in PATHS:
        for query in ("access_token", "token", "bearer", "authorization", "Authorization", "api_key"):
            assert ask(daemon, None, "GET", f"{path}?{query}={ada}").status == 401
            assert ask(daemon, None, "GET", f"{path}?{query}=Bearer%20{ada}").status == 401
        for header in (
            *(("X-Authorization", f"Bearer {ada}"), ("X-Forwarded-Authorization", f"Bearer {ada}"), ("X-Api-Key", ada)),
            *(("Proxy-Authorization", f"Bearer {ada}"), ("Cookie", f"token={ada}; access_token={ada}")),
            *(("X-Auth-Token", ada), ("X-Forwarded-User", "ada"), ("X-Remote-User", "ada"), ("X-User", "ada")),
        ):
            assert ask(daemon, None, "GET", path, headers=[header]).status == 401
    body = f"access_token={ada}&title=x&agent=reviewer".encode()
    form = [("Content-Type", "application/x-www-form-urlencoded")]
    assert daemon.request("POST", "/v1/webhooks", body, form, to="admin").status == 401
    assert ask(daemon, ada, "GET", "/v1/webhooks").status == 200


def test_a_cursor_shows_nothing_of_another_user(users: tuple[Daemon, str, str]) -> None:
    daemon, ada, bob = users
    theirs = [make_webhook(daemon, ada, f"ada's {number}") for number in range(3)]
    mine = make_webhook(daemon, bob, "bob's")
    for made in theirs:
        for number in range(3):
            assert made.post(b'{"n":%d}' % number).status == 202
    pages = ask(daemon, ada, "GET", "/v1/webhooks?limit=1").json()["next_cursor"]
    entries = ask(daemon, ada, "GET", f"/v1/webhooks/{theirs[0].id}/audit?limit=1").json()["next_cursor"]
    listed = ask(daemon, bob, "GET", f"/v1/webhooks?cursor={pages}").json()["webhooks"]
    assert {row["title"] for row in listed} <= {"bob's"}
    shown = ask(daemon, bob, "GET", f"/v1/webhooks/{mine.id}/audit?cursor={entries}")
    assert shown.json()["entries"] == []
    for text in (
        '["0","ada"]',
        '[0,""]',
        '["zzzz"]',
        "[-1]",
        '["\' OR 1=1 --"]',
        "{}",
        "null",
        "[[[[]]]]",
        '["\\u0000"]',
    ):
        forged = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        for path in ("/v1/webhooks", f"/v1/webhooks/{mine.id}/audit"):
            answer = ask(daemon, bob, "GET", f"{path}?cursor={forged}")
            assert answer.status in {200, 422}, (text, answer)
            assert b"ada" not in answer.body
    for path in (f"/v1/webhooks/{theirs[0].id}", f"/v1/webhooks/{theirs[0].id}/audit"):
        assert ask(daemon, bob, "GET", f"{path}?user=ada&user_id=ada").status in {404, 422}
        assert ask(daemon, bob, "GET", path, headers=[("X-Forwarded-User", "ada")]).status == 404


def test_nobody_makes_a_webhook_for_another_user(users: tuple[Daemon, str, str]) -> None:
    daemon, ada, bob = users
    mine = make_webhook(daemon, bob, "bob's").id
    for field in ("user", "user_id", "owner", "webhook_id", "id", "secret", "verified", "path", "url"):
        answer = ask(daemon, bob, "POST", "/v1/webhooks", {"title": "x", "agent": "reviewer", field: "ada"})
        assert answer.status == 422, field
        assert ask(daemon, bob, "PATCH", f"/v1/webhooks/{mine}", {field: "ada"}).status in {400, 422}
    assert "x" not in {row["title"] for row in ask(daemon, ada, "GET", "/v1/webhooks?limit=200").json()["webhooks"]}


def test_a_client_that_names_other_addresses_locks_nobody_out_and_is_never_let_in(tmp_path: Path) -> None:
    program = 'webhook near { path "/near", provider github, secret "secret://env/GITHUB_SECRET", agent reviewer\n'
    write_program(
        tmp_path, program + '    allow_from ["198.51.100.0/24"]\n}\nagent reviewer { instruction "Remember." }\n'
    )
    with running(tmp_path, "program") as daemon:
        good = make_token(daemon)
        assert ask(daemon, good, "GET", "/v1/webhooks").status == 200
        answered = set()
        for number in range(25):
            spoofed = [(name, f"192.0.2.{number}") for name in ("X-Forwarded-For", "X-Real-IP", "True-Client-IP")]
            spoofed.append(("Forwarded", f"for=192.0.2.{number}"))
            answered.add(ask(daemon, some_token(), "GET", "/v1/webhooks", headers=spoofed).status)
        assert answered == {401}
        assert ask(daemon, good, "GET", "/v1/webhooks").status == 200
        # It is not admitted either: no proxy is configured, so the address is the one of the connection.
        for name in ("X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Client-IP", "CF-Connecting-IP", "True-Client-IP"):
            for value in ("198.51.100.7", "for=198.51.100.7", "198.51.100.7, 198.51.100.7", "::ffff:198.51.100.7"):
                sent = request("/near", b"{}", {name: value, "X-GitHub-Delivery": os.urandom(4).hex()})
                assert statuses(exchange(daemon, sent)) == [403], (name, value)
