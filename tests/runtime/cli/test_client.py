"""How a command reaches a daemon: operations that may have been done are not repeated, and errors name options."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from runtime.api.admin.operations import OPERATIONS, AdminCall
from runtime.api.admin.protocol import ROOT_HEADER
from runtime.cli import client
from runtime.cli.terminal.option_errors import error_of
from runtime.daemon.process.root import Root, adopting, make
from runtime.errors import SymbiontError, UsageError
from runtime.tools import TOOLS
from tests.runtime.daemon.running import running, symbi, write_program

PROGRAM = """\
memory notes {
    path      "notes"
    embedding hashing
}
agent reviewer {
    memory      notes
    instruction "Remember."
}
"""

Answering = Callable[[socket.socket, str, bytes], None]


@contextmanager
def scripted(root: Path, answer: Answering) -> Iterator[list[str]]:
    """A fake daemon on `root`: each request is passed to `answer`, and recorded in the list. It ends after a repeatable
    operation."""
    asked: list[str] = []
    lock = (root / ".symbi" / "lock").open("ab")
    fcntl.flock(lock, fcntl.LOCK_EX)
    path = root / ".symbi" / "s"
    listener = bound(path)
    listener.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += connection.recv(65536)
                asked.append(head.split()[1].decode().removeprefix("/v1/"))
                answer(connection, asked[-1], f"{ROOT_HEADER}: {Root(root).identity}\r\n".encode())
                if may_be_repeated(asked[-1], {}):
                    lock.close()

    thread = threading.Thread(target=serve)
    thread.start()
    state = root / ".symbi" / "daemon.json"
    state.write_text(json.dumps({"socket": str(path)}))
    try:
        yield asked
    finally:
        state.unlink()
        lock.close()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def bound(path: Path) -> socket.socket:
    """Return a socket at this path, of any length."""
    made = socket.socket(socket.AF_UNIX)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    made.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)
    return made


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root whose program was loaded once."""
    made = tmp_path_factory.mktemp("loaded")
    write_program(made, PROGRAM)
    with running(made, "program"):
        pass
    return made


@pytest.fixture
def root(loaded: Path, tmp_path: Path) -> Path:
    """Return a copy of it that no daemon owns."""
    copy = shutil.copytree(loaded, tmp_path / "root")
    with adopting(make(copy, os.environ, copy, adopt=True), os.environ):
        return copy


def vanish(_connection: socket.socket, _name: str, _named: bytes) -> None:
    """Disconnect without an answer."""


