"""`symbi push` stores files completely and once, and reports each file that it cannot store."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.cli.collection.push_sources import LARGEST_TEXT, PushSources, pieces
from runtime.memory.store import LARGEST_TEXT as LARGEST_OF_A_STORE
from tests.lanes import LONG
from tests.runtime.cli.memory.test_commands import good, refused
from tests.runtime.daemon import forked
from tests.runtime.daemon.running import Daemon, environment, running, symbi, until, write_program
from tests.runtime.daemon.terminal import terminal
from tests.runtime.documents.made import pdf

PROGRAM = """\
memory notes {
    store     collection
    embedding hashing
}
"""

Push = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("push")
    write_program(root, PROGRAM)
    with running(root, "program") as started:
        yield started


@pytest.fixture
def collection(daemon: Daemon, request: pytest.FixtureRequest) -> str:
    """Return a new collection of the module's daemon."""
    name = str(abs(hash(request.node.name)))
    good(daemon.symbi("collection", "new", name))
    return name


@pytest.fixture
def push(daemon: Daemon, collection: str) -> Push:
    """Run `symbi push` into the test's own collection."""
    return lambda *arguments, **more: daemon.symbi("push", "--collection", collection, *map(str, arguments), **more)


def counts(done: subprocess.CompletedProcess[str], code: int = 0) -> dict[str, Any]:
    """Return the counts of a push with --json."""
    assert done.returncode == code, done.stderr
    answer = json.loads(done.stdout)
    names = ("files", "inserted", "updated", "skippedDuplicates", "removed")
    return {name: answer[name] for name in names if answer[name]}


def kept(daemon: Daemon, collection: str) -> list[dict[str, Any]]:
    """Return everything in the collection."""
    exported = good(daemon.symbi("memory", "export", collection))
    return [json.loads(line) for line in exported.splitlines()]


def test_files_of_each_kind_are_kept_with_their_addresses(
    daemon: Daemon, push: Push, collection: str, tmp_path: Path
) -> None:
    (tmp_path / "a b.md").write_text("# Deploy\n\nWe deploy on Friday.")
    (tmp_path / "plain.txt").write_text("The port is 8080.")
    (tmp_path / "page.html").write_text("<html><body><nav>Menu</nav><h1>Limits</h1><p>100 requests.")
    (tmp_path / "paper.pdf").write_bytes(pdf(["First page."], ["Second page."]))
    (tmp_path / "logo.png").write_bytes(b"\x89PNG")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.md").write_text("hidden")
    done = push(tmp_path, "--tag", "b", "--tag", "a", "--project", "site", "--type", "procedural")
    assert good(done).splitlines()[-1].split() == ["4", "5", "0", "0", "0", "0"]
    assert done.stderr == "skipped in folders: 2 (hidden 1, .png 1)\n" or ".png 1" in done.stderr
    found = {item["source_uri"]: item["text"] for item in kept(daemon, collection)}
    base = tmp_path.as_uri()
    assert found == {
        f"{base}/a%20b.md": "# Deploy\n\nWe deploy on Friday.",
        f"{base}/plain.txt": "The port is 8080.",
        f"{base}/page.html": "# Limits\n\n100 requests.",
        f"{base}/paper.pdf#page=1": "First page.",
        f"{base}/paper.pdf#page=2": "Second page.",
    }
    for item in kept(daemon, collection):
        assert (item["tags"], item["project_id"], item["memory_type"]) == (["a", "b"], "site", "procedural")


def test_the_same_again_changes_nothing_and_an_edited_file_leaves_nothing_stale(
    daemon: Daemon, push: Push, collection: str, tmp_path: Path
) -> None:
    file, paper = tmp_path / "a.md", tmp_path / "paper.pdf"
    file.write_text("Old.")
    paper.write_bytes(pdf(["One."], [], ["Three."], *([f"{number}."] for number in range(4, 40))))
    assert counts(push(tmp_path, "--json")) == {"files": 2, "inserted": 39}
    assert counts(push(tmp_path, "--json")) == {"files": 2, "skippedDuplicates": 39}
    file.write_text("New.")
    paper.write_bytes(pdf(["One."], ["Two."]))
    assert counts(push(tmp_path, "--json")) == {"files": 2, "inserted": 2, "skippedDuplicates": 1, "removed": 38}
    assert {item["text"] for item in kept(daemon, collection)} == {"New.", "One.", "Two."}
    file.write_text("Newer.")
    assert counts(push(file, "--no-replace", "--json")) == {"files": 1, "inserted": 1}
    file.write_text("")
    assert counts(push(file, "--json")) == {"files": 1, "removed": 2}
    assert {item["text"] for item in kept(daemon, collection)} == {"One.", "Two."}


