"""`symbi kv`: with and without a daemon, for people and for programs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from runtime.daemon.process.root import make
from tests.lanes import LONG
from tests.runtime.daemon.running import Daemon, running, symbi, write_program
from tests.runtime.daemon.terminal import terminal

PROGRAM = 'memory notes { path "notes" embedding hashing }'

Symbi = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("kv")
    write_program(root, PROGRAM)
    with running(root, "program") as daemon:
        yield daemon


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Symbi:
    """Run `symbi kv`, with a daemon unless the test asks for both."""
    if getattr(request, "param", None) != "without a daemon":
        return partial(request.getfixturevalue("shared").symbi, "kv")
    write_program(tmp_path, PROGRAM)
    make(tmp_path, os.environ, tmp_path)
    return partial(symbi, "kv", root=tmp_path)


def good(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(done: subprocess.CompletedProcess[str], code: int, *parts: str) -> None:
    assert done.returncode == code, done
    assert all(part in done.stderr for part in parts), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("run", ["with a daemon", "without a daemon"], indirect=True)
def test_an_entry_is_set_read_listed_and_deleted(run: Symbi) -> None:
    made = json.loads(good(run("set", "a/b", '{"n": 12345678901234567890, "x": 1.0}', "--tag", "t", "--json")))
    assert good(run("get", "a/b")) == '{\n  "n": 12345678901234567890,\n  "x": 1.0\n}\n'
    entry = json.loads(good(run("get", "a/b", "--json")))
    assert (entry["version"], entry["tags"], entry["expires_at"]) == (made["version"], ["t"], None)
    assert good(run("set", "null", "null", "--expires", "2h")).startswith("null has version ")
    assert good(run("get", "null")) == "null\n"
    listed = good(run("list"))
    assert listed.splitlines()[0].split() == ["name", "value", "tags", "version", "expires", "changed"]
    assert "a/b" in listed
    assert [each["key"] for each in json.loads(good(run("list", "--tag", "t", "--json")))["entries"]] == ["a/b"]
    assert "there are more; --limit" in run("list", "--limit", "1").stderr
    assert good(run("delete", "a/b", "null", "--yes")) == "deleted 2 entries\n"
    assert good(run("list")) == "There are no entries.\n"
    refused(run("get", "a/b"), 2, "there is no entry 'a/b'")


def test_a_value_comes_from_a_file_or_standard_input(run: Symbi, tmp_path: Path) -> None:
    (tmp_path / "value.json").write_text('["ü"]\n', "utf-8")
    good(run("set", "file", f"@{tmp_path}/value.json"))
    good(run("set", "input", "-", "--text", input="plain text\n"))
    assert good(run("get", "file")) == '[\n  "ü"\n]\n'
    assert good(run("get", "input")) == '"plain text"\n'
    assert good(run("delete", "file", "input", "--yes")) == "deleted 2 entries\n"


def test_compare_and_set_tells_the_newest_version(run: Symbi) -> None:
    version = json.loads(good(run("set", "n", "1", "--if-version", "0", "--json")))["version"]
    refused(run("set", "n", "2", "--if-version", "0"), 1, f"the entry 'n' has version {version}, not 0")
    good(run("set", "n", "2", "--if-version", str(version)))
    assert good(run("get", "n")) == "2\n"
    good(run("delete", "n", "--yes"))


def test_what_cannot_be_done_is_refused_in_one_line(run: Symbi) -> None:
    refused(run("set", "n", "text"), 2, "the value is not JSON: expecting value (line 1, column 1)", "--text")
    refused(run("set", "n", "NaN"), 2, "the value is not JSON")
    refused(run("set", "n", "1e400"), 2, "not finite")
    refused(run("set", "n", '[{"a": 1, "a": 2}]'), 2, "duplicate key")
    refused(run("set", "n", "@missing.json"), 2, "missing.json")
    refused(run("set", "n", "1", "--expires", "2020-01-01"), 2, "is in the past")
    refused(run("set", "n", "1", "--expires", "soon"), 2, "is not a time", "from now")
    refused(run("set", "", "1"), 2, "NAME")
    refused(run("set", "n", json.dumps("x" * 70_000)), 2, "65,536 is the maximum")
    refused(run("delete"), 2, "give either names, --tag or --subject")
    refused(run("delete", "n", "--tag", "t", "--yes"), 2, "give either names, --tag or --subject")
    refused(run("delete", "n"), 2, "standard input is not a terminal")
    refused(run("delete", "n", "--yes"), 2, "there is no entry 'n'")
    assert good(run("list")) == "There are no entries.\n"


def test_everything_is_exported_into_a_file_that_is_replaced_as_a_whole(run: Symbi, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        good(run("set", name, json.dumps(name), "--tag", "t"))
    file = tmp_path / "all.jsonl"
    file.write_text("old")
    done = run("export", "--output", str(file))
    assert (good(done), done.stderr) == ("", f"exported 3 entries to {file}\n")
    entries = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert [(each["key"], each["value"], each["tags"]) for each in entries] == [
        (name, name, ["t"]) for name in ("one", "two", "three")
    ]
    assert good(run("export")) == file.read_text("utf-8")
    refused(run("export", "--output", str(tmp_path)), 2, "is a folder")
    assert good(run("delete", "--tag", "t", "--yes")) == "deleted 3 entries\n"


@LONG
def test_a_terminal_shows_no_character_that_controls_it(shared: Daemon) -> None:
    name = "\x1b[31mred"
    good(shared.symbi("kv", "set", name, '"\\u001b[2J"', "--tag", name))
    for command in (("list",), ("get", name), ("export",)):
        shown = terminal(shared, "kv", *command, NO_COLOR="1")
        assert "red" in shown or "2J" in shown
        assert "\x1b[2J" not in shown
        assert name not in shown
    good(shared.symbi("kv", "delete", name, "--yes"))
