"""`/v1/memory` of a real daemon, with the tokens of two users: neither sees items of the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.runtime.daemon.running import Daemon, running, until, write_program
from tests.runtime.daemon.v1 import ask, make_token, make_webhook

PROGRAM = """\
memory notes {
    path      "notes"
    embedding hashing
}
agent reviewer {
    memory      notes
    instruction "Remember."
}
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("memory-http")
    write_program(root, PROGRAM)
    with running(root, "program") as started:
        yield started


@pytest.fixture(scope="module")
def tokens(daemon: Daemon) -> dict[str, str]:
    """A token of each user, and one of an administrator."""
    for name in ("ada", "bob"):
        assert daemon.symbi("user", "add", name).returncode == 0
    made = {name: make_token(daemon, "--user", name, "--scope", "write") for name in ("ada", "bob")}
    return {**made, "admin": make_token(daemon, "--scope", "admin")}


def get(daemon: Daemon, token: str, path: str, **query: Any) -> Any:
    asked = f"/v1/memory{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
    answer = ask(daemon, token, "GET", asked)
    assert answer.status == 200, answer
    return answer.json()


def write(daemon: Daemon, token: str, text: str, **body: Any) -> Any:
    answer = ask(daemon, token, "POST", "/v1/memory/items", {"agent": "reviewer", "text": text, **body})
    assert answer.status == 200, answer
    return answer.json()


def test_two_users_of_one_agent_never_see_each_others(daemon: Daemon, tokens: dict[str, str]) -> None:
    secret = write(daemon, tokens["ada"], "The launch of Bluebird is on Friday", tags=["launch"])["item"]
    write(daemon, tokens["ada"], "Bluebird met the board", type="episode", session_id="s1")
    # In the same session: the neighbours of an item never belong to another user.
    write(daemon, tokens["bob"], "Bob asked about the launch on Friday", type="episode", session_id="s1")
    for path, query in (
        ("/search", {"agent": "reviewer", "query": "launch Bluebird Friday board"}),
        ("/search", {"agent": "reviewer", "query": "Bluebird", "limit": 100}),
        ("/items", {}),
        ("/items", {"all_tags": "launch"}),
        ("/items", {"agent": "reviewer", "since": "1h"}),
        ("/export", {}),
        ("", {}),
        ("", {"agent": "reviewer"}),
    ):
        said = json.dumps(get(daemon, tokens["bob"], path, **query))
        assert "Bluebird" not in said, path
        assert secret["memory_id"] not in said
        assert secret["user_id"] not in said
    hits = get(daemon, tokens["bob"], "/search", agent="reviewer", query="Bluebird board")["hits"]
    assert not any({"keyword", "neighbours"} & set(hit["parts"]) for hit in hits), hits
    assert ask(daemon, tokens["bob"], "GET", f"/v1/memory/items/{secret['memory_id']}").status == 404
    (row,) = get(daemon, tokens["bob"], "", agent="reviewer")["agents"]
    mine = get(daemon, tokens["bob"], "/export", agent="reviewer")["items"]
    assert (row["items"], row["files"], row["bytes"], row["embedded"]) == (len(mine), None, None, None)
    found = get(daemon, tokens["ada"], "/search", agent="reviewer", query="launch Bluebird")
    assert found["hits"][0]["item"]["memory_id"] == secret["memory_id"]
    everything = get(daemon, tokens["admin"], "/export")["items"]
    assert {item["user_id"] for item in everything} >= {secret["user_id"], mine[0]["user_id"]}


def test_bob_cannot_import_export_purge_or_inspect_what_is_adas(daemon: Daemon, tokens: dict[str, str]) -> None:
    item = write(daemon, tokens["ada"], "Ada likes tea")["item"]
    for method, path, body in (
        ("GET", "/export?user=ada", None),
        ("GET", "/items?user=ada", None),
        ("GET", "/search?agent=reviewer&query=tea&user=ada", None),
        ("GET", "/inspect?agent=reviewer", None),
        ("GET", "/verify", None),
        ("POST", "/items", {"agent": "reviewer", "text": "Ada likes coffee", "user": "ada"}),
        ("POST", "/compact", {"agent": "reviewer"}),
        ("POST", "/reindex", {}),
        ("DELETE", "?agent=reviewer", None),
        ("DELETE", "?agent=reviewer&dry_run=true", None),
        ("DELETE", "?agent=reviewer&user=ada", None),
        ("DELETE", "?user=bob", None),
    ):
        answer = ask(daemon, tokens["bob"], method, f"/v1/memory{path}", body)
        assert answer.status == 403, (path, answer)
    taken = ask(daemon, tokens["bob"], "POST", "/v1/memory/import", {"items": [item]}).json()
    assert [(line["outcome"], f"it is {item['user_id']}'s" in line["reason"]) for line in taken["lines"]] == [
        ("refused", True)
    ]
    assert item["text"] in json.dumps(get(daemon, tokens["ada"], "/items"))


def test_what_a_webhook_leaves_is_its_users(daemon: Daemon, tokens: dict[str, str]) -> None:
    made = make_webhook(daemon, tokens["ada"])
    assert made.post(b'{"action": "starling-passed"}').status == 202
    until(
        lambda: get(daemon, tokens["ada"], "/search", agent="reviewer", query="starling passed", type="episode")["hits"]
    )
    found = get(daemon, tokens["ada"], "/items", type="episodic")["items"]
    assert "starling" in found[0]["text"]
    assert "starling" not in json.dumps(get(daemon, tokens["bob"], "/export"))
    assert "starling" not in json.dumps(get(daemon, tokens["bob"], "/search", agent="reviewer", query="starling"))


def test_a_persons_own_edit_is_found_by_the_next_search(daemon: Daemon, tokens: dict[str, str]) -> None:
    write(daemon, tokens["admin"], "The old office is in Bern")
    file = daemon.root / "notes/reviewer/memory.md"
    file.write_text(file.read_text().replace("old office is in Bern", "new office is in Zurich"))
    hits = get(daemon, tokens["admin"], "/search", agent="reviewer", query="office in Zurich")["hits"]
    assert hits[0]["item"]["text"] == "The new office is in Zurich"
    assert file.read_text().splitlines()[hits[0]["line"] - 1].startswith("- The new office is in Zurich")


def test_a_large_body_is_taken_where_items_are_and_nowhere_else(daemon: Daemon, tokens: dict[str, str]) -> None:
    assert write(daemon, tokens["bob"], "w " * 400_000)["outcome"] == "stored"
    large = {"title": "x" * 100_000, "agent": "reviewer"}
    assert ask(daemon, tokens["bob"], "POST", "/v1/webhooks", large).status == 413
    answer = ask(daemon, tokens["bob"], "POST", "/v1/memory/items", {"agent": "reviewer", "text": "x" * 10_000_000})
    assert answer.status == 422
    assert "at most 1048576" in answer.json()["hint"]


def test_the_same_program_is_described_and_served(daemon: Daemon, tokens: dict[str, str], tmp_path: Path) -> None:
    described = ask(daemon, tokens["bob"], "GET", "/v1/openapi.json").json()["paths"]
    assert {"/v1/memory", "/v1/memory/search", "/v1/memory/items/{memory_id}"} <= set(described)
