"""`symbi memory export` and `import` transfer everything, completely or not at all, and report each bad line."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.lanes import LONG
from tests.runtime.cli.memory.test_commands import PROGRAM, good, refused
from tests.runtime.daemon import forked
from tests.runtime.daemon.running import Daemon, environment, running, symbi, until, write_program
from tests.runtime.daemon.terminal import terminal

pytestmark = LONG

FACT = {"agent_id": "reviewer", "memory_type": "semantic", "timestamp": "2026-02-01T10:00:00Z"}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program") as started:
        yield started


def lines(*texts: str, **more: str) -> str:
    return "".join(json.dumps({**FACT, "text": text, **more}) + "\n" for text in texts)


def test_everything_goes_into_a_file_and_into_another_root(
    daemon: Daemon, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for number in range(3):
        good(daemon.symbi("memory", "write", "reviewer", f"fact {number}", "--author", "ada", "--tag", "t"))
    good(daemon.symbi("memory", "write", "reviewer", "ping", "--type", "episode"))
    good(daemon.symbi("memory", "write", "auditor", "ümläut", "--confidence", "0.5", "--risk-tier", "GREEN"))
    done = daemon.symbi("memory", "export", "--output", "all.jsonl")
    assert (good(done), done.stderr) == ("", "exported 5 items to all.jsonl\n")
    text = (tmp_path / "all.jsonl").read_text("utf-8")
    assert good(daemon.symbi("memory", "export")) == text
    assert len(good(daemon.symbi("memory", "export", "auditor")).splitlines()) == 1
    other = tmp_path_factory.mktemp("other")
    write_program(other, PROGRAM)
    with running(other, "program"):
        pass
    # Without a daemon, and from standard input; the second import changes nothing.
    first = symbi("memory", "import", "-", root=other, input=text)
    assert good(first) == "imported 5 items; 0 were there already\n"
    second = symbi("memory", "import", str(tmp_path / "all.jsonl"), "--json", root=other)
    assert json.loads(good(second)) == {"stored": 0, "there": 5, "refused": []}

    def bare(exported: str) -> list[dict[str, object]]:
        return [{k: v for k, v in json.loads(line).items() if k != "memory_id"} for line in exported.splitlines()]

    assert bare(good(symbi("memory", "export", root=other))) == bare(text)


def test_each_bad_line_is_named_and_the_others_are_imported(daemon: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    raw = [
        b"\xef\xbb\xbf" + lines("one").encode(),
        b"{]\n",
        b"\n",
        b'"text"\n',
        b'{"text": "caf\xe9"}\n',
        lines("two", memory="nots").encode(),
        lines("three").encode().removesuffix(b"\n") + b"\r\n",
        b"[" * 100_000 + b"\n",
        lines("four").encode().removesuffix(b"\n"),
    ]
    file.write_bytes(b"".join(raw))
    done = daemon.symbi("memory", "import", "some.jsonl")
    refused(done, 1, "imported 3 items; 0 were there already, 5 refused")
    said = done.stderr.splitlines()
    assert [line.split(":")[1] for line in said] == ["2", "4", "5", "8", "6"]
    for text in (
        "some.jsonl:2: it is not JSON: expecting property name",
        "some.jsonl:4: it is not a JSON object",
        "some.jsonl:5: it is not UTF-8: invalid byte 14",
        "some.jsonl:6: no memory is called 'nots' (did you mean notes?)",
        "some.jsonl:8: it is not readable JSON",
    ):
        assert text in done.stderr, done.stderr
    listed = json.loads(good(daemon.symbi("memory", "list", "--json")))["items"]
    assert {item["text"] for item in listed} == {"one", "three", "four"}
    again = json.loads(daemon.symbi("memory", "import", "some.jsonl", "--json").stdout)
    assert (again["stored"], again["there"], [each["line"] for each in again["refused"]]) == (0, 3, [2, 4, 5, 8, 6])


def test_lines_go_where_they_are_sent(daemon: Daemon) -> None:
    good(daemon.symbi("memory", "import", "-", "--agent", "auditor", "--memory", "audit", input=lines("a", "b")))
    listed = json.loads(good(daemon.symbi("memory", "list", "--json")))["items"]
    assert {(item["agent_id"], item["memory"]) for item in listed} == {("auditor", "audit")}
    refused(daemon.symbi("memory", "import", "-", "--agent", "no name", input=lines("a")), 2, "agent")
    refused(daemon.symbi("memory", "import", "-", "--memory", "nots", input=lines("a")), 1, "did you mean notes?")


def test_an_empty_import_and_an_empty_export_are_no_mistake(daemon: Daemon) -> None:
    assert good(daemon.symbi("memory", "import", "-", input="\n")) == "imported 0 items; 0 were there already\n"
    assert good(daemon.symbi("memory", "export")) == ""


def test_thousands_of_items_go_over_in_pages(daemon: Daemon) -> None:
    text = "".join(lines(f"fact number {number}") for number in range(2500))
    assert good(daemon.symbi("memory", "import", "-", input=text)) == "imported 2,500 items; 0 were there already\n"
    exported = good(daemon.symbi("memory", "export"))
    assert [json.loads(line)["text"] for line in exported.splitlines()] == [f"fact number {n}" for n in range(2500)]
    assert good(daemon.symbi("memory", "import", "-", input=exported)).startswith("imported 0 items; 2,500 were there")
    assert len(json.loads(good(daemon.symbi("memory", "list", "--limit", "1234", "--json")))["items"]) == 1234


def test_an_export_that_fails_leaves_the_file_as_it_was(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "all.jsonl").write_text("before")
    refused(daemon.symbi("memory", "export", "nobody", "--output", "all.jsonl"), 2, "no agent is called 'nobody'")
    assert (tmp_path / "all.jsonl").read_text() == "before"
    good(daemon.symbi("memory", "write", "reviewer", "fine"))
    broken = tmp_path / "audit" / "auditor"
    broken.mkdir(parents=True)
    (broken / "memory.md").write_text("no record")
    (tmp_path / "notes" / "other").mkdir()
    (tmp_path / "notes" / "other" / "memory.md").mkdir()
    done = daemon.symbi("memory", "export", "--output", "all.jsonl")
    refused(done, 1, "exported 1 item to all.jsonl", "not exported: ", "other")
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == 1


def test_an_interrupted_export_leaves_nothing_half_written(daemon: Daemon, tmp_path: Path) -> None:
    text = "".join(lines(f"fact number {number}") for number in range(3000))
    good(daemon.symbi("memory", "import", "-", input=text))
    folder = tmp_path / "out"
    folder.mkdir()
    asked = ["memory", "export", "--output", "out/all.jsonl"]
    process = forked.start(asked, cwd=tmp_path, env=environment())
    until(lambda: process.poll() is not None or any(folder.iterdir()))
    process.send_signal(signal.SIGINT)
    code = process.wait(60)
    left = [path.name for path in folder.iterdir()]
    assert (code, left) in [(130, []), (0, ["all.jsonl"])]
    assert daemon.readyz().status == 200


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_import_is_finished_by_doing_it_again(tmp_path: Path, number: int) -> None:
    write_program(tmp_path, PROGRAM)
    with running(tmp_path, "program"):
        pass
    (tmp_path / "all.jsonl").write_text("".join(lines(f"fact number {number}") for number in range(2000)))
    # Without a daemon: the command itself writes.
    memory = tmp_path / "notes" / "reviewer" / "memory.md"
    with (tmp_path / "errors").open("w+b") as errors:
        process = forked.start(["memory", "import", "all.jsonl"], cwd=tmp_path, env=environment(), stderr=errors)
        until(lambda: process.poll() is not None or memory.exists())
        process.send_signal(number)
        assert process.wait(60) in {-signal.SIGKILL, 130, 0}
        errors.seek(0)
        assert b"Traceback" not in errors.read()
    before = memory.read_text().count("\n- ")
    again = json.loads(good(symbi("memory", "import", "all.jsonl", "--json", root=tmp_path)))
    assert (again["there"], again["stored"]) == (before, 2000 - before)
    assert memory.read_text().count("\n- ") == 2000
    good(symbi("memory", "verify", root=tmp_path))


def test_a_terminal_shows_how_far_it_is_and_a_pipe_does_not(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "all.jsonl").write_text("".join(lines(f"fact number {number}") for number in range(1500)))
    shown = terminal(daemon, "memory", "import", "all.jsonl")
    assert "importing" in shown
    assert "imported 1,500 items" in shown
    # The bar is removed at the end.
    assert shown.rindex("imported 1,500") > shown.rindex("importing")
    assert daemon.symbi("memory", "reindex").stderr == ""


def _has_lines(file: Path, count: int) -> bool:
    return file.exists() and file.read_bytes().count(b"\n") > count


def test_a_daemon_that_is_stopped_in_the_middle_is_told(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "all.jsonl").write_text("".join(lines(f"fact number {number}") for number in range(20_000)))
    errors = (tmp_path / "errors").open("w+b")
    with errors:
        process = forked.start(["memory", "import", "all.jsonl"], cwd=tmp_path, env=environment(), stderr=errors)
        # The first page was answered: if that were lost, the command would own the root and do everything itself.
        until(partial(_has_lines, tmp_path / "notes" / "reviewer" / "memory.md", 600))
        daemon.kill()
        code = process.wait(60)
        errors.seek(0)
        said = errors.read().decode()
    assert code == 1, said
    assert "Traceback" not in said
    assert "stopped" in said