def test_what_several_files_of_a_folder_say_stays_until_the_last_of_them_drops_it(
    daemon: Daemon, push: Push, collection: str, tmp_path: Path
) -> None:
    for name in "abc":
        (tmp_path / f"{name}.md").write_text("Licensed to all.")
    assert counts(push(tmp_path, "--json")) == {"files": 3, "inserted": 1, "skippedDuplicates": 2}
    assert counts(push(tmp_path, "--json")) == {"files": 3, "skippedDuplicates": 3}
    for number, name in enumerate("bac", 1):
        (tmp_path / f"{name}.md").write_text(f"Something else, {number}.")
        push(tmp_path / f"{name}.md")
        there = "Licensed to all." in {item["text"] for item in kept(daemon, collection)}
        assert there == (number < 3)


def test_standard_input_is_pushed(daemon: Daemon, push: Push, collection: str) -> None:
    assert counts(push("-", "--json", input="From a pipe.\n")) == {"files": 1, "inserted": 1}
    assert counts(push("-", "--source-uri", "https://example.com/a", "--json", input="<html><p>A page")) == {
        "files": 1,
        "inserted": 1,
    }
    assert counts(push("-", "--source-uri", "https://example.com/a", "--json", input="Another")) == {
        "files": 1,
        "inserted": 1,
        "removed": 1,
    }
    found = {item["text"].strip(): item["source_uri"] for item in kept(daemon, collection)}
    assert found == {"From a pipe.": None, "Another": "https://example.com/a"}
    assert good(push("-", input="")).splitlines()[-1].split() == ["1", "0", "0", "0", "0", "0"]


def test_each_broken_file_is_named_and_the_others_are_pushed(push: Push, tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text("Fine.")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "binary.md").write_bytes(b"a\0b")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    (tmp_path / "loop").symlink_to("loop")
    done = push(tmp_path, tmp_path / "gone.md", tmp_path / "loop")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].split() == ["1", "1", "0", "0", "0", "5"]
    for said in (
        "latin.txt: it is not UTF-8: byte 4",
        "binary.md: it is binary",
        "broken.pdf: it is not a readable PDF",
        "gone.md: no such file or folder",
        "loop: ",
    ):
        assert said in done.stderr
    assert "Traceback" not in done.stderr
    again = push(tmp_path, "--encoding", "latin-1", "--json")
    assert counts(again, 1) == {"files": 2, "inserted": 1, "skippedDuplicates": 1}
    named = [Path(each["path"]).name for each in json.loads(again.stdout)["failed"]]
    assert named == ["binary.md", "broken.pdf"]


