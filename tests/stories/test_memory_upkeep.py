"""A daemon maintains its memories: new items are found at once, edits are noticed, indexes are rebuilt, logs expire."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime.daemon.process.root import make
from tests.lanes import LONG
from tests.runtime.daemon.running import GITHUB, Daemon, running, until, write_program

pytestmark = LONG

NOTES = "memory notes {\n    embedding hashing\n}\n"
PROGRAM = NOTES + GITHUB
BY_HAND = "# Agent Memory: reviewer\n\n## Facts\n"


def push(branch: str) -> bytes:
    return json.dumps({"ref": f"refs/heads/{branch}", "repository": {"full_name": "acme/shop"}}).encode()


def asked(daemon: Daemon, *arguments: str) -> Any:
    """Return the JSON output of a command."""
    done = daemon.symbi(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def search(daemon: Daemon, query: str) -> list[dict[str, Any]]:
    hits = asked(daemon, "memory", "search", "reviewer", query)["hits"]
    assert isinstance(hits, list)
    return hits


def texts(daemon: Daemon, query: str) -> list[str]:
    return [hit["item"]["text"] for hit in search(daemon, query)]


def check(daemon: Daemon, name: str) -> dict[str, str]:
    """Return one check of `symbi readiness`."""
    found: dict[str, str] = next(
        row for row in json.loads(daemon.symbi("readiness", "--json").stdout)["checks"] if row["check"] == name
    )
    return found


def indexed(daemon: Daemon) -> str:
    """Return the number of entries in the index, without reading the store."""
    return check(daemon, "index of notes")["text"]


def memory_folder(root: Path) -> Path:
    folder = root / "data/agents/reviewer"
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    return folder


def index_files(root: Path) -> list[Path]:
    """Return the indexes of memories: not that of tasks."""
    return [file for file in (root / ".symbi/index").glob("*.db") if not file.name.startswith("tasks-")]


def index_file(root: Path) -> Path:
    (found,) = index_files(root)
    return found


def remembered(root: Path) -> str:
    return "".join(log.read_text() for log in (root / "data/agents/reviewer/logs").glob("*.md"))


def many(root: Path, days: int, entries: int) -> int:
    """Fill the reviewer's memory with logs and return the number of their entries."""
    logs = memory_folder(root) / "logs"
    for back in range(days):
        day = datetime.now(UTC).date() - timedelta(days=back)
        text = "".join(f"\n## 10:{n % 60:02} — Entry {n} of {day}\n- step {n}\n" for n in range(entries))
        (logs / f"{day}.md").write_text(f"# Session Log: {day}\n{text}")
    return days * entries


