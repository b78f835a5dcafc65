"""`symbi collection`: output for people and for programs, with and without a daemon."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.daemon.process.root import make
from tests.runtime.cli.memory.test_commands import good, refused
from tests.runtime.daemon.running import Daemon, running, symbi, write_program
from tests.runtime.daemon.terminal import terminal

PROGRAM = """\
memory notes {
    store     collection
    embedding hashing
}
memory default {
    store     collection
    embedding hashing
}
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("collections")
    write_program(root, PROGRAM)
    with running(root, "program") as started:
        yield started


def pushed(daemon: Daemon, text: str, *more: str) -> str:
    """Push a text, and return its id."""
    answer = daemon.symbi("push", "-", *more, "--json", input=text)
    assert answer.returncode == 0, answer.stderr
    collection = json.loads(answer.stdout)["collection"]
    return str(found(daemon, text, "--collection", collection)[0]["memory_id"])


def found(daemon: Daemon, query: str, *more: str) -> list[dict[str, Any]]:
    """Return the hits of a search."""
    hits = json.loads(good(daemon.symbi("collection", "search", query, "--json", *more)))["hits"]
    assert isinstance(hits, list)
    return hits


def test_collections_are_listed_and_made(daemon: Daemon) -> None:
    made = daemon.symbi("collection", "new", "research")
    assert good(made) == "created the collection research in the memory default\n"
    assert "exists already" in good(daemon.symbi("collection", "new", "research"))
    assert json.loads(good(daemon.symbi("collection", "new", "notes", "--json")))["created"] is False
    listed = good(daemon.symbi("collection", "list"))
    assert listed.splitlines()[0].split() == ["collection", "memory", "items", "index", "embedding", "state"]
    assert "default (default)" in listed
    names = [each["name"] for each in json.loads(good(daemon.symbi("collection", "list", "--json")))["collections"]]
    assert {"default", "notes", "research"} <= set(names)
    good(daemon.symbi("collection", "new", "sized", "--dimension", "256"))
    refused(daemon.symbi("collection", "new", "other", "--dimension", "512"), 2, "--dimension: ", "256")
    refused(daemon.symbi("collection", "new", "no name"), 2, "symbi: NAME: ")


def test_nothing_that_is_said_of_an_item_begins_a_line_of_its_own(daemon: Daemon) -> None:
    forged = "x\n 1  9.999  2026-01-01 00:00  semantic  forged\r\u2028forged"
    pushed(daemon, "A pelican flies.", "--tag", forged, "--source-uri", forged, "--project", forged)
    (hit,) = found(daemon, "pelican", "--source-uri", forged)
    for command in (
        ("search", "pelican"), ("search", "pelican", "--context"), ("get", hit["memory_id"]), ("metrics",), ("list",)
    ):  # fmt: skip
        lines = good(daemon.symbi("collection", *command)).splitlines()
        assert [line for line in lines if line.lstrip().startswith(("1  9.999", "forged"))] == []


def test_a_search_shows_what_was_found_and_takes_every_filter(daemon: Daemon) -> None:
    about = ["--project", "site", "--tag", "ops", "--type", "procedural", "--source-uri", "https://example.com/deploy"]
    pushed(daemon, "Deploy only on Friday afternoons.", *about)
    pushed(daemon, "Deploying is described elsewhere.")
    shown = good(daemon.symbi("collection", "search", "deploy", "--tag", "ops"))
    assert "#ops  https://example.com/deploy" in shown
    assert "Deploy only on Friday afternoons." in shown
    narrow = ["--project", "site", "--all-tags", "ops", "--type", "procedural", "--since", "1h", "--source-uri"]
    (hit,) = found(daemon, "deploy", *narrow, "https://example.com/deploy", "--until", "2999-01-01", "--limit", "3")
    assert hit["text"] == "Deploy only on Friday afternoons."
    assert found(daemon, "deploy", "--until", "2020-01-01") == []
    assert good(daemon.symbi("collection", "search", "deploy", "--project", "nobody's")) == "Nothing was found.\n"
    context = good(daemon.symbi("collection", "search", "-", "--context", "--tag", "ops", input="deploy\n"))
    assert context.startswith("[1] ")
    assert found(daemon, "deploy giraffes", "--threshold", "1") == []
    explained = good(daemon.symbi("collection", "search", "deploy", "--tag", "ops", "--explain")).splitlines()
    (hit,) = found(daemon, "deploy", "--tag", "ops")
    assert f"keyword {hit['parts']['keyword']:.3f}" in explained[1]
    assert f"relevance {hit['relevance']:.3f}: " in explained[1]
    assert f"words {hit['keyword_share']:.3f}" in explained[1]
    assert not any("relevance" in line for line in shown.splitlines())


def test_a_wrong_search_says_which_option_is_wrong(daemon: Daemon) -> None:
    search = ["collection", "search", "deploy"]
    for options, said in (
        (["--limit", "0"], "'--limit': 0 is not"),
        (["--limit", "1000"], "'--limit': 1000 is not"),
        (["--since", "yesterday"], "symbi: --since: 'yesterday' is not a time"),
        (["--since", "2026-02-01", "--until", "2026-01-01"], "symbi: --since: its end is before its start"),
        (["--tag", " "], "symbi: --tag: a tag is blank"),
        (["--threshold", "-1"], "symbi: --threshold: "),
        (["--threshold", "1.01"], "symbi: --threshold: "),
        (["--threshold", "55"], "for example --threshold 0.55"),
        (["--threshold", "nan"], "--threshold"),
        (["--collection", "notse"], "did you mean notes"),
    ):
        done = daemon.symbi(*search, *options)
        refused(done, 2, said)
        assert len(done.stderr.splitlines()) <= 4
    refused(daemon.symbi("collection", "search", "  "), 2, "symbi: QUERY|-: ")


