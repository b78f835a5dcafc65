"""A webhook without a usable secret is closed: missing, empty, blank, unresolved, removed, or one of several."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from tests.runtime.attacks.wire import github_headers, github_mac
from tests.runtime.daemon.running import GITHUB, SECRET, Daemon, running, write_program

BODY = b'{"action":"opened"}'
# Keys that a careless receiver uses without a secret: empty, blank, the reference, the name, the words for null.
GUESSES = (
    *(b"", b" ", b"  ", b"\t", b"\n", b"\r\n", b"\0", b"\0" * 64, b"\xc2\xa0", b"null", b"None", b"undefined"),
    *(b"false", b"0", b"[]", b"{}", b"''", b'""', b"***", b"secret"),
)


def forged(daemon: Daemon, path: str, *more: bytes) -> set[int]:
    """Return the statuses of deliveries that are signed with each guess."""
    return {
        daemon.request("POST", path, BODY, [("X-Hub-Signature-256", f"sha256={github_mac(BODY, key)}")]).status
        for key in (*GUESSES, *more)
    }


def test_no_guess_opens_a_webhook_whose_secret_is_nothing(tmp_path: Path) -> None:
    contents = {
        "absent": None,
        "empty": b"",
        "newline": b"\n",
        "blank": b" \t\r\n",
        "zeros": b"\0\0\0\0",
        "nbsp": b"\xc2\xa0\n",
        "wide": "\u3000".encode(),
    }
    program = ""
    for name, content in contents.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        program += (
            GITHUB.partition("agent reviewer {")[0]
            .replace("github-events", name)
            .replace("/hooks/github", f"/hooks/{name}")
            .replace("secret://env/GITHUB_SECRET", f"secret://file/{name}")
        )
    write_program(tmp_path, program + 'agent reviewer {\n    instruction "Remember."\n}\n')
    with running(tmp_path, "program") as daemon:
        reasons = {row["webhook"]: row["reason"] for row in daemon.readyz().json()["not_mounted"]}
        assert set(reasons) == set(contents)
        for name, content in contents.items():
            reference = f"secret://file/{name}".encode()
            assert forged(daemon, f"/hooks/{name}", reference, name.encode(), content or b"") == {404}


def test_a_secret_that_is_emptied_or_taken_away_opens_nothing_at_a_reload(tmp_path: Path) -> None:
    write_program(tmp_path, GITHUB.replace("secret://env/GITHUB_SECRET", "secret://file/key"))
    key = tmp_path / "key"
    key.write_text(SECRET)
    with running(tmp_path, "program") as daemon:
        for content in (b"", b" \n", b"\0\0", None):
            key.unlink()
            if content is not None:
                key.write_bytes(content)
            daemon.hang_up()
            assert forged(daemon, "/hooks/github", content or b"") <= {401, 404}
            # Whether the last value is kept or the webhook is not mounted, no other signature is accepted.
            answer = daemon.request("POST", "/hooks/github", BODY, github_headers(BODY))
            assert answer.status in {202, 404}
            if not key.exists():
                key.write_bytes(b"")
        # The program names another reference, which is not set: the last value belonged to a different reference.
        daemon.load(GITHUB.replace("secret://env/GITHUB_SECRET", "secret://file/another"))
        assert daemon.readyz().json()["not_mounted"]
        assert forged(daemon, "/hooks/github", SECRET.encode()) == {404}


def test_one_secret_of_several_that_is_blank_opens_nothing(tmp_path: Path) -> None:
    listed = '["secret://env/GITHUB_SECRET" "secret://env/BLANK" "secret://env/NOT_SET"]'
    write_program(tmp_path, GITHUB.replace('"secret://env/GITHUB_SECRET"', listed))
    with running(tmp_path, "program", wait=True, BLANK=" ") as daemon:
        assert forged(daemon, "/hooks/github", b"secret://env/NOT_SET", b"secret://env/BLANK") == {401}
        assert daemon.request("POST", "/hooks/github", BODY, github_headers(BODY)).status == 202


def test_a_token_of_nothing_is_no_token(daemon: Daemon) -> None:
    for value in ("", " ", "Bearer", "Bearer ", "null", "undefined", "secret://env/TOKEN_SECRET", "\u00a0"):
        for name in ("X-Webhook-Token", "Authorization", "X-Token", "X-Gitlab-Token"):
            assert daemon.request("POST", "/hooks/token", BODY, [(name, value)]).status == 401
    empty = hmac.new(b"", BODY, hashlib.sha256).hexdigest()
    for name in ("X-Signature", "X-Hub-Signature", "X-Hub-Signature-256", "Stripe-Signature"):
        for path in ("/hooks/stripe", "/hooks/jwt", "/hooks/token", "/hooks/slack"):
            assert daemon.request("POST", path, BODY, [(name, f"sha256={empty}")]).status == 401
