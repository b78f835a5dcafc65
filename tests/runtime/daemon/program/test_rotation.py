"""Rotation on the running daemon: which secrets verify, from when and until when, and what is reported."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

from runtime.clock import SYSTEM
from runtime.database.connection import Database
from runtime.secrets import generated
from runtime.secrets.backend import SecretContext
from tests.conftest import KEY
from tests.lanes import LONG
from tests.runtime.daemon.running import GITHUB, Answer, Daemon, on_postgres, running, until, write_program
from tests.runtime.daemon.v1 import make_token, make_webhook
from tests.signatures import sign

pytestmark = LONG

PATH = "/hooks/github"


def program(*secrets: str) -> str:
    listed = ", ".join(f'"{secret}"' for secret in secrets)
    return GITHUB.replace('"secret://env/GITHUB_SECRET"', f"[{listed}]")


def post(daemon: Daemon, secret: str, path: str = PATH) -> Answer:
    headers = sign("github", secret, b"{}", now=time.time(), delivery_id=uuid4().hex, event="push")
    return daemon.request("POST", path, b"{}", headers)


def taken(daemon: Daemon, secret: str, path: str = PATH) -> bool:
    """Return whether a delivery signed with `secret` is accepted; otherwise it must be refused."""
    status = post(daemon, secret, path).status
    assert status in {202, 401}
    return status == 202


def listed(daemon: Daemon, **environ: str) -> dict[str, Any]:
    rows = json.loads(daemon.symbi("webhook", "list", "--json", **environ).stdout)["webhooks"]
    return {row["name"]: row for row in rows}


def test_old_and_new_verify_until_the_old_one_leaves_the_list_and_the_audit_says_which_did(tmp_path: Path) -> None:
    write_program(tmp_path, program("secret://env/NEW", "secret://env/OLD"))
    with running(tmp_path, "program", NEW="new-secret", OLD="old-secret") as daemon:
        assert [taken(daemon, secret) for secret in ("new-secret", "old-secret", "other")] == [True, True, False]
        rows = {row["secret_index"]: row["verdict"] for row in daemon.attempts()}
        assert rows == {0: "accepted", 1: "accepted", None: "refused"}
        daemon.load(program("secret://env/NEW"))
        assert [taken(daemon, secret) for secret in ("new-secret", "old-secret")] == [True, False]


def test_a_webhook_is_mounted_with_those_of_its_secrets_that_are_there(tmp_path: Path) -> None:
    write_program(tmp_path, program("secret://env/NOT_THERE", "secret://env/OLD"))
    alone = GITHUB.replace("github-events", "none").replace("/hooks/github", "/hooks/none").partition("agent rev")[0]
    alone = alone.replace('"secret://env/GITHUB_SECRET"', '["secret://env/NOT_THERE", "secret://file/nowhere"]')
    write_program(tmp_path, alone, "none.symbiont")
    with running(tmp_path, "program", OLD="old-secret") as daemon:
        assert taken(daemon, "old-secret")
        # The number is the position in the list, so that no operator removes the new secret instead of the old one.
        assert daemon.attempts()[0]["secret_index"] == 1
        state = daemon.readyz().json()
        reason = "the environment variable NOT_THERE is not set"
        assert state["warnings"] == [f"webhook github-events is mounted without one of its secrets: {reason}"]
        assert state["not_mounted"][0]["webhook"] == "none"
        assert reason in state["not_mounted"][0]["reason"]
        assert "nowhere: no such file" in state["not_mounted"][0]["reason"]
        assert post(daemon, "anything", "/hooks/none").status == 404
        rows = listed(daemon)
        assert rows["github-events"]["secret"] == f"not there: {reason}, env OLD"
        assert not rows["none"]["mounted"]
        daemon.until_logged("is mounted without one of its secrets")


def test_a_secret_that_can_be_no_key_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    text = program("secret://env/WRONG", "secret://env/RIGHT").replace("provider github", "provider standard-webhooks")
    write_program(tmp_path, text)
    key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    with running(tmp_path, "program", WRONG="whsec_hunter2!", RIGHT=key) as daemon:
        headers = sign("standard-webhooks", key, b"{}", now=time.time(), delivery_id="msg_1", event=None)
        assert daemon.request("POST", PATH, b"{}", headers).status == 202
        assert "env WRONG: the secret is not base64" in daemon.readyz().json()["warnings"][0]
        assert "hunter2" not in daemon.log.read_text()


def test_a_rotated_secret_counts_at_once_and_the_old_one_ends_by_itself(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    file = write_program(tmp_path, program("secret://generated/hook"))
    with running(tmp_path, "program", wait=True, **environ) as daemon:

        def show() -> str:
            return daemon.symbi("secret", "show", "hook", **environ).stdout.strip()

        old = show()
        assert taken(daemon, old)
        # The running program gets the new secret, whatever its files contain now.
        file.write_text("webhook {")
        until(lambda: daemon.readyz().json()["last_error"])
        done = daemon.symbi("webhook", "rotate", "github-events", "--overlap", "1h", **environ)
        assert done.returncode == 0
        new = show()
        assert new not in done.stdout + done.stderr
        assert old not in done.stdout + done.stderr
        lines = done.stdout.splitlines()
        assert lines[0] == "github-events: new secret generated"
        assert lines[1] == "read it:  symbi secret show hook"
        assert lines[2].startswith("old one:  valid until 2")
        assert taken(daemon, new)
        assert taken(daemon, old)
        audit = json.loads(daemon.symbi("webhook", "logs", "--json", **environ).stdout)["attempts"]
        assert [row["secret_index"] for row in audit] == [0, 0, 1]
        assert "(the previous one, until 2" in listed(daemon, **environ)["github-events"]["secret"]
        file.write_text(program("secret://generated/hook"))
        daemon.kill()
    with running(tmp_path, "program", wait=True, **environ) as daemon:
        assert taken(daemon, old)
        began = time.monotonic()
        assert daemon.symbi("webhook", "rotate", "github-events", "--overlap", "2s", **environ).returncode == 0
        before = daemon.readyz().json()["generation"]
        until(lambda: not taken(daemon, new), what="the end of the overlap")
        assert time.monotonic() - began > 1.9
        newest = daemon.symbi("secret", "show", "hook", **environ).stdout.strip()
        assert taken(daemon, newest)
        assert daemon.readyz().json()["generation"] == before
        assert daemon.symbi("webhook", "rotate", "github-events", "--overlap", "2s", **environ).returncode == 0
        daemon.kill()
    # The end of the overlap is stored, not only known to the daemon that rotated.
    with running(tmp_path, "program", wait=True, **environ) as daemon:
        until(lambda: not taken(daemon, newest), what="the end of the overlap after a restart")


def test_an_overlap_of_nothing_ends_the_old_one_now_and_a_second_rotation_says_what_it_ends(tmp_path: Path) -> None:
    write_program(tmp_path, program("secret://generated/hook", "secret://env/OTHER"))
    second = GITHUB.replace("github-events", "second").replace("/hooks/github", "/hooks/second").partition("agent r")[0]
    write_program(tmp_path, second.replace("secret://env/GITHUB_SECRET", "secret://generated/hook"), "second.symbiont")
    with running(tmp_path, "program", OTHER="other-secret") as daemon:

        def rotate(*arguments: str) -> dict[str, Any]:
            answer = json.loads(daemon.symbi("webhook", "rotate", "github-events", "--json", *arguments).stdout)
            assert answer["webhooks"] == ["github-events", "second"]
            assert answer["secret"] is None
            assert isinstance(answer, dict)
            return answer

        def show() -> str:
            return daemon.symbi("secret", "show", "hook").stdout.strip()

        values = [show()]
        assert rotate("--overlap", "0s")["previous_secret_until"] is None
        assert not taken(daemon, values[0])
        assert not taken(daemon, values[0], "/hooks/second")
        values.append(show())
        first = rotate()
        assert first["ended"] is None
        assert taken(daemon, values[1], "/hooks/second")
        # The secrets of the list come before the previous ones.
        assert daemon.attempts("--limit", "1")[0]["secret_index"] == 1
        assert taken(daemon, "other-secret")
        assert daemon.attempts("--limit", "1")[0]["secret_index"] == 1
        assert taken(daemon, values[1])
        assert daemon.attempts("--limit", "1")[0]["secret_index"] == 2
        values.append(show())
        assert rotate()["ended"] == first["previous_secret_until"]
        values.append(show())
        assert len(set(values)) == 4
        assert [taken(daemon, value) for value in values] == [False, False, True, True]
        test = daemon.symbi("webhook", "test", "second", "--payload", "{}", "--event", "push")
        assert test.returncode == 0, test.stderr


def test_without_a_daemon_a_rotation_counts_from_the_next_start(tmp_path: Path) -> None:
    write_program(tmp_path, program("secret://generated/hook"))
    with running(tmp_path, "program") as daemon:
        old = daemon.symbi("secret", "show", "hook").stdout.strip()
    assert daemon.symbi("webhook", "rotate", "github-events").returncode == 0
    with running(tmp_path, "program") as daemon:
        new = daemon.symbi("secret", "show", "hook").stdout.strip()
        assert new != old
        assert taken(daemon, new)
        assert taken(daemon, old)


def test_what_is_kept_elsewhere_is_rotated_there(tmp_path: Path) -> None:
    kept = {
        "env": ("secret://env/OTHER", 'write secret ["secret://env/OTHER_NEW", "secret://env/OTHER"]'),
        "vault": ("vault://a/b#c", 'write secret ["secret://vault/a/b-new#c", "secret://vault/a/b#c"]'),
        "literal": ("written-here", "is written in the program"),
    }
    blocks = [
        f'webhook {name} {{ path "/{name}" provider github secret "{text}" }}' for name, (text, _) in kept.items()
    ]
    open_ = 'webhook open { path "/open" provider github insecure_allow_unverified true }'
    write_program(tmp_path, "\n".join([*blocks, open_]))
    with running(tmp_path, "program", OTHER="other-secret") as daemon:
        for name, (_, told) in kept.items():
            done = daemon.symbi("webhook", "rotate", name)
            assert done.returncode == 2
            assert told in done.stderr
            assert "written-here" not in done.stderr
            assert len(done.stderr.splitlines()) == 2
        for arguments, told in {
            ("open",): "has no secret",
            ("opn",): "did you mean open?",
            ("env", "--overlap", "31d"): "30 days at most",
            ("env", "--overlap", "1"): "a duration needs a unit",
        }.items():
            done = daemon.symbi("webhook", "rotate", *arguments)
            assert done.returncode == 2
            assert told in done.stderr


def test_one_that_was_made_at_run_time_is_rotated_by_its_id(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        made = make_webhook(daemon, make_token(daemon, "--scope", "write"))

        def rotate(overlap: str) -> str:
            done = daemon.symbi("webhook", "rotate", made.id, "--overlap", overlap, "--json")
            secret = json.loads(done.stdout)["secret"]
            assert secret.startswith("whsec_")
            assert made.post(b'{"n":"%s"}' % os.urandom(8).hex().encode(), secret=secret).status == 202
            return str(secret)

        def is_refused(secret: str | None) -> bool:
            return made.post(b'{"n":"%s"}' % os.urandom(8).hex().encode(), secret=secret).status == 401

        second = rotate("1h")
        assert not is_refused(None)
        rotate("1s")
        until(lambda: is_refused(second))
        assert daemon.symbi("user", "add", "ada").returncode == 0
        hers = make_webhook(daemon, make_token(daemon, "--user", "ada", "--scope", "write"))
        old, hers.secret = (
            hers.secret,
            json.loads(daemon.symbi("webhook", "rotate", hers.id, "--json").stdout)["secret"],
        )
        assert old != hers.secret
        assert hers.post().status == 202


def test_a_reload_reads_the_secret_of_an_option_again(tmp_path: Path) -> None:
    meta = 'provider meta { verify_token "file://token" }'
    write_program(tmp_path, GITHUB.replace("provider github", meta))
    (tmp_path / "token").write_text("first-token")
    with running(tmp_path, "program") as daemon:

        def greeted(token: str) -> int:
            query = f"hub.mode=subscribe&hub.challenge=42&hub.verify_token={token}"
            return daemon.request("GET", f"{PATH}?{query}").status

        assert [greeted("first-token"), greeted("second-token")] == [200, 403]
        (tmp_path / "token").write_text("second-token")
        daemon.hang_up()
        assert [greeted("first-token"), greeted("second-token")] == [403, 200]
        (tmp_path / "token").unlink()
        daemon.hang_up()
        assert greeted("second-token") == 200
        assert "its last value is still used" in daemon.readyz().json()["warnings"][0]


def test_what_a_rotation_leaves_in_the_database_is_sealed(tmp_path: Path) -> None:
    write_program(tmp_path, program("secret://generated/hook"))
    with running(tmp_path, "program") as daemon:
        old = daemon.symbi("secret", "show", "hook").stdout.strip()
        daemon.symbi("webhook", "rotate", "github-events")
        new = daemon.symbi("secret", "show", "hook").stdout.strip()
    with closing(sqlite3.connect(tmp_path / ".symbi/symbiont.db")) as connection:
        ((previous,),) = connection.execute("SELECT previous FROM secrets").fetchall()
    assert previous
    kept = b"".join(file.read_bytes() for file in (tmp_path / ".symbi").glob("symbiont.db*"))
    assert old.encode() not in kept
    assert new.encode() not in kept


def test_a_rotation_by_another_daemon_on_the_database_is_followed(tmp_path: Path, postgres_url: str) -> None:
    environ = on_postgres(postgres_url)

    async def rotate_there() -> tuple[str, str]:
        database = await Database.open(postgres_url, KEY)
        context = SecretContext({}, tmp_path, database, database.keys, SYSTEM)
        try:
            old = await generated.find("hook", context)
            await generated.rotate("hook", context, 0)
            new = await generated.find("hook", context)
        finally:
            await database.close()
        assert old is not None
        assert new is not None
        return old.decode(), new.decode()

    write_program(tmp_path, program("secret://generated/hook"))
    with running(tmp_path, "program", wait=True, **environ) as daemon:
        old, new = asyncio.run(rotate_there())
        until(lambda: taken(daemon, new), what="the rotation")
        assert not taken(daemon, old)
        assert daemon.readyz().json()["generation"] == 2
