"""`symbi memory move` copies everything once, even after an interruption, and reports differences."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from runtime.daemon.process.root import make
from tests.lanes import LONG
from tests.runtime.cli.memory.test_commands import good, refused
from tests.runtime.daemon import forked
from tests.runtime.daemon.running import Daemon, environment, running, symbi, until, write_program
from tests.runtime.daemon.terminal import terminal

PROGRAM = """\
memory notes {
    store     collection
    embedding hashing
}
memory archive {
    store     collection
    embedding hashing
}
memory diary {
    path      "diary"
    embedding hashing
}
memory records {
    store     records
    path      "records"
    embedding hashing
}
agent writer {
    memory      diary
    instruction "Remember."
}
agent clerk {
    memory      records
    instruction "Remember."
}
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("move")
    write_program(root, PROGRAM)
    with running(root, "program") as started:
        yield started


@pytest.fixture
def empty(daemon: Daemon) -> Daemon:
    """Return the module's daemon, with empty memories."""
    for row in json.loads(good(daemon.symbi("memory", "stats", "--json")))["agents"]:
        if row["memory"] != "records":
            good(daemon.symbi("memory", "purge", row["agent"], "--memory", row["memory"], "--yes"))
    return daemon


def moved(daemon: Daemon, *arguments: str, code: int = 0) -> dict[str, Any]:
    """Return the answer of a move."""
    done = daemon.symbi("memory", "move", *arguments, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def exported(daemon: Daemon, memory: str) -> dict[str, dict[str, Any]]:
    """Return the items of a memory by id, without their locations."""
    lines = map(json.loads, good(daemon.symbi("memory", "export", "--memory", memory)).splitlines())
    return {line["memory_id"]: {k: v for k, v in line.items() if k not in {"memory", "agent_id"}} for line in lines}


def test_everything_goes_over_with_ids_times_and_what_is_known_of_it(empty: Daemon) -> None:
    for number in range(3):
        text = f"Fact {number}. " * (1 + 200 * number)
        good(empty.symbi("push", "-", "--collection", "notes", "--tag", "t", "--source-uri", f"x:{number}", input=text))
    own = {"agent_id": "reader", "memory_type": "episodic", "timestamp": "2026-02-01T10:00:00Z", "text": "Its own."}
    line = json.dumps({**own, "provenance": {"author": "ada", "confidence": 0.5}})
    good(empty.symbi("memory", "import", "-", "--memory", "notes", input=line))
    before = exported(empty, "notes")
    answer = moved(empty, "notes", "archive")
    notes, reader = answer["agents"]
    assert answer["good"] is True
    assert [(row["agent"], row["to"]) for row in answer["agents"]] == [("notes", "archive"), ("reader", "reader")]
    assert notes["copied"] + reader["copied"] == len(before)
    for row in answer["agents"]:
        assert row["items"] == row["copied"] == row["items_there"] == row["indexed"] == row["embedded"]
    assert exported(empty, "archive") == before == exported(empty, "notes")
    hits = json.loads(good(empty.symbi("collection", "search", "Fact", "--collection", "archive", "--json")))["hits"]
    assert {hit["collection"] for hit in hits} == {"archive"}
    # Repeated.
    again = moved(empty, "notes", "archive")["agents"]
    assert [(row["copied"], row["there"]) for row in again] == [(0, notes["items"]), (0, 1)]
    assert [row["sha256"] for row in again] == [notes["sha256"], reader["sha256"]]


def test_a_dry_run_copies_nothing(empty: Daemon) -> None:
    good(empty.symbi("push", "-", "--collection", "notes", input="One."))
    done = empty.symbi("memory", "move", "notes", "archive", "--dry-run")
    assert good(done).endswith("Nothing was copied.\n")
    assert exported(empty, "archive") == {}


def test_what_is_there_already_is_merged(empty: Daemon) -> None:
    good(empty.symbi("push", "-", "--collection", "notes", input="One."))
    good(empty.symbi("push", "-", "--collection", "notes", input="The same text."))
    good(empty.symbi("push", "-", "--collection", "archive", input="The same text."))
    good(empty.symbi("push", "-", "--collection", "archive", input="Another."))
    shown = good(empty.symbi("memory", "move", "notes", "archive"))
    assert shown.splitlines()[2].split() == ["notes", "→", "archive", "2", "1", "0", "1", "0", "3", "3", "3"]
    assert "no differences" in shown
    assert "notes did not change" in shown


def test_another_content_under_the_same_id_is_named_and_left(empty: Daemon) -> None:
    good(empty.symbi("push", "-", "--collection", "notes", input="One."))
    moved(empty, "notes", "archive")
    (key,) = exported(empty, "archive")
    # The first collection is the one that is changed.
    good(empty.symbi("collection", "update", key, "Changed."))
    answer = moved(empty, "notes", "archive", code=1)
    assert answer["good"] is False
    assert answer["agents"][0]["different_ids"] == [key]
    done = empty.symbi("memory", "move", "notes", "archive")
    refused(done, 1, f"archive has another item with the id {key}")
    texts = {next(iter(exported(empty, name).values()))["text"] for name in ("notes", "archive")}
    assert texts == {"One.", "Changed."}


def test_other_stores_are_copied_into_a_collection(empty: Daemon) -> None:
    good(empty.symbi("memory", "write", "writer", "A fact", "--tag", "t"))
    good(empty.symbi("memory", "write", "writer", "An episode", "--type", "episode"))
    good(empty.symbi("memory", "write", "clerk", "On record"))
    assert [row["copied"] for row in moved(empty, "diary", "archive")["agents"]] == [2]
    (row,) = moved(empty, "records", "archive", "--agent", "clerk")["agents"]
    assert (row["agent"], row["to"], row["copied"]) == ("clerk", "clerk", 1)
    texts = {item["text"] for item in exported(empty, "archive").values()}
    assert texts == {"A fact", "An episode", "On record"}
    assert exported(empty, "diary").keys() <= exported(empty, "archive").keys()


def test_what_cannot_be_moved_is_refused(empty: Daemon) -> None:
    good(empty.symbi("push", "-", "--collection", "notes", input="One."))
    refused(
        empty.symbi("memory", "move", "notes", "diary"), 1, "the store markdown of the memory diary", "memory export"
    )
    refused(empty.symbi("memory", "move", "notes", "records"), 1, "the store records of the memory records")
    refused(empty.symbi("memory", "move", "notes", "notes"), 2, "symbi: TO: it is notes, the memory to copy")
    refused(empty.symbi("memory", "move", "note", "archive"), 2, "symbi: FROM: no memory is called 'note'", "notes?")
    refused(empty.symbi("memory", "move", "notes", "archiv"), 2, "symbi: TO: no memory is called 'archiv'", "archive?")
    refused(empty.symbi("memory", "move", "notes", "archive", "--agent", "note"), 2, "symbi: --agent: ", "notes?")
    assert exported(empty, "archive") == {}


def test_an_empty_memory_and_an_empty_collection_are_no_mistake(empty: Daemon) -> None:
    assert moved(empty, "notes", "archive")["good"] is True
    assert moved(empty, "notes", "collection")["good"] is True


def test_a_terminal_shows_how_far_it_is(empty: Daemon) -> None:
    good(
        empty.symbi("push", "-", "--collection", "notes", input="".join(f"Fact number {n}. " * 20 for n in range(300)))
    )
    output = terminal(empty, "memory", "move", "notes", "archive")
    assert "moving" in output
    assert "no differences" in output


@LONG
def test_a_move_that_is_killed_is_finished_by_the_same_command(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    make(tmp_path, os.environ, tmp_path)
    item = {"agent_id": "notes", "memory_type": "episodic", "timestamp": "2026-02-01T10:00:00Z"}
    lines = "".join(json.dumps({**item, "text": f"Event {number}."}) + "\n" for number in range(6000))
    good(symbi("memory", "import", "-", "--memory", "notes", root=tmp_path, input=lines))

    def copied() -> int:
        with closing(sqlite3.connect(f"file:{tmp_path}/.symbi/symbiont.db?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM items WHERE memory = 'archive'").fetchone()[0])

    process = forked.start(["memory", "move", "notes", "archive"], cwd=tmp_path, env=environment())
    until(lambda: process.poll() is not None or copied())
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    before = copied()
    assert before
    (row,) = json.loads(good(symbi("memory", "move", "notes", "archive", "--json", root=tmp_path)))["agents"]
    assert (row["copied"], row["there"], row["items_there"]) == (6000 - before, before, 6000)
    assert row["indexed"] == row["embedded"] == copied() == 6000
    assert not row["problems"]