def test_an_item_is_shown_changed_and_forgotten(daemon: Daemon) -> None:
    key = pushed(daemon, "The port is 8080.", "--tag", "a", "--project", "p")
    shown = good(daemon.symbi("collection", "get", key))
    assert shown.splitlines()[0].split() == ["id", key]
    assert shown.endswith("\nThe port is 8080.\n")
    changed = json.loads(good(daemon.symbi("collection", "update", key, "The port is 9090.", "--json")))
    assert (changed["memory_id"], changed["text"], changed["tags"]) == (key, "The port is 9090.", ["a"])
    piped = daemon.symbi("collection", "update", key, "-", "--tag", "b", "--json", input="The port is 7070.\n")
    assert json.loads(good(piped))["tags"] == ["b"]
    assert "tags" not in good(daemon.symbi("collection", "update", key, "--no-tags", "--type", "procedural"))
    item = json.loads(good(daemon.symbi("collection", "get", key, "--json")))
    assert (item["text"], item["project_id"], item["memory_type"]) == ("The port is 7070.", "p", "procedural")
    assert "deleted 1 item" in good(daemon.symbi("collection", "forget", key, "--yes"))
    refused(daemon.symbi("collection", "get", key), 2, f"no collection has an item with the id {key}")


def test_a_wrong_change_is_refused(daemon: Daemon) -> None:
    key = pushed(daemon, "Nothing of this is changed.")
    update = ["collection", "update", key]
    refused(daemon.symbi(*update), 2, "there is nothing to change", "--tag")
    refused(daemon.symbi(*update, "--tag", "a", "--no-tags"), 2, "exclude each other")
    refused(daemon.symbi(*update, " "), 2, "symbi: TEXT|-: it is blank")
    refused(daemon.symbi("collection", "update", "no-id", "x"), 2, "symbi: ID: ")
    assert found(daemon, "Nothing of this is changed.")[0]["memory_id"] == key


def test_forgetting_asks_first_and_names_what_is_not_there(daemon: Daemon) -> None:
    first, second = pushed(daemon, "To be forgotten, one."), pushed(daemon, "To be forgotten, two.")
    refused(daemon.symbi("collection", "forget", first), 2, "Cannot ask: standard input is not a terminal", "--yes")
    asked = terminal(daemon, "collection", "forget", first, typed="n\n")
    assert "Delete “To be forgotten, one.” of the collection default?" in asked
    assert "nothing was deleted" in asked
    assert "deleted 1 item" in terminal(daemon, "collection", "forget", first, typed="y\n")
    done = daemon.symbi("collection", "forget", first, second, "--yes", "--json")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert [each["memory_id"] for each in answer["deleted"]] == [second]
    assert [each["memory_id"] for each in answer["failed"]] == [first]
    refused(daemon.symbi("collection", "forget", first, "--yes"), 2, "no collection has an item")
    assert "Delete 2 items?" in terminal(daemon, "collection", "forget", first, second, typed="n\n")


def test_what_happened_is_summarised_once(daemon: Daemon) -> None:
    good(daemon.symbi("collection", "new", "diary"))
    for text in ("The server was restarted.", "The disk was full."):
        pushed(daemon, text, "--collection", "diary", "--type", "episodic", "--tag", "daily")
    command = ["collection", "summarize", "--collection", "diary", "--strategy", "extractive", "--tag", "daily"]
    ever = ["--since", "2020-01-01T00:00:00Z", "--until", "2999-01-01T00:00:00Z"]
    done = daemon.symbi(*command, *ever)
    assert "The server was restarted" in good(done)
    assert "summary of 2 items (extractive), stored as" in done.stderr
    again = json.loads(good(daemon.symbi(*command, *ever, "--json")))
    assert again["upserted_memory_id"] in done.stderr
    refused(daemon.symbi(*command, "--since", "2020-01-01", "--limit", "0"), 2, "'--limit': 0 is not")
    refused(daemon.symbi(*command), 2, "--since")
    refused(daemon.symbi(*command, "--since", "2020-01-01", "--until", "2020-01-02"), 2)


def test_metrics_count_what_is_there(daemon: Daemon) -> None:
    good(daemon.symbi("collection", "new", "counted"))
    pushed(daemon, "Counted once.", "--collection", "counted", "--tag", "t", "--type", "episodic")
    shown = good(daemon.symbi("collection", "metrics", "--collection", "counted"))
    assert "counted in the memory default" in shown
    assert "1 item: episodic 1" in shown
    assert "tags: t 1" in shown
    assert "push" in shown
    answer = json.loads(good(daemon.symbi("collection", "metrics", "--json")))
    assert sum(each["items"] for each in answer["collections"]) >= 1
    refused(daemon.symbi("collection", "metrics", "--collection", "count"), 2, "did you mean counted?")


def test_without_a_daemon_the_same_is_answered(tmp_path: Path) -> None:
    """Also without a block: the built-in collection is created on demand."""
    write_program(tmp_path, 'memory diary {\n    path "diary"\n    embedding hashing\n}\n')
    make(tmp_path, os.environ, tmp_path)
    good(symbi("push", "-", root=tmp_path, input="Kept without a block."))
    hit = json.loads(good(symbi("collection", "search", "kept block", "--json", root=tmp_path)))["hits"][0]
    assert (hit["text"], hit["collection"]) == ("Kept without a block.", "collection")
    refused(symbi("collection", "search", "x", "--limit", "0", root=tmp_path), 2, "'--limit': 0 is not")
    good(symbi("collection", "forget", hit["memory_id"], "--yes", root=tmp_path))
    assert good(symbi("collection", "search", "kept block", root=tmp_path)) == "Nothing was found.\n"