def vanish_in_the_middle(connection: socket.socket, _name: str, named: bytes) -> None:
    """Begin a long answer, and disconnect."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n"
    connection.sendall(head + named + b"\r\n3\r\n{}\n\r\n")


@pytest.mark.parametrize("answer", [vanish, vanish_in_the_middle])
def test_what_may_have_been_done_is_not_done_again(root: Path, answer: Answering) -> None:
    with scripted(root, answer) as asked:
        done = symbi("memory", "write", "reviewer", "Pinged", "--type", "episode", root=root)
        assert asked == ["memory_write"]
        assert (done.returncode, done.stdout) == (1, "")
        assert "may have been done or not" in done.stderr
        assert "check whether it was done before you repeat it" in done.stderr
        # A read may be repeated: the command itself does it, because the root has no owner any more.
        listed = symbi("memory", "list", "--json", root=root)
        assert asked == ["memory_write", "memory_list"]
    assert json.loads(listed.stdout)["items"] == []


def test_an_interrupt_as_a_call_ends_closes_the_root(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: Any) -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)

    monkeypatch.setattr(client, "_answer", interrupted)
    with pytest.raises(KeyboardInterrupt), client.RootClient(client.find_root(root)) as opened:
        opened.call("memory_list")
    assert symbi("memory", "list", root=root).returncode == 0


def test_what_nobody_can_have_done_is_done_by_the_command(root: Path) -> None:
    state = root / ".symbi" / "daemon.json"
    bound(root / "refusing").close()
    for left in (root / "gone", root / "refusing"):
        state.write_text(json.dumps({"socket": str(left)}))
        assert symbi("memory", "write", "reviewer", left.name, root=root).returncode == 0
    listed = json.loads(symbi("memory", "list", "--json", root=root).stdout)["items"]
    assert {item["text"] for item in listed} == {"gone", "refusing"}


def test_an_answer_that_is_none_is_one_line(root: Path) -> None:
    def babble(connection: socket.socket, _name: str, named: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n" + named + b"\r\n{]}\n")

    with scripted(root, babble):
        done = symbi("token", "list", root=root)
    assert done.returncode == 1
    assert "the daemon's answer is invalid" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def may_be_repeated(name: str, parameters: dict[str, Any]) -> bool:
    target = AdminCall(name, parameters).target
    return target.idempotent or target.only_reads(parameters)


def test_every_operation_says_whether_it_looks_at_indexes_and_may_be_done_twice() -> None:
    assert not OPERATIONS.keys() & TOOLS.keys()
    for name in ("memory_search", "memory_stats", "readiness", "memory_import", "user_remove"):
        assert AdminCall(name, {}).target.indexes
    for name in ("webhook_list", "webhook_mounts", "token_create", "webhook_create"):
        assert not AdminCall(name, {}).target.indexes
    for name in ("memory_write", "webhook_create", "token_create", "delivery_redeliver", "webhook_rotate_secret"):
        assert not may_be_repeated(name, {})
    for name in ("memory_search", "memory_import", "memory_reindex", "webhook_mounts"):
        assert may_be_repeated(name, {})
    assert may_be_repeated("agent_memory_sql", {"query": "SELECT 1"})
    assert not may_be_repeated("agent_memory_sql", {"query": "DELETE FROM t"})


def error_in(command: click.Command, told: dict[str, Any]) -> SymbiontError:
    """Return the error in the words of `command`."""
    with click.Context(command):
        return error_of(told, "otherwise")


COMMAND = click.Command(
    "push",
    params=[
        click.Argument(["text"], metavar="TEXT|-"),
        click.Option(["--tag", "tags"], multiple=True),
        click.Option(["--limit", "limit"], type=int),
        click.Option(["--replace/--no-replace", "replace"]),
    ],
)


@pytest.mark.parametrize(
    ("failure", "message", "hint"),
    [
        (
            {"field": "tags.0", "message": "too long", "example": {"tags": ["a", "b c"]}},
            "--tag: too long",
            "--tag a --tag 'b c'",
        ),
        ({"field": "limit", "message": "too many", "example": {"limit": 5}}, "--limit: too many", "--limit 5"),
        ({"field": "text", "message": "empty", "example": {"text": "Say it"}}, "TEXT|-: empty", "'Say it'"),
        ({"field": "limit", "message": "too many", "hint": "at most 5"}, "--limit: too many", "at most 5"),
        ({"field": "other.3.name", "message": "no"}, "other.3.name: no", None),
        ({"field": "replace", "message": "no", "example": {"replace": True}}, "--replace: no", None),
    ],
)
def test_a_wrong_parameter_is_called_what_the_command_calls_it(
    failure: dict[str, Any], message: str, hint: str | None
) -> None:
    error = error_in(COMMAND, {"message": "push: tags.0: too long", "exit_code": 2, "failure": failure})
    assert isinstance(error, UsageError)
    assert str(error) == message
    assert hint is None or hint in (error.hint or "")


def test_an_error_of_no_field_is_as_it_was() -> None:
    failure = {"code": "provider_unavailable", "message": "away"}
    error = error_in(COMMAND, {"message": "it is away", "hint": "later", "exit_code": 1, "failure": failure})
    assert (type(error), str(error), error.hint) == (SymbiontError, "it is away", "later")
    assert str(error_in(COMMAND, {})) == "otherwise"


def test_commands_name_their_options_when_a_parameter_is_wrong(root: Path) -> None:
    """Without a daemon; with one the same answer gives the same error."""
    done = symbi("memory", "write", "reviewer", "x", "--tag", "y" * 5000, root=root)
    assert done.returncode == 2
    assert "symbi: --tag: " in done.stderr
    assert "tags" not in done.stderr