def test_what_a_delivery_left_behind_is_found_at_once(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as daemon:
        assert daemon.github(push("lighthouse"), "1").status == 202
        until(lambda: (tmp_path / "data/agents/reviewer").exists() and "lighthouse" in remembered(tmp_path))
        (hit,) = search(daemon, "lighthouse")
        assert "lighthouse" in hit["item"]["text"]
        assert Path(hit["file"]).read_text().splitlines()[hit["line"] - 1].startswith("## ")
        # The vector is computed in the background; until then the item is found by its words.
        until(lambda: search(daemon, "lighthouse")[0]["parts"].get("vector", 0) > 0)


def test_what_a_person_writes_is_found_and_what_they_delete_is_not(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    memory = memory_folder(tmp_path) / "memory.md"
    memory.write_text(f"{BY_HAND}- The staging server is called walnut\n- Deploys happen on Tuesdays\n")
    with running(tmp_path, "program") as daemon:
        hit = search(daemon, "walnut")[0]
        assert (hit["file"], hit["line"]) == (str(memory), 4)
        memory.write_text(f"{BY_HAND}- Deploys happen on Tuesdays\n- The staging server is called hazel\n")
        assert texts(daemon, "hazel")[0] == "The staging server is called hazel"
        assert "walnut" not in "".join(texts(daemon, "staging server walnut"))


def test_edits_are_put_into_the_index_although_nobody_searches(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as daemon:
        assert indexed(daemon) == "0 entries"
        memory = memory_folder(tmp_path) / "memory.md"
        memory.write_text(f"{BY_HAND}- One\n- Two\n")
        until(lambda: indexed(daemon) == "2 entries", what="the index of the new file")
        replacing = memory.with_name("memory.md~")
        replacing.write_text(f"{BY_HAND}- One\n- Two\n- Three\n")
        replacing.rename(memory)
        until(lambda: indexed(daemon) == "3 entries", what="the index of the replaced file")
        memory.unlink()
        until(lambda: indexed(daemon) == "0 entries", what="the index without the file")


def test_another_model_embeds_everything_again_while_searches_go_on(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    count = many(tmp_path, 2, 40)
    with running(tmp_path, "program") as daemon:
        until(lambda: indexed(daemon) == f"{count} entries")
        daemon.load(PROGRAM.replace("hashing", "hashing { dimension 64 }"))
        assert len(search(daemon, "step 7")) == 10
        until(lambda: indexed(daemon) == f"{count} entries")
        until(lambda: search(daemon, "step 7")[0]["parts"].get("vector", 0) > 0, what="its vector of the other model")
        daemon.load(PROGRAM.replace("hashing", 'ollama { url "http://127.0.0.1:1" model "none" }'))
        answer = asked(daemon, "memory", "search", "reviewer", "step 7")
        assert len(answer["hits"]) == 10
        assert any("keyword" in note for note in answer["notes"])
        until(lambda: check(daemon, "embedding of notes")["status"] == "YELLOW")
        assert check(daemon, "index of notes")["text"] == f"{count} entries, {count} without a vector yet"


@pytest.mark.parametrize("damage", ["overwritten", "cut", "deleted", "a folder"])
def test_an_index_that_is_damaged_or_gone_is_made_again(tmp_path: Path, damage: str) -> None:
    write_program(tmp_path, PROGRAM)
    count = many(tmp_path, 2, 20)
    with running(tmp_path, "program") as daemon:
        until(lambda: indexed(daemon) == f"{count} entries")
    file = index_file(tmp_path)
    match damage:
        case "overwritten":
            file.write_bytes(b"no database at all" * 1000)
        case "cut":
            os.truncate(file, file.stat().st_size // 2)
        case "deleted":
            file.unlink()
        case _:
            file.unlink()
            file.mkdir()
    before = len(daemon.log.read_text())
    with running(tmp_path, "program") as daemon:
        assert len(search(daemon, "step 7")) == 10
        until(lambda: indexed(daemon).startswith(f"{count} entries"))

        def said() -> bool:
            text = daemon.log.read_text()[before:]
            return any(f'"logger": "symbiont.{each}"' in text for each in ("index", "memory"))

        assert damage == "deleted" or until(said, what="what was said of it")
        if damage == "a folder":
            assert check(daemon, "index of notes")["status"] == "YELLOW"


def test_a_daemon_that_is_killed_while_it_indexes_goes_on_when_it_is_back(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    count = many(tmp_path, 8, 120)
    for _ in range(4):
        with running(tmp_path, "program") as daemon:
            until(lambda: index_files(tmp_path))
            daemon.kill()
    with running(tmp_path, "program") as daemon:
        until(lambda: indexed(daemon) == f"{count} entries", what="the whole index, vectors too")
        assert len(search(daemon, "Entry 119")) == 10


@pytest.fixture
def small_index(tmp_path: Path) -> Iterator[Path]:
    """A root whose folder of indexes is a file system of 256 KiB."""
    folder = make(tmp_path, os.environ, tmp_path).state / "index"
    folder.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", folder], capture_output=True, check=False
    )
    if os.geteuid() != 0 or mounted.returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_disk_without_room_for_the_index_loses_nothing_that_is_remembered(tmp_path: Path, small_index: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as daemon:
        filler = small_index / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as handle:
            while handle.write(b"x" * 1024):
                pass
        for number in range(30):
            assert daemon.github(push(f"branch-{number}"), str(number)).status == 202
        until(lambda: all(f"branch-{number}\n" in remembered(tmp_path) for number in range(30)))
        until(lambda: check(daemon, "index of notes")["status"] != "GREEN")
        assert check(daemon, "memory notes")["status"] == "GREEN"
        subprocess.run(["mount", "-o", "remount,size=16m", small_index], check=True)
        assert len(search(daemon, "branch")) == 10
        until(lambda: indexed(daemon) == "30 entries", what="the index that has room again")
        assert check(daemon, "index of notes")["status"] == "GREEN"


def test_old_logs_are_compacted_at_the_start_when_their_time_passed_meanwhile(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    folder = memory_folder(tmp_path)
    old = folder / "logs/2020-01-02.md"
    old.write_text("# Session Log: 2020-01-02\n\n## 10:30 — Review\n- [fact] The cache is called pond\n- done\n")
    with running(tmp_path, "program") as daemon:
        until(lambda: not old.exists(), what="compaction")
        assert "The cache is called pond" in (folder / "memory.md").read_text()
        (hit,) = [hit for hit in search(daemon, "pond") if "pond" in hit["item"]["text"]]
        assert hit["item"]["memory_type"] == "semantic"
        daemon.until_logged('"flushed": 1')
        old.write_text("# Session Log: 2020-01-02\n\n## 10:30 — Put back\n- by hand\n")
    with running(tmp_path, "program") as daemon:
        assert old.exists(), "it was done today"


def test_a_memory_that_comes_with_a_reload_is_kept_like_the_others(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as daemon:
        assert indexed(daemon) == "0 entries"
        daemon.load(PROGRAM.replace("embedding", 'path "elsewhere"\n    embedding'))
        folder = tmp_path / "elsewhere/reviewer"
        folder.mkdir(parents=True)
        (folder / "memory.md").write_text(f"{BY_HAND}- One\n")
        until(lambda: indexed(daemon) == "1 entry", what="the index of the new folder")
        daemon.load(PROGRAM.replace("embedding", "store records\n    embedding"))
        assert daemon.github(push("carousel"), "1").status == 202
        until(lambda: indexed(daemon) == "1 entry", what="the index of the records")
        assert "carousel" in texts(daemon, "carousel")[0]
        assert len(index_files(tmp_path)) == 3


def test_nothing_that_is_found_is_readable_by_others(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program"):
        assert (tmp_path / ".symbi/index").stat().st_mode & 0o777 == 0o700
        assert index_file(tmp_path).stat().st_mode & 0o077 == 0


def test_commands_without_a_daemon_bring_the_index_up_to_date_themselves(tmp_path: Path) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as daemon:
        pass
    memory = memory_folder(tmp_path) / "memory.md"
    memory.write_text(f"{BY_HAND}- The staging server is called walnut\n")
    (hit,) = search(daemon, "walnut")
    assert "walnut" in hit["item"]["text"]
    # A search does not wait for a vector.
    until(lambda: search(daemon, "walnut")[0]["parts"].get("vector", 0) > 0, what="its vector")
    assert asked(daemon, "memory", "reindex")["memories"][0]["items"] == 1
