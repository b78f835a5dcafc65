"""`symbi user`, `symbi token`, `symbi webhook create|delete`: with and without a daemon."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.cli import user
from tests.runtime.daemon.running import Daemon, running, symbi, write_program
from tests.runtime.daemon.v1 import Made, ask, make_token


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("identity")
    write_program(root)
    with running(root, "program") as started:
        yield started


def shown(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(done: subprocess.CompletedProcess[str], code: int, *said: str) -> None:
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    for text in said:
        assert text in done.stderr, done.stderr


def test_only_the_token_is_on_standard_output(daemon: Daemon) -> None:
    done = daemon.symbi("token", "create", "--label", "ci", "--expires", "90d")
    assert done.returncode == 0
    token = done.stdout.removesuffix("\n")
    assert token.startswith("symbi_")
    assert token.isprintable()
    assert "not shown again" in done.stderr
    assert token not in done.stderr
    assert ask(daemon, token, "GET", "/v1/webhooks").status == 200


def test_a_revoked_token_is_refused_at_once(daemon: Daemon) -> None:
    made = shown(daemon.symbi("token", "create", "--json"))
    assert ask(daemon, made["token"], "GET", "/v1/webhooks").status == 200
    assert shown(daemon.symbi("token", "revoke", made["id"], "--json")) == {"id": made["id"]}
    assert ask(daemon, made["token"], "GET", "/v1/webhooks").status == 401
    rows = shown(daemon.symbi("token", "list", "--json"))["tokens"]
    (row,) = [row for row in rows if row["id"] == made["id"]]
    assert row["state"] == "revoked"
    assert row["used_at"] is not None
    assert "token" not in row


def test_scopes_of_a_token_are_what_was_asked_for(daemon: Daemon) -> None:
    made = [
        shown(daemon.symbi("token", "create", "--json", *arguments))["id"]
        for arguments in ((), ("--scope", "write"), ("--scope", "admin", "--scope", "read"))
    ]
    rows = {row["id"]: row["scopes"] for row in shown(daemon.symbi("token", "list", "--json"))["tokens"]}
    assert [rows[token_id] for token_id in made] == [["read"], ["write"], ["read", "admin"]]


def test_a_user_is_added_listed_and_removed_with_all_it_has(daemon: Daemon) -> None:
    added = shown(daemon.symbi("user", "add", "carol", "--json"))
    assert added["user"] == "carol" != added["id"]
    token = make_token(daemon, "--user", "carol", "--scope", "write")
    answer = ask(daemon, token, "POST", "/v1/webhooks", {"title": "x", "agent": "reviewer"}).json()
    made = Made(daemon, answer["webhook_id"], answer["secret"])
    assert made.post(b'{"n":1}').status == 202
    users = {row["user"]: row["tokens"] for row in shown(daemon.symbi("user", "list", "--json"))["users"]}
    assert users["carol"] == 1
    done = daemon.symbi("user", "remove", "carol", input="n\n")
    refused(done, 2, "standard input is not a terminal", "--yes")
    assert made.post(b'{"n":2}').status == 202
    removed = shown(daemon.symbi("user", "remove", "carol", "--yes", "--json"))
    assert (removed["user"], removed["tokens"], removed["webhooks"], removed["kept"]) == ("carol", 1, 1, False)
    assert removed["problems"] == []
    assert made.post(b'{"n":3}').status == 404
    assert ask(daemon, token, "GET", "/v1/webhooks").status == 401


def test_people_are_shown_names_and_programs_ids(daemon: Daemon) -> None:
    added = shown(daemon.symbi("user", "add", "erin", "--json"))
    token = make_token(daemon, "--user", "erin", "--scope", "write")
    written = ask(daemon, token, "POST", "/v1/memory/items", {"agent": "reviewer", "text": "Erin likes tea"}).json()[
        "item"
    ]
    pushed = ask(daemon, token, "POST", "/index", {"text": "Erin likes coffee"}).json()["memory_ids"][0]
    for command in (("memory", "show", written["memory_id"]), ("collection", "get", pushed)):
        said = daemon.symbi(*command).stdout
        assert "user         erin\n" in said
        assert added["id"] not in said
        assert added["id"] in daemon.symbi(*command, "--json").stdout
    assert daemon.symbi("user", "remove", "erin", "--yes", "--keep").returncode == 0
    assert f"user         id:{added['id']}\n" in daemon.symbi("memory", "show", written["memory_id"]).stdout


def test_bad_input_is_one_clear_line(daemon: Daemon) -> None:
    refused(daemon.symbi("user", "add", "Ada Lovelace"), 2, "'Ada Lovelace' is not a valid user name", "help:")
    refused(daemon.symbi("user", "add", "owner"), 1, "the user owner exists already")
    again = daemon.symbi("user", "remove", "id:no-such-user", "--yes")
    assert (again.returncode, again.stdout) == (0, "nothing is stored of id:no-such-user\n")
    refused(daemon.symbi("user", "remove", "owner", "--yes"), 2, "cannot be removed")
    refused(daemon.symbi("user", "remove", "nobody", "--yes"), 2, "no user is called 'nobody'")
    refused(daemon.symbi("user", "remove", "owner"), 2, "cannot be removed")
    refused(daemon.symbi("user", "remove", "nobody"), 2, "no user is called 'nobody'")
    assert daemon.symbi("user", "add", "dave").returncode == 0
    refused(daemon.symbi("token", "create", "--user", "dav"), 2, "no user is called 'dav'", "did you mean dave?")
    refused(daemon.symbi("token", "list", "--user", "dav"), 2, "did you mean dave?")
    refused(daemon.symbi("token", "create", "--expires", "soon"), 2, "expires:", "such as 90d")
    refused(daemon.symbi("token", "create", "--expires", "0d"), 2, "expires:")
    refused(daemon.symbi("token", "create", "--expires", "900years"), 2, "expires:")
    refused(daemon.symbi("token", "create", "--scope", "root"), 2, "'root' is not one of")
    refused(daemon.symbi("token", "create", "--label", "a\nb"), 2, "a label is one line")
    refused(daemon.symbi("token", "create", "--label", "x" * 65), 2, "a label is one line")
    refused(daemon.symbi("token", "revoke", "nothing"), 2, "no token's id begins with 'nothing'")
    refused(daemon.symbi("webhook", "create", "x", "--agent", "reviewr"), 2, "did you mean reviewer?")
    refused(daemon.symbi("webhook", "create", " x", "--agent", "reviewer"), 2, "symbi: TITLE: ")
    refused(daemon.symbi("webhook", "delete", "x"), 2, "'x' is not the id of a webhook", "webhook remove")
    refused(daemon.symbi("webhook", "create", "x", "--agent", ""), 2, "--agent is empty")
    refused(daemon.symbi("webhook", "delete", "5f3c1f0e-7c7b-4a55-9a3e-0d6a5f0f7a11"), 2, "you have no webhook")


def test_a_webhook_made_by_command_is_listed_tested_and_deleted(daemon: Daemon) -> None:
    made = shown(daemon.symbi("webhook", "create", "By hand", "--agent", "reviewer", "--json"))
    done = daemon.symbi("webhook", "list")
    assert "By hand (owner)" in done.stdout
    assert "github-events" in done.stdout
    assert "created through the API, encrypted" in done.stdout
    assert made["secret"] not in done.stdout
    # Options that take the name of a declared webhook take the id of another one.
    assert daemon.symbi("webhook", "test", made["webhook_id"], "--payload", '{"by":"hand"}').returncode == 0
    assert daemon.attempts("--name", made["webhook_id"])[-1]["verdict"] == "accepted"
    off = shown(daemon.symbi("webhook", "update", made["webhook_id"], "--off", "--title", "Resting", "--json"))
    assert (off["title"], off["is_active"]) == ("Resting", False)
    assert "is on" in daemon.symbi("webhook", "update", made["webhook_id"], "--on").stdout
    refused(daemon.symbi("webhook", "update", made["webhook_id"]), 2, "there is nothing to change")
    refused(
        daemon.symbi("webhook", "update", "github-events", "--off"),
        2,
        "not the id of a webhook created through the API",
    )
    assert daemon.symbi("webhook", "delete", made["webhook_id"]).returncode == 0
    assert "Resting" not in daemon.symbi("webhook", "list").stdout


def test_without_a_daemon_the_same_commands_work(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program"):
        pass
    assert symbi("user", "add", "ada", root=tmp_path).returncode == 0
    token = symbi("token", "create", "--user", "ada", root=tmp_path).stdout.strip()
    unheard = symbi("webhook", "create", "w", "--agent", "reviewer", root=tmp_path)
    assert unheard.returncode == 0
    assert "note: no daemon runs here to answer at the URL: `symbi up` starts one" in unheard.stderr
    made = shown(symbi("webhook", "create", "x", "--agent", "reviewer", "--json", root=tmp_path))
    assert made["url"].endswith(f"/webhooks/{made['webhook_id']}")
    with running(tmp_path, "program") as daemon:
        assert ask(daemon, token, "GET", "/v1/webhooks").json()["webhooks"] == []
        assert Made(daemon, made["webhook_id"], made["secret"]).post().status == 202


def test_the_url_is_what_senders_see(tmp_path: Path) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program", SYMBIONT_PUBLIC_URL="https://hooks.example.com/in/") as daemon:
        made = shown(daemon.symbi("webhook", "create", "x", "--agent", "reviewer", "--json"))
    assert made["url"] == f"https://hooks.example.com/in/webhooks/{made['webhook_id']}"


def test_the_limits_of_a_user_are_set_shown_and_taken_back(daemon: Daemon) -> None:
    assert daemon.symbi("user", "add", "lim").returncode == 0
    done = daemon.symbi("user", "set", "lim", "--tokens-per-day", "100_000", "--cost-per-day", "$1.50")
    assert done.returncode == 0, done.stderr
    made = shown(daemon.symbi("user", "set", "lim", "--runs-per-hour", "none", "--json"))
    assert made["limits"] == {
        "tokens_per_day": {"set": 100_000, "most": 100_000},
        "cost_per_day": {"set": 1.5, "most": 1.5},
        "runs_per_hour": {"set": "none", "most": None},
    }
    listed = daemon.symbi("user", "list").stdout
    assert "100,000 tokens per day, $1.5000 cost per day, no limit of runs per hour" in listed

    back = shown(daemon.symbi("user", "set", "lim", "--tokens-per-day", "default", "--json"))
    assert back["limits"]["tokens_per_day"] == {"set": None, "most": None}
    assert shown(daemon.symbi("user", "show", "lim", "--json")) == back


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--tokens-per-day", value) for value in ("0", "-5", "1.5", "1e30", "nan", "", "many")),
        *(("--cost-per-day", value) for value in ("0", "-1", "inf", "nan", "0.000001", "99999999")),
        ("--runs-per-hour", "1000001"),
    ],
)
def test_a_limit_that_is_none_is_refused_in_one_line(daemon: Daemon, option: str, value: str) -> None:
    done = daemon.symbi("user", "set", "owner", f"{option}={value}")
    refused(done, 2, option.removeprefix("--").split("-")[0])
    assert len(done.stderr.splitlines()) <= 2


def test_tier_storage_and_time_zone_of_a_user_are_set_shown_and_taken_back(daemon: Daemon) -> None:
    assert daemon.symbi("user", "add", "tia").returncode == 0
    done = daemon.symbi("user", "set", "tia", "--tier", "pro", "--storage", "100MB", "--timezone", "Europe/Berlin")
    assert done.returncode == 0, done.stderr
    assert "tier pro (set), time zone Europe/Berlin" in done.stdout
    assert {line.split("  ")[0] for line in done.stdout.splitlines()} >= {"tables", "rows per table", "storage"}
    assert "100 MB (set)" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert daemon.symbi("user", "show", "tia").stdout == done.stdout
    assert "0 of 50 tables, 0 bytes of 100 MB (0%)" in daemon.symbi("user", "list").stdout

    made = shown(daemon.symbi("user", "set", "tia", "--storage", "default", "--timezone", "default", "--json"))
    assert (made["tier"], made["time_zone"]) == ({"set": "pro", "holds": "pro"}, None)
    assert made["storage"]["most"] == {"tables": 50, "rows": 100_000, "bytes": 500_000_000, "texts": 10_000_000_000}
    back = shown(daemon.symbi("user", "set", "tia", "--tier", "default", "--json"))
    assert back["tier"] == {"set": None, "holds": "free"}
    assert back["limits"] == made["limits"]


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--tier", "gold", "no tier is called 'gold'"),
        ("--tier", "fre", "did you mean free?"),
        ("--tier", "", "--tier: it is empty"),
        ("--storage", "100", "storage: a size needs a unit"),
        ("--storage", "1KB", "write a size from 1MB to 1PB"),
        ("--timezone", "europe/berln", "did you mean Europe/Berlin"),
        ("--timezone", "../../etc/passwd", "no time zone is called"),
        ("--timezone", "CEST", "no time zone is called"),
    ],
)
def test_a_setting_of_a_user_that_is_none_is_refused_in_one_line(
    daemon: Daemon, option: str, value: str, said: str
) -> None:
    done = daemon.symbi("user", "set", "owner", f"{option}={value}")
    refused(done, 2, said)
    assert len(done.stderr.splitlines()) <= 2


def test_a_daemon_with_a_wrong_tier_does_not_start(tmp_path: Path) -> None:
    write_program(tmp_path)
    done = symbi("up", "program", root=tmp_path, SYMBIONT_TIER_FREE="tables=many")
    refused(done, 2, "SYMBIONT_TIER_FREE: tables: not a limit")
    assert len(done.stderr.splitlines()) <= 2


def test_a_removal_says_how_many_tables_were_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    answer = {
        "name": "ada",
        "id": "1",
        "removed": True,
        "tokens": 0,
        "webhooks": 0,
        "kept": False,
        "exported": None,
        "items": {},
        "tables": 2,
        "rows": {"user_storage": 1},
        "problems": [],
    }
    user.print_removal(answer)
    assert capsys.readouterr().out.splitlines()[1:] == ["deleted 2 tables", "deleted 1 row of user_storage"]
    # A second attempt that found only tables.
    user.print_removal({**answer, "removed": False, "tables": 1, "rows": {}})
    assert "deleted 1 table\n" in capsys.readouterr().out
