"""A collection that gets another index by changing one block: its items are found before, meanwhile and after."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from tests.lanes import LONG
from tests.runtime.daemon.running import Daemon, running, symbi, until, write_program

pytestmark = LONG

EMBEDDED = """\
memory notes {
    store     collection
    embedding hashing
}
"""
POSTGRES = """\
memory notes {
    store     collection
    embedding hashing
    index     postgres {
        url "secret://env/SEARCH_URL"
    }
}
"""


BOTH = """\
memory notes {
    store     collection
    embedding hashing
}
memory shared {
    store     collection
    embedding hashing
    index     postgres {
        url "secret://env/SEARCH_URL"
    }
}
"""
COUNT = 8


def state(daemon: Daemon) -> dict[str, Any]:
    """Return the index of the collection, and how much of it is indexed."""
    listed = json.loads(daemon.symbi("collection", "list", "--json").stdout)["collections"]
    measured = json.loads(daemon.symbi("collection", "metrics", "--json").stdout)["collections"]
    return {**listed[0], **measured[0]}


def _is_searched_by(daemon: Daemon, index: str) -> bool:
    return bool(state(daemon)["index"] == index)


def found(daemon: Daemon, query: str) -> str:
    """Return the first hit."""
    hits = json.loads(daemon.symbi("collection", "search", query, "--json").stdout)["hits"]
    return str(hits[0]["text"]) if hits else ""


def test_a_collection_is_moved_to_one_with_another_index(tmp_path: Path, postgres_url: str) -> None:
    url = postgres_url.replace("postgresql+asyncpg:", "postgresql:")
    write_program(tmp_path, BOTH)
    with running(tmp_path, "program", SEARCH_URL=url) as daemon:
        for text in ("Zebras are striped.", "Horses are not."):
            assert daemon.symbi("push", "-", "--collection", "notes", input=text).returncode == 0
        done = daemon.symbi("memory", "move", "notes", "shared", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        (row,) = json.loads(done.stdout)["agents"]
        assert (row["copied"], row["items_there"], row["indexed"], row["embedded"]) == (2, 2, 2, 2)
        done = daemon.symbi("collection", "search", "zebras", "--collection", "shared", "--json")
        assert json.loads(done.stdout)["hits"][0]["text"] == "Zebras are striped."


def test_a_collection_is_searched_by_another_index_after_a_reload(tmp_path: Path, postgres_url: str) -> None:
    url = postgres_url.replace("postgresql+asyncpg:", "postgresql:")
    write_program(tmp_path, EMBEDDED)
    with running(tmp_path, "program", SEARCH_URL=url) as daemon:
        for number in range(COUNT):
            done = daemon.symbi("push", "-", "--source-uri", f"x:{number}", input=f"Fact number {number}.")
            assert done.returncode == 0, done.stderr
        assert found(daemon, "fact number 7") == "Fact number 7."
        for program, index in ((POSTGRES, "postgres"), (EMBEDDED, "embedded")):
            write_program(tmp_path, program)
            until(partial(_is_searched_by, daemon, index))
            until(lambda: state(daemon)["embedded"] == COUNT)
            assert state(daemon)["state"] == "ready"
            assert found(daemon, "fact number 7") == "Fact number 7."
            daemon.symbi("push", "-", "--source-uri", f"new:{index}", input="Fact number 7 has changed.")
            daemon.symbi("push", "-", "--source-uri", f"new:{index}", input="Fact number 7.")
        # After moving back, items that were added meanwhile are there too.
        daemon.symbi("push", "-", input="A last word about zebras.")
        assert found(daemon, "zebras") == "A last word about zebras."
    # Without a daemon, with the same program.
    done = symbi("collection", "search", "zebras", "--json", root=tmp_path, SEARCH_URL=url)
    assert json.loads(done.stdout)["hits"][0]["text"] == "A last word about zebras."
