"""Stories across features, each undisturbed, and with a reload, a full disk and a lost database in the middle."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from tests.lanes import LONG
from tests.runtime.daemon.running import Daemon, on_postgres, until
from tests.runtime.daemon.v1 import ask, make_token
from tests.stories.disturbance import DISTURBED, World, world

pytestmark = LONG

__all__ = ["world"]

AGENTS = """\
memory notes { path "notes" embedding hashing }
memory facts { store collection embedding hashing }
memory copy { store collection embedding hashing }
agent reviewer { memory notes }
agent planner { memory facts }
webhook pushes { path "/hooks/github" provider github secret "secret://env/GITHUB_SECRET" agent reviewer memory facts }
"""
TWO_DAEMONS = """\
memory notes { store collection embedding hashing }
agent reviewer { memory notes }
webhook pushes { path "/hooks/github" provider github secret "secret://env/GITHUB_SECRET" agent reviewer }
"""
SHARED = "The walnut release is signed with the key of the archive, and the key is rotated every spring."


def texts(hits: list[dict[str, Any]]) -> list[str]:
    return [(hit.get("item") or hit)["text"] for hit in hits]


@DISTURBED
def test_hits_of_two_memories_are_ordered_by_one_relevance(world: World) -> None:
    with world.daemon(AGENTS) as daemon:
        for number in range(6):
            world.json(daemon, "memory", "write", "reviewer", f"Walnut number {number} is stored in a barn")
        best = "The walnut deadline is the ninth of March"
        write = ("memory", "write", "reviewer", best, "--memory", "facts")
        world.disturbed(lambda: world.run(daemon, *write))
        found = world.json(daemon, "memory", "search", "reviewer", "when is the walnut deadline")
        assert texts(found["hits"])[0] == best
        relevances = [hit["relevance"] for hit in found["hits"]]
        assert relevances[0] == max(relevances)
        assert max(Counter(hit["item"]["memory_id"] for hit in found["hits"]).values()) == 1
        assert {hit["item"]["memory"] for hit in found["hits"]} == {"notes", "facts"}


@DISTURBED
def test_the_namesake_of_a_removed_user_inherits_nothing(world: World) -> None:
    with world.daemon(AGENTS) as daemon:
        world.json(daemon, "user", "add", "carl")
        world.json(daemon, "user", "add", "bob")
        for name in ("carl", "bob"):
            for memory in ("notes", "facts"):
                write = ("memory", "write", "reviewer", f"{name} likes quinces", "--user", name, "--memory", memory)
                world.json(daemon, *write)
        carl = world.json(daemon, "user", "list")["users"]
        (old,) = [user["id"] for user in carl if user["user"] == "carl"]

        def remove() -> Any:
            done = world.run(daemon, "user", "remove", "carl", "--yes")
            return world.run(daemon, "user", "list") if "no user" in done.stderr else done

        world.disturbed(remove)
        added = world.json(daemon, "user", "add", "carl")
        assert added["id"] != old
        token = make_token(daemon, "--user", "carl", "--scope", "write", **world.given)
        for path in ("/v1/memory/search?agent=reviewer&query=quinces", "/v1/memory/items", "/v1/memory/export"):
            answer = ask(daemon, token, "GET", path)
            assert answer.status == 200, answer
            assert b"quinces" not in answer.body
        left = world.json(daemon, "memory", "search", "reviewer", "quinces", "--user", "bob")["hits"]
        assert Counter(texts(left)) == Counter(["bob likes quinces", "bob likes quinces"])


@DISTURBED
def test_what_is_exported_and_imported_is_summarized_once(world: World) -> None:
    with world.daemon(AGENTS) as daemon:
        said = [f"On day {number} the orchard sold {number} crates of walnuts." for number in range(1, 7)]
        for text in said:
            world.json(daemon, "push", "-", "--collection", "facts", "--type", "episodic", stdin=text)
        exported = world.run(daemon, "memory", "export", "--memory", "facts")
        assert exported.returncode == 0, exported.stderr
        lines = exported.stdout
        take = ("memory", "import", "-", "--memory", "copy", "--agent", "copy")
        world.disturbed(lambda: world.run(daemon, *take, stdin=lines))
        period = ("--since", "2026-01-01", "--until", "2100-01-01")
        summarize = ("collection", "summarize", "--collection", "copy", "--provider", "none", *period)
        first = world.json(daemon, *summarize)
        assert "walnuts" in first["summary"]
        imported = world.json(daemon, "memory", "list", "--memory", "copy", "--type", "episode")["items"]
        assert Counter(item["text"] for item in imported) == Counter(said)
        assert {*first["source_memory_ids"]} == {item["memory_id"] for item in imported}
        assert world.json(daemon, *summarize) == first


@DISTURBED
def test_a_paragraph_of_two_files_stays_until_neither_has_it(world: World, tmp_path: Path) -> None:
    one, other = tmp_path / "one.md", tmp_path / "other.md"
    for file in (one, other):
        file.write_text(f"{SHARED}\n")

    def push(*files: Path) -> Any:
        return world.run(daemon, "push", *map(str, files), "--collection", "facts", "--json")

    def found() -> list[str]:
        search = ("collection", "search", "key of the walnut release", "--collection", "facts")
        return [text for text in texts(world.json(daemon, *search)["hits"]) if SHARED in text]

    with world.daemon(AGENTS) as daemon:
        assert push(one).returncode == 0
        world.disturbed(lambda: push(other))
        assert len(found()) == 1
        one.write_text("Nothing of it is left in the first file.\n")
        world.disturbed(lambda: push(one))
        assert len(found()) == 1
        other.write_text("And nothing in the second.\n")
        world.disturbed(lambda: push(other))
        assert found() == []


@DISTURBED
def test_two_daemons_share_their_collections(world: World, postgres_url: str) -> None:
    world.given = world.given or on_postgres(postgres_url)
    with world.daemon(TWO_DAEMONS, "one") as one, world.daemon(TWO_DAEMONS, "other") as other:
        world.json(one, "memory", "write", "reviewer", "The first daemon knows of figs")
        write = ("memory", "write", "reviewer", "The second daemon knows of dates")
        world.disturbed(lambda: world.run(other, *write))
        body = b'{"action":"opened","number":1,"repository":{"full_name":"ada/medlar"}}'
        taken = until(lambda: one.github(body, "d1").status == 202)
        assert taken
        for daemon in (one, other):
            for word in ("figs", "dates", "medlar"):
                until(partial(finds, world, daemon, word), what=f"{word} on each daemon")
        items = world.json(other, "memory", "list", "--agent", "reviewer")["items"]
        assert max(Counter(item["text"] for item in items).values()) == 1


@DISTURBED
def test_a_task_is_completed_once_and_found_as_it_is(world: World) -> None:
    with world.daemon(AGENTS) as daemon:
        task_id = world.json(daemon, "task", "add", "Prune the walnut tree", "--tag", "garden")["task_id"]
        token = make_token(daemon, "--scope", "write", **world.given)

        def found(status: str) -> list[str]:
            body = {"query": "walnut", "status": status, "tags": ["garden"]}
            answer = ask(daemon, token, "POST", "/v1/tasks/search", body)
            assert answer.status == 200, answer
            return [task["task_id"] for task in answer.json()["tasks"]]

        assert found("pending") == [task_id]
        world.disturbed(lambda: world.run(daemon, "task", "done", task_id))
        shown = world.json(daemon, "task", "show", task_id)
        assert (shown["status"], [entry["source"] for entry in shown["history"]]) == ("completed", ["user", "user"])
        assert (found("pending"), found("completed")) == ([], [task_id])


def finds(world: World, daemon: Daemon, word: str) -> bool:
    hits = world.json(daemon, "memory", "search", "reviewer", word)["hits"]
    return any(word in text for text in texts(hits))
