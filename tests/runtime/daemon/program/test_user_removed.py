"""Nothing of a removed user is left: not in any memory, index or table, and not for the next user of that name."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.lanes import LONG
from tests.runtime.daemon import sharing
from tests.runtime.daemon.running import Daemon, running, symbi, until, write_program
from tests.runtime.daemon.v1 import ask, make_token, make_webhook
from tests.runtime.mcp.connected import over_http

PROGRAM = """\
memory notes { path "notes" embedding hashing }
memory audited { path "audited" store records embedding hashing }
memory library { store collection embedding hashing }
agent reviewer { memory notes instruction "Remember." }
agent auditor { memory audited instruction "Remember." }
agent librarian { memory library instruction "Remember." }
"""
AGENTS = ("reviewer", "auditor", "librarian")
WORD = "okapiquux"


@contextmanager
def started(root: Path, environ: dict[str, str]) -> Iterator[Daemon]:
    write_program(root, PROGRAM)
    with running(root, "program", wait=True, **environ) as daemon:
        yield daemon


def shown(daemon: Daemon, environ: dict[str, str], *arguments: str) -> Any:
    done = daemon.symbi(*arguments, "--json", **environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def get(daemon: Daemon, token: str, path: str, **query: Any) -> Any:
    answer = ask(daemon, token, "GET", f"{path}?{urlencode(query)}" if query else path)
    assert answer.status == 200, (path, answer)
    return answer.json()


def fill(daemon: Daemon, token: str, name: str, word: str) -> list[str]:
    """Store items of a user everywhere and return their ids."""
    ids = []
    for agent in AGENTS:
        for kind in ("fact", "episode"):
            body = {"agent": agent, "text": f"{name} has {word} as {kind} of {agent}", "type": kind, "tags": [word]}
            answer = ask(daemon, token, "POST", "/v1/memory/items", body)
            assert answer.status == 200, answer
            ids.append(answer.json()["item"]["memory_id"])
    pushed = ask(daemon, token, "POST", "/index", {"text": f"{name} pushed {word}", "tags": [word], "project_id": word})
    assert pushed.status == 200, pushed
    assert ask(daemon, token, "POST", "/v1/collections", {"name": f"of-{name}"}).status == 200
    made = make_webhook(daemon, token, f"{name}'s {word}")
    assert made.post(json.dumps({"said": word}).encode()).status == 202
    until(lambda: len(get(daemon, token, "/v1/memory/items", agent="reviewer")["items"]) == 3, what="the run")
    return [*ids, *pushed.json()["memory_ids"]]


def everything(daemon: Daemon, token: str, ids: list[str]) -> str:
    """Return all responses that a user gets, from every path."""
    found = []
    for agent in AGENTS:
        answer = ask(daemon, token, "GET", f"/v1/memory/search?agent={agent}&query={WORD}+pushed+fact")
        found += [answer.body.decode() for _ in range(answer.status == 200)]
        found.append(ask(daemon, token, "GET", f"/v1/memory/items?agent={agent}").body.decode())
    for path in ("/v1/memory", "/v1/memory/items", "/v1/memory/export", "/v1/webhooks", "/v1/collections"):
        found.append(json.dumps(get(daemon, token, path)))
    for path in ("/v1/collections/metrics", "/v1/projects", f"/v1/projects/{WORD}/tags"):
        found.append(json.dumps(get(daemon, token, path)))
    for body in ({"query_text": f"{WORD} pushed"}, {"query_text": WORD, "tags": [WORD]}):
        found.append(ask(daemon, token, "POST", "/search", body).body.decode())
    for memory_id in ids:
        for path in ("/v1/memory/items", "/v1/collections/items"):
            assert ask(daemon, token, "GET", f"{path}/{memory_id}").status == 404
    with over_http(daemon, token, mode="auto") as client:
        found.append(str(client.content("search", query_text=f"{WORD} pushed")["hits"]))
        found.append(str(client.content("memory_list")))
        found.append(str(client.content("memory_export")))
        found.append(str(client.content("memory_search", agent="reviewer", query=f"carl has {WORD}")["hits"]))
    # The query is echoed.
    return "\n".join(each.replace(f'"query_text": "{WORD}', "").replace(f'"tags":["{WORD}"]', "") for each in found)


def test_the_next_user_of_a_name_starts_with_nothing(tmp_path: Path, environ: dict[str, str]) -> None:
    with started(tmp_path, environ) as daemon:
        tokens = {}
        for name in ("carl", "bob"):
            shown(daemon, environ, "user", "add", name)
            tokens[name] = make_token(daemon, "--user", name, "--scope", "write", **environ)
        admin = make_token(daemon, "--scope", "admin", **environ)
        ids = fill(daemon, tokens["carl"], "carl", WORD)
        fill(daemon, tokens["bob"], "bob", "zebrafoo")
        before = len(get(daemon, tokens["bob"], "/v1/memory/export")["items"])
        removed = shown(daemon, environ, "user", "remove", "carl", "--yes")
        assert removed["problems"] == []
        assert (removed["tokens"], removed["webhooks"]) == (1, 1)
        assert removed["items"] == {"audited": 2, "library": 3, "notes": 3}
        assert removed["rows"]["deliveries"] == 1
        assert ask(daemon, tokens["carl"], "GET", "/v1/memory/items").status == 401
        added = shown(daemon, environ, "user", "add", "carl")
        assert added["id"] != removed["id"]
        again = make_token(daemon, "--user", "carl", "--scope", "write", **environ)
        assert WORD not in everything(daemon, again, ids)
        assert get(daemon, again, "/v1/memory/export")["items"] == []
        # Other users do not see it either, and still see their own items.
        assert WORD not in json.dumps(get(daemon, admin, "/v1/memory/export"))
        assert removed["id"] not in json.dumps(get(daemon, admin, "/v1/memory/export"))
        assert len(get(daemon, tokens["bob"], "/v1/memory/export")["items"]) == before
        assert get(daemon, admin, "/v1/memory/verify")["good"] is True
        files = [file for folder in ("notes", "audited") for file in (tmp_path / folder).rglob("*") if file.is_file()]
        assert any(b"zebrafoo" in file.read_bytes() for file in files)
        assert not [file for file in files if WORD.encode() in file.read_bytes().lower()]
    with started(tmp_path, environ) as daemon:
        assert WORD not in everything(daemon, again, ids)
        assert WORD not in json.dumps(get(daemon, admin, "/v1/memory/export"))


def test_with_keep_only_administrators_see_what_was_theirs_until_that_is_purged(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    with started(tmp_path, environ) as daemon:
        admin = make_token(daemon, "--scope", "admin", **environ)
        shown(daemon, environ, "user", "add", "carl")
        fill(daemon, make_token(daemon, "--user", "carl", "--scope", "write", **environ), "carl", WORD)
        kept = shown(daemon, environ, "user", "remove", "carl", "--yes", "--keep")
        assert (kept["kept"], kept["items"], kept["rows"]) == (True, {}, {})
        shown(daemon, environ, "user", "add", "carl")
        token = make_token(daemon, "--user", "carl", "--scope", "write", **environ)
        assert get(daemon, token, "/v1/memory/export")["items"] == []
        old = f"id:{kept['id']}"
        assert len(get(daemon, admin, "/v1/memory/items", user=old)["items"]) == 8
        assert get(daemon, admin, "/v1/memory/items", user="carl")["items"] == []
        (delivery,) = shown(daemon, environ, "webhook", "deliveries")["deliveries"]
        assert delivery["user"] == old
        purged = ask(daemon, admin, "DELETE", f"/v1/memory?agent=reviewer&user={old}")
        assert [(row["memory"], row["items"]) for row in purged.json()["memories"]] == [("notes", 3)]
        done = shown(daemon, environ, "memory", "purge", "--user", old, "--yes")
        assert {row["memory"]: row["items"] for row in done["memories"]} == {"audited": 2, "library": 3}
        assert get(daemon, admin, "/v1/memory/items", user=old)["items"] == []
        refused = daemon.symbi("memory", "purge", "--user", "crl", "--yes", **environ)
        assert refused.returncode == 2
        assert "did you mean carl?" in refused.stderr
        assert daemon.symbi("memory", "purge", "--yes", **environ).returncode == 2


def test_one_users_items_are_purged_and_the_user_stays(tmp_path: Path) -> None:
    with started(tmp_path, {}) as daemon:
        tokens = {}
        for name in ("carl", "bob"):
            shown(daemon, {}, "user", "add", name)
            tokens[name] = make_token(daemon, "--user", name, "--scope", "write")
            fill(daemon, tokens[name], name, WORD)
        for method, path in (("DELETE", "/v1/memory?user=bob"), ("DELETE", "/v1/memory?agent=reviewer&user=carl")):
            assert ask(daemon, tokens["carl"], method, path).status == 403
        tried = shown(daemon, {}, "memory", "purge", "auditor", "--user", "carl", "--yes")
        assert [(row["memory"], row["items"]) for row in tried["memories"]] == [("audited", 2)]
        assert len(get(daemon, tokens["carl"], "/v1/memory/export")["items"]) == 6
        shown(daemon, {}, "memory", "purge", "--user", "carl", "--yes")
        assert get(daemon, tokens["carl"], "/v1/memory/export")["items"] == []
        assert ask(daemon, tokens["carl"], "POST", "/search", {"query_text": WORD}).json()["hits"] == []
        assert len(get(daemon, tokens["bob"], "/v1/memory/export")["items"]) == 8
        assert len(get(daemon, tokens["carl"], "/v1/webhooks")["webhooks"]) == 1


def test_a_removal_that_was_killed_goes_on_at_the_next_start(tmp_path: Path) -> None:
    with started(tmp_path, {}) as daemon:
        shown(daemon, {}, "user", "add", "carl")
        fill(daemon, make_token(daemon, "--user", "carl", "--scope", "write"), "carl", WORD)
        admin = make_token(daemon, "--scope", "admin")
        daemon.kill()
    database = sqlite3.connect(tmp_path / ".symbi/symbiont.db")
    # The effect of its first transaction, without the others.
    ((user_id,),) = database.execute("SELECT user_id FROM users").fetchall()
    database.execute("DELETE FROM tokens WHERE user_id = ?", (user_id,))
    database.execute("DELETE FROM webhooks WHERE user_id = ?", (user_id,))
    database.execute("UPDATE users SET name = NULL, removed_at = 1")
    database.commit()
    database.close()
    with started(tmp_path, {}) as daemon:
        until(lambda: get(daemon, admin, "/v1/memory/export")["items"] == [], what="the end of the removal")

        def gone() -> bool:
            with closing(sqlite3.connect(tmp_path / ".symbi/symbiont.db")) as state:
                left = state.execute("SELECT count(*) FROM deliveries WHERE user_id = ?", (user_id,)).fetchone()[0]
                return bool(left == 0 and not state.execute("SELECT * FROM users").fetchall())

        until(gone, what="the end of the rows")


@LONG
def test_what_a_run_under_way_leaves_of_a_removed_user_is_deleted_later(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    command = f"{sharing.__name__}:{sharing.shared.__name__}"
    state = tmp_path / ".symbi/symbiont.db"

    def rows(query: str) -> list[Any]:
        with closing(sqlite3.connect(state)) as database:
            return database.execute(query).fetchall()

    with running(tmp_path, "program", wait=True, command=command, SHARING_RUN="5") as daemon:
        user_id = shown(daemon, {}, "user", "add", "carl")["id"]
        made = make_webhook(daemon, make_token(daemon, "--user", "carl", "--scope", "write"))
        assert made.post(json.dumps({"said": WORD}).encode()).status == 202
        until(lambda: rows("SELECT state FROM deliveries") == [("running",)], what="the run")
        removed = shown(daemon, {}, "user", "remove", "carl", "--yes")
        assert "deliveries" not in removed["rows"]
        # It cannot store its next step: nothing can be sealed for the user any more.
        until(lambda: rows("SELECT state FROM deliveries") != [("running",)], what="the run's end")
        assert WORD not in remembered(tmp_path)
    database = sqlite3.connect(state)
    # After the last run that could write something of the user.
    database.execute("UPDATE users SET removed_at = 1")
    database.commit()
    database.close()
    with started(tmp_path, {}):
        until(lambda: not rows("SELECT * FROM users"), what="the end of the removal")
        assert WORD not in remembered(tmp_path)
        for table in ("deliveries", "runs", "bodies"):
            assert rows(f"SELECT * FROM {table} WHERE user_id = '{user_id}'") == []


def remembered(root: Path) -> str:
    """Return the text of the Markdown memory."""
    return "".join(file.read_text() for file in (root / "notes").rglob("*.md"))


def test_what_cannot_be_deleted_is_said_and_deleted_by_the_same_again(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as daemon:
        user_id = shown(daemon, {}, "user", "add", "carl")["id"]
        fill(daemon, make_token(daemon, "--user", "carl", "--scope", "write"), "carl", WORD)
    memory = tmp_path / "notes/reviewer/memory.md"
    text = memory.read_bytes()
    memory.unlink()
    memory.mkdir()
    done = symbi("user", "remove", "carl", "--yes", root=tmp_path)
    assert done.returncode == 1
    assert "not deleted yet: memory notes:" in done.stderr
    assert "memory.md" in done.stderr
    assert "Traceback" not in done.stderr
    memory.rmdir()
    memory.write_bytes(text)
    again = symbi("user", "remove", f"id:{user_id}", "--yes", "--json", root=tmp_path)
    assert again.returncode == 0, again.stderr
    # The two items in logs were deleted by the first attempt.
    assert json.loads(again.stdout)["items"] == {"notes": 1}
    assert WORD not in memory.read_text()
