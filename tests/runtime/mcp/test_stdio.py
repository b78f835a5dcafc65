"""`symbi mcp` as a process: no input of a client ends it, and the root always has an owner."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from runtime.daemon.process.root import make
from runtime.tools import TOOLS
from tests.lanes import LONG
from tests.runtime.daemon import forked
from tests.runtime.daemon.running import BIN, environment, symbi, until
from tests.runtime.mcp.lines import HANDSHAKE, Lines, lines


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lines]:
    """One process for all tests that do not end it, on a new root."""
    root = tmp_path_factory.mktemp("made") / "below" / "memory"
    with lines(root, log=root.parent.parent / "log") as started:
        started.begin()
        yield started
        assert started.call("get-collections")["isError"] is False
        assert started.end() == 0
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert stat.S_IMODE((root / ".symbi").stat().st_mode) == 0o700
    assert not (root / ".symbi" / "daemon.json").exists()
    assert (root.parent.parent / "log").read_text() == ""


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{bad json", -32700),
        (b"\xff\xfe\x00", -32700),
        (b"[" * 100_000, -32700),
        (b"[1, 2]", -32600),
        (b"42", -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": [1], "method": "tools/list", "params": {}}', -32600),
        (b'{"jsonrpc": "2.0", "id": {"n": 1}, "method": "no/such"}', -32600),
        (b'{"jsonrpc": "2.0", "id": [1], "result": {}}', -32600),
    ],
)
def test_a_line_that_is_no_message_is_answered_so_and_ends_nothing(owner: Lines, line: bytes, code: int) -> None:
    owner.write(line + b"\n\n\r\n")
    said = owner.read()
    assert (said["id"], said["error"]["code"]) == (None, code)
    assert owner.ask("ping")["result"] == {}


@pytest.mark.parametrize(
    ("line", "asked", "what"),
    [
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', 1, "not a JSON-RPC 2.0 message"),
        (b'{"jsonrpc": "2.0", "id": "a", "method": 5}', "a", "not a JSON-RPC 2.0 message"),
    ],
)
def test_a_wrong_line_is_answered_to_the_request_that_it_was_meant_for(
    owner: Lines, line: bytes, asked: str | int | None, what: str
) -> None:
    owner.write(line + b"\n")
    said = owner.read()
    assert (said["id"], said["error"]["code"]) == (asked, -32600)
    assert what in said["error"]["message"]
    assert owner.ask("ping")["result"] == {}


def test_half_a_character_is_mended_and_the_rest_of_the_text_is_kept(owner: Lines) -> None:
    # A text that JavaScript cut after a number of characters may end in half an emoji.
    owner.write(
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"push","arguments":'
        b'{"text":"Whole \\ud83c\\udf89 and half \\ud83d"}}}\n'
    )
    (kept,) = owner.read()["result"]["structuredContent"]["memory_ids"]
    assert owner.call("get", memory_id=kept)["structuredContent"]["text"] == "Whole \U0001f389 and half \ufffd"
    owner.write(b'{"jsonrpc": "2.0", "id": "\\ud83d", "method": "ping"}\n')
    assert owner.read()["id"] == "\ufffd"


def test_a_line_that_is_too_long_is_read_over(owner: Lines) -> None:
    for _ in range(65):
        owner.write(b"x" * 1024 * 1024)
    owner.write(b"\n")
    assert "bytes" in owner.read()["error"]["message"]
    assert owner.ask("ping")["result"] == {}


def test_a_long_line_that_is_a_message_is_taken(owner: Lines) -> None:
    text = "A sentence like the others. " * 40_000
    kept = owner.call("push", text=text, project_id="long")
    # The tool decides whether to store so long a text; its error reaches the model.
    assert kept["isError"] or kept["structuredContent"]["chunksIndexed"] > 0


@pytest.mark.parametrize("method", ["no/such", "tools/nothing", "sampling/createMessage"])
def test_an_unknown_method_is_told(owner: Lines, method: str) -> None:
    assert owner.ask(method)["error"]["code"] == -32601


@pytest.mark.parametrize(
    "parameters", [{}, {"name": 7}, {"name": "push", "arguments": []}, {"name": "push", "arguments": "x"}]
)
def test_parameters_of_a_wrong_kind_are_told(owner: Lines, parameters: dict[str, Any]) -> None:
    assert owner.ask("tools/call", parameters)["error"]["code"] == -32602


def test_notifications_that_mean_nothing_are_passed_over(owner: Lines) -> None:
    owner.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 999_999}})
    owner.send({"jsonrpc": "2.0", "method": "notifications/strange", "params": {}})
    owner.send({"jsonrpc": "2.0", "id": 12345, "result": {}})
    assert owner.ask("ping")["result"] == {}


def test_a_root_without_a_program_has_a_collection(owner: Lines) -> None:
    assert owner.call("push", text="It needs no program.", project_id="bare")["structuredContent"]["inserted"] == 1
    found = owner.call("search", query_text="what does it need", project_id="bare")["structuredContent"]
    assert [hit["text"] for hit in found["hits"]] == ["It needs no program."]


def test_input_that_ends_at_once_ends_it_well(tmp_path: Path) -> None:
    done = subprocess.run(
        [BIN / "symbi", "mcp", "--root", tmp_path / "r"], stdin=subprocess.DEVNULL, capture_output=True,
        env=environment(), timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_what_was_asked_before_the_input_ended_is_answered(tmp_path: Path) -> None:
    call = {"name": "push", "arguments": {"text": "Piped in."}}
    asked = [
        {"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": HANDSHAKE},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "last", "method": "tools/call", "params": call},
    ]
    given = "".join(f"{json.dumps(each)}\n" for each in asked)
    done = forked.run(["mcp", "--root", str(tmp_path / "r")], cwd=tmp_path, env=environment(), input=given)
    *_, last = map(json.loads, done.stdout.splitlines())
    assert (done.returncode, last["id"], last["result"]["structuredContent"]["inserted"]) == (0, "last", 1)


def test_a_webhook_made_without_a_daemon_comes_with_a_note_that_nobody_listens(owner: Lines) -> None:
    made = owner.call("webhook_create", title="Nightly build", agent=None)["structuredContent"]
    assert made["url"]
    (note,) = made["notes"]
    assert "symbi up" in note


WEBHOOK = 'webhook builds { path "/hooks/builds" provider github insecure_allow_unverified true }'


def test_commands_that_post_to_a_daemon_report_that_none_is_running(tmp_path: Path) -> None:
    root, program = tmp_path / "root", tmp_path / "root/hooks.symbiont"
    root.mkdir()
    program.write_text(WEBHOOK)
    with lines(root, str(program)) as started:
        started.begin()
        assert started.call("get-collections")["isError"] is False
        for command in (("test", "builds", "--payload", "{}"), ("trigger", "builds")):
            done = symbi("webhook", *command, root=root)
            assert (done.returncode, done.stdout) == (1, "")
            assert "no daemon is running on this root" in done.stderr
            assert "symbi up" in done.stderr
        options = ("--path", "/hooks/others", "--secret", "secret://env/OTHERS", "--json")
        added = symbi("webhook", "add", "others", *options, root=root)
        assert json.loads(added.stdout)["daemon"] == "not running", added.stderr
        assert started.end() == 0


@LONG
def test_a_root_whose_client_left_without_asking_has_a_collection(tmp_path: Path) -> None:
    command: list[str | Path] = [BIN / "symbi", "mcp", "--root", tmp_path / "memory"]
    assert subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, timeout=60, check=False).returncode == 0
    listed: list[str | Path] = [BIN / "symbi", "collection", "list", "--root", tmp_path / "memory"]
    done = subprocess.run(listed, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_a_root_and_without_a_name_it_says_how_to_name_one(tmp_path: Path) -> None:
    done = symbi("mcp", root=tmp_path, HOME=str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert "no root here" in done.stderr
    assert "symbi mcp --root" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_path_or_a_root_that_cannot_be_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments, told in (
        (("--root", "r", "nothing.symbiont"), "nothing.symbiont: no such file or folder"),
        (("--root", "file"), "--root"),
        (("--root", "file/below"), "--root"),
    ):
        done = symbi("mcp", *arguments, root=tmp_path)
        assert done.returncode == 2
        assert told in done.stderr
        assert "Traceback" not in done.stderr


def test_a_program_with_errors_is_told_to_the_model_and_read_again(tmp_path: Path) -> None:
    program = tmp_path / "notes.symbiont"
    program.write_text("memory notes { store nothing }\n")
    with lines(tmp_path, str(program)) as started:
        started.begin()
        assert started.ask("tools/list")["result"]["tools"]
        failed = started.call("get-collections")
        assert failed["isError"]
        assert "the program has errors" in failed["content"][0]["text"]
        assert "T403" in failed["content"][0]["text"]
        program.write_text("memory notes {\n    store collection\n}\n")
        names = [row["name"] for row in started.call("get-collections")["structuredContent"]["collections"]]
        assert names == ["notes"]
        assert started.end() == 0


def test_when_the_owner_is_killed_another_goes_on_and_nothing_is_lost(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with lines(root) as first, lines(root, log=tmp_path / "second.log") as second:
        for each in (first, second):
            each.begin()
            kept = each.call("push", text=f"Kept by {each.process.pid}.", project_id="both")
            assert kept["structuredContent"]["inserted"] == 1
        recorded = json.loads((root / ".symbi" / "daemon.json").read_text())
        owner, other = (first, second) if recorded["pid"] == first.process.pid else (second, first)
        # Other commands work beside it, and a daemon reports which process owns the root.
        done = symbi("push", "--project", "both", "-", root=root, input="Kept from the command line.")
        assert done.returncode == 0, done.stderr
        up = symbi("up", str(Path("examples").absolute()), root=root)
        assert up.returncode == 2
        assert f"`symbi mcp` (process {owner.process.pid})" in up.stderr
        # Killed in the middle of a push that is not answered yet.
        items = [{"text": f"Entry {number} of what was cut off."} for number in range(500)]
        arguments = {"items": items, "project_id": "cut off"}
        owner.send(
            {"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "push", "arguments": arguments}}
        )
        owner.process.kill()
        owner.process.wait(60)
        found = other.call("search", query_text="kept", project_id="both", limit=10)["structuredContent"]
        assert len(found["hits"]) == 3
        assert json.loads((root / ".symbi" / "daemon.json").read_text())["pid"] == other.process.pid
        again = other.call("push", **arguments)["structuredContent"]
        assert again["inserted"] + again["skippedDuplicates"] == len(items)
        assert other.end() == 0


def test_it_stops_when_asked_to_also_while_its_client_reads_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with lines(root) as started:
        started.begin()
        # More responses than fit into a pipe.
        for number in range(40):
            started.send({"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": {}})
        until((root / ".symbi" / "daemon.json").exists)
        started.process.send_signal(signal.SIGTERM)
        assert started.process.wait(60) == 0
    assert not (root / ".symbi" / "daemon.json").exists()


@contextmanager
def held(root: Path) -> Iterator[None]:
    """A new root whose owner never answers."""
    root.mkdir()
    make(root, os.environ, root)
    with (root / ".symbi" / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_the_handshake_and_the_lists_are_answered_before_the_root_is_open(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with held(root), lines(root) as started:
        assert started.ask("initialize", HANDSHAKE)["result"]["serverInfo"]["name"] == "symbiont"
        assert {tool["name"] for tool in started.ask("tools/list")["result"]["tools"]} == TOOLS.keys()
        assert started.ask("resources/list")["result"]["resources"]
        assert started.ask("resources/templates/list")["result"]["resourceTemplates"]
        assert started.ask("tools/call", {"name": "no-such-tool"})["error"]["code"] == -32602
        assert started.ask("ping")["result"] == {}
        assert started.end() == 0


def test_the_tools_are_listed_while_a_call_waits_for_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with ExitStack() as holding:
        holding.enter_context(held(root))
        with lines(root) as started:
            started.begin()
            call = {"name": "get-collections", "arguments": {}}
            started.send({"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": call})
            started.send({"jsonrpc": "2.0", "id": "list", "method": "tools/list", "params": {}})
            assert started.read()["id"] == "list"
            holding.close()
            assert started.read()["id"] == "call"
            assert started.end() == 0