def test_what_cannot_be_meant_is_refused(daemon: Daemon, push: Push, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("A.")
    (tmp_path / "b.md").write_text("B.")
    refused(push(tmp_path, "--source-uri", "https://example.com"), 2, "--source-uri is for a single file")
    refused(push("-", tmp_path), 2, "`-` (standard input) cannot be combined")
    refused(push(tmp_path, "--encoding", "nothing"), 2, "unknown encoding 'nothing'")
    refused(push(tmp_path, "--tag", "x" * 300), 2, "symbi: --tag: ")
    refused(daemon.symbi("push", str(tmp_path), "--collection", "notse"), 2, "--collection: ", "notes")
    refused(daemon.symbi("push"), 2, "PATH")
    made = f"`symbi up --root {tmp_path}`", f"`symbi mcp --root {tmp_path}`"
    refused(symbi("push", str(tmp_path), "--root", str(tmp_path), root=tmp_path), 2, "no root here", *made)


def test_a_dry_run_shows_what_would_be_pushed(daemon: Daemon, push: Push, collection: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# The title\n\nText.")
    (tmp_path / "bad.txt").write_bytes(b"\xff")
    done = push(tmp_path, "--dry-run")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].split()[1:] == ["markdown", "18", "The", "title"]
    assert "bad.txt: it is not UTF-8" in done.stderr
    (file,) = json.loads(push(tmp_path / "a.md", "--dry-run", "--json").stdout)["files"]
    assert (file["kind"], file["title"], file["source_uri"]) == ("markdown", "The title", (tmp_path / "a.md").as_uri())
    assert kept(daemon, collection) == []


def test_a_folder_without_documents_is_no_mistake(push: Push, tmp_path: Path) -> None:
    (tmp_path / "logo.png").write_bytes(b"\x89PNG")
    done = push(tmp_path)
    assert good(done) == "There was nothing to push.\n"
    assert ".png 1" in done.stderr


def test_a_name_that_is_not_utf_8_is_pushed_and_shown(push: Push, tmp_path: Path) -> None:
    raw = bytes(tmp_path) + b"/caf\xe9.md"
    with open(raw, "w") as file:  # noqa: PTH123 - no Path has such a name
        file.write("Café.")
    (file_,) = json.loads(good(push(tmp_path, "--dry-run", "--json")))["files"]
    assert file_["path"].endswith("caf\ufffd.md")
    assert file_["source_uri"].endswith("/caf%E9.md")
    assert counts(push(tmp_path, "--json")) == {"files": 1, "inserted": 1}


def test_a_long_text_is_kept_whole(daemon: Daemon, push: Push, collection: str, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("".join(f"This is sentence {number}.\n" for number in range(44_000)))
    answer = counts(push(tmp_path, "--json"))
    assert answer["inserted"] > 500
    assert counts(push(tmp_path, "--json")) == {"files": 1, "skippedDuplicates": answer["inserted"]}
    text = "\n".join(item["text"] for item in kept(daemon, collection))
    assert "This is sentence 0." in text
    assert "This is sentence 43999." in text


@LONG
def test_a_push_that_is_interrupted_is_finished_by_the_same_command(
    daemon: Daemon, push: Push, collection: str, tmp_path: Path
) -> None:
    for number in range(600):
        (tmp_path / f"{number:04}.md").write_text(f"This is note {number}.")
    command = ["push", "--collection", collection, str(tmp_path)]
    process = forked.start(command, cwd=daemon.root, env=environment())
    until(lambda: process.poll() is not None or kept_count(daemon, collection))
    process.send_signal(signal.SIGINT)
    code = process.wait(60)
    before = kept_count(daemon, collection)
    assert code == 130 or before == 600
    again = counts(push(tmp_path, "--json"))
    # The daemon may have kept the batch that it was at.
    assert again.get("skippedDuplicates", 0) >= before
    assert again["files"] == again.get("inserted", 0) + again.get("skippedDuplicates", 0) == 600
    assert kept_count(daemon, collection) == 600


def kept_count(daemon: Daemon, collection: str) -> int:
    """Return the number of items in the collection."""
    answer = json.loads(good(daemon.symbi("collection", "list", "--json")))["collections"]
    return next(int(each["items"]) for each in answer if each["name"] == collection)


@LONG
def test_a_daemon_that_is_killed_leaves_nothing_twice(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(500):
        (docs / f"{number:04}.md").write_text(f"This is note {number}.")
    with running(tmp_path, "program") as daemon:
        process = forked.start(["push", "docs"], cwd=tmp_path, env=environment())
        until(lambda: process.poll() is not None or kept_count(daemon, "notes"))
        daemon.process.kill()
        daemon.process.wait()
        assert process.wait(60) in {0, 1}
    # Without a daemon the command owns the root itself.
    answer = json.loads(good(symbi("push", "docs", "--json", root=tmp_path)))
    assert answer["inserted"] + answer["skippedDuplicates"] == 500
    lines = good(symbi("memory", "export", root=tmp_path)).splitlines()
    assert len({json.loads(line)["text"] for line in lines}) == len(lines) == 500


def test_a_terminal_shows_how_far_it_is(daemon: Daemon, collection: str, tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number:04}.md").write_text(f"Note {number}.")
    output = terminal(daemon, "push", "--collection", collection, str(tmp_path))
    assert "pushing: " in output
    assert "/300" in output


def test_pieces_are_no_longer_than_a_store_takes_and_lose_nothing() -> None:
    assert LARGEST_TEXT <= LARGEST_OF_A_STORE
    text = "line\n" * 700_000
    cut = pieces(text)
    assert "".join(cut) == text
    assert all(len(piece) <= LARGEST_TEXT and piece.endswith("\n") for piece in cut)
    assert [len(piece) for piece in pieces("x" * (LARGEST_TEXT + 1))] == [LARGEST_TEXT, 1]
    assert pieces(" \n") == []


def test_a_batch_is_of_bounded_size(tmp_path: Path) -> None:
    for number in range(450):
        (tmp_path / f"{number:03}.txt").write_text("x" * (2000 if number < 300 else 1))
    batches = list(PushSources([str(tmp_path)], None, None).batches(forgetting=True))
    assert sum(len(batch.items) for batch in batches) == sum(batch.complete_files for batch in batches) == 450
    assert all(len(batch.items) <= 200 and batch.characters < 300_000 for batch in batches)


def test_a_search_that_makes_vectors_first_shows_how_far_it_is(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as daemon:
        pass
    assert symbi("push", "-", root=tmp_path, input="We deploy on Friday.").returncode == 0
    shown = terminal(daemon, "collection", "search", "deploy")
    assert "searching: " in shown
    assert "We deploy on Friday." in shown
