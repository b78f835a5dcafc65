"""Nothing of a removed user is left on a server that has the index of a memory, nor in another daemon."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg

from tests.lanes import LONG
from tests.runtime.daemon.proxy import proxied
from tests.runtime.daemon.running import Daemon, on_postgres, running, until, write_program
from tests.runtime.daemon.v1 import ask, make_token, make_webhook
from tests.runtime.search.index.qdrant.qdrant_server import Served
from tests.stories.test_shared_database import two

pytestmark = LONG

WORD = "okapiquux"
INDEXED = """\
memory notes {{ path "notes" embedding hashing {index} }}
memory library {{ store collection embedding hashing {index} }}
agent reviewer {{ memory notes instruction "Remember." }}
agent librarian {{ memory library instruction "Remember." }}
"""
SHARED = """\
memory library { store collection embedding hashing }
agent reviewer { memory library instruction "Remember." }
"""


def shown(daemon: Daemon, *arguments: str, **given: str) -> Any:
    done = daemon.symbi(*arguments, "--json", **given)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def user(daemon: Daemon, name: str, **given: str) -> tuple[str, str]:
    """Add a user and return its id and a token."""
    user_id = str(shown(daemon, "user", "add", name, **given)["id"])
    return user_id, make_token(daemon, "--user", name, "--scope", "write", **given)


def remember(daemon: Daemon, token: str, agent: str, text: str) -> None:
    body = {"agent": agent, "text": text, "type": "fact", "tags": [text]}
    answer = ask(daemon, token, "POST", "/v1/memory/items", body)
    assert answer.status == 200, answer


def found(daemon: Daemon, token: str, agent: str, query: str = WORD) -> list[str]:
    answer = ask(daemon, token, "GET", f"/v1/memory/search?agent={agent}&query={query}")
    assert answer.status == 200, answer
    return [hit["item"]["text"] for hit in answer.json()["hits"]]


def _found_twice(daemon: Daemon, token: str) -> bool:
    return len(found(daemon, token, "reviewer")) >= 2


def fill(daemon: Daemon, token: str, name: str, word: str) -> None:
    for agent in ("reviewer", "librarian"):
        for number in range(3):
            remember(daemon, token, agent, f"{name} keeps {word} {number}")


def filled(daemon: Daemon, qdrant: Served) -> tuple[tuple[str, str], tuple[str, str]]:
    """Store six items each for Carl and Bob, with points in Qdrant; return their ids and tokens."""
    carl, bob = user(daemon, "carl"), user(daemon, "bob")
    fill(daemon, carl[1], "carl", WORD)
    fill(daemon, bob[1], "bob", "zebrafoo")
    until(lambda: len(qdrant.payloads()) == 12, what="the points")
    return carl, bob


def test_points_of_a_removed_user_leave_a_qdrant(tmp_path: Path) -> None:
    with Served() as qdrant:
        write_program(tmp_path, INDEXED.format(index=f'index qdrant {{ url "{qdrant.server.url}" exact true }}'))
        with running(tmp_path, "program") as daemon:
            (carl_id, _), (bob_id, bob) = filled(daemon, qdrant)
            removed = shown(daemon, "user", "remove", "carl", "--yes")
            assert (removed["items"], removed["problems"]) == ({"library": 3, "notes": 3}, [])
            left = qdrant.payloads()
            assert {payload["user_id"] for payload in left} == {bob_id}
            assert len(left) == 6
            assert WORD not in str(left)
            _, again = user(daemon, "carl")
            admin = make_token(daemon, "--scope", "admin")
            for agent in ("reviewer", "librarian"):
                assert found(daemon, again, agent) == []
                assert not any(WORD in text for text in found(daemon, admin, agent))
                assert len(found(daemon, bob, agent, "zebrafoo")) == 3
            assert carl_id not in json.dumps(ask(daemon, admin, "GET", "/v1/memory/export").json())


def test_points_of_a_user_who_was_removed_while_a_qdrant_was_away_go_when_it_is_back(tmp_path: Path) -> None:
    with Served() as qdrant:
        write_program(tmp_path, INDEXED.format(index=f'index qdrant {{ url "{qdrant.server.url}" exact true }}'))
        with running(tmp_path, "program") as daemon:
            _, (bob_id, bob) = filled(daemon, qdrant)
            qdrant.do(qdrant.server.stop())
            done = daemon.symbi("user", "remove", "carl", "--yes")
            assert "deleted 3 items in the memory library" in done.stdout
            assert done.returncode == 1, done.stdout + done.stderr
            assert "not deleted yet: index of library: " in done.stderr
            assert len(qdrant.payloads()) == 12
            daemon.kill()
        qdrant.do(qdrant.server.start())
        with running(tmp_path, "program") as daemon:
            until(lambda: {payload["user_id"] for payload in qdrant.payloads()} == {bob_id}, what="their deletion")
            assert len(qdrant.payloads()) == 6
            assert len(found(daemon, bob, "reviewer", "zebrafoo")) == 3


async def _said_in(url: str) -> dict[str, str]:
    """Return the rows of every table of the database, by schema and name."""
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch(
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        )
        names = [f'"{row["schemaname"]}"."{row["tablename"]}"' for row in tables]
        return {name: str(await connection.fetch(f"SELECT t::text FROM {name} t")) for name in names}
    finally:
        await connection.close()


def test_rows_of_a_removed_user_leave_a_postgresql_with_pgvector(tmp_path: Path, postgres_url: str) -> None:
    # The same server holds the database, so no table may contain anything of the user.
    given = on_postgres(postgres_url, SEARCH_URL=postgres_url.replace("postgresql+asyncpg:", "postgresql:"))
    write_program(tmp_path, INDEXED.format(index='index postgres { url "secret://env/SEARCH_URL" }'))
    with running(tmp_path, "program", wait=True, **given) as daemon:
        carl_id, carl = user(daemon, "carl", **given)
        _, bob = user(daemon, "bob", **given)
        fill(daemon, carl, "carl", WORD)
        fill(daemon, bob, "bob", "zebrafoo")
        for agent in ("reviewer", "librarian"):
            assert len(found(daemon, carl, agent)) == len(found(daemon, bob, agent, "zebrafoo")) == 3

        def holding(word: str) -> set[str]:
            return {name for name, said in asyncio.run(_said_in(given["SEARCH_URL"])).items() if word in said}

        searched = holding("zebrafoo")
        assert searched
        assert holding(WORD) == searched
        removed = shown(daemon, "user", "remove", "carl", "--yes", **given)
        assert (removed["items"], removed["problems"]) == ({"library": 3, "notes": 3}, [])
        assert holding(WORD) == set()
        # The removal is recorded until no run can write anything of them.
        assert {name.rpartition(".")[2] for name in holding(carl_id)} == {'"users"', '"removals"'}
        assert holding("zebrafoo") == searched
        _, again = user(daemon, "carl", **given)
        assert found(daemon, again, "librarian") == []
        assert len(found(daemon, bob, "librarian", "zebrafoo")) == 3


def test_rows_of_a_user_who_was_removed_while_a_postgresql_was_away_go_when_it_is_back(
    tmp_path: Path, postgres_url: str
) -> None:
    write_program(tmp_path, INDEXED.format(index='index postgres { url "secret://env/SEARCH_URL" timeout 2s }'))
    with proxied(postgres_url) as proxy, running(tmp_path, "program", wait=True, SEARCH_URL=proxy.url) as daemon:
        _, carl = user(daemon, "carl")
        _, bob = user(daemon, "bob")
        fill(daemon, carl, "carl", WORD)
        fill(daemon, bob, "bob", "zebrafoo")
        for agent in ("reviewer", "librarian"):
            assert len(found(daemon, carl, agent)) == len(found(daemon, bob, agent, "zebrafoo")) == 3
        proxy.cut()
        done = daemon.symbi("user", "remove", "carl", "--yes")
        assert "deleted 3 items in the memory notes" in done.stdout
        assert done.returncode == 1, done.stdout + done.stderr
        assert "not deleted yet: index of notes: " in done.stderr
        assert "not deleted yet: index of library: " in done.stderr
        plain = postgres_url.replace("postgresql+asyncpg:", "postgresql:")
        assert WORD in str(asyncio.run(_said_in(plain)))
        proxy.reconnect()
        until(lambda: WORD not in str(asyncio.run(_said_in(plain))), what="their deletion")
        assert "zebrafoo" in str(asyncio.run(_said_in(plain)))


def test_a_user_who_is_removed_at_one_daemon_is_gone_from_the_other(tmp_path: Path, postgres_url: str) -> None:
    given = on_postgres(postgres_url)
    with two(tmp_path, postgres_url, SHARED) as (one, other):
        _, carl = user(one, "carl", **given)
        _, bob = user(one, "bob", **given)
        admin = make_token(other, "--scope", "admin", **given)
        for daemon in (one, other):
            remember(daemon, carl, "reviewer", f"carl keeps {WORD} by {daemon.root.name}")
            remember(daemon, bob, "reviewer", f"bob keeps zebrafoo by {daemon.root.name}")
        pushed = ask(other, carl, "POST", "/index", {"text": f"carl pushed {WORD}", "tags": [WORD], "project_id": WORD})
        assert pushed.status == 200, pushed
        made = make_webhook(other, carl, f"carl's {WORD}")
        assert made.post(json.dumps({"said": WORD}).encode()).status == 202
        until(lambda: len(ask(one, carl, "GET", "/v1/memory/items").json()["items"]) == 4, what="the run")
        for daemon in (one, other):
            until(partial(_found_twice, daemon, carl), what="both indexes")
        removed = shown(one, "user", "remove", "carl", "--yes", **given)
        assert (removed["items"], removed["problems"], removed["webhooks"]) == ({"library": 4}, [], 1)

        assert ask(other, carl, "GET", "/v1/memory/items").status == 401
        until(lambda: made.post().status == 404, what="the end of the webhook")
        _, again = user(other, "carl", **given)
        for daemon in (one, other):
            for token in (again, admin):
                assert not any(WORD in text for text in found(daemon, token, "reviewer"))
                said = [ask(daemon, token, "GET", path) for path in ("/v1/memory/export", "/v1/projects")]
                said.append(ask(daemon, token, "GET", f"/v1/projects/{WORD}/tags"))
                said.append(ask(daemon, token, "GET", f"/v1/memory/items/{pushed.json()['memory_ids'][0]}"))
                assert [answer.status for answer in said] == [200, 200, 200, 404]
                assert not any(f"{WORD} " in answer.body.decode() for answer in said)
            counted = ask(daemon, again, "GET", "/v1/collections/metrics").json()["collections"]
            assert [row["items"] for row in counted] == [0]
            assert len(found(daemon, bob, "reviewer", "zebrafoo")) == 2
