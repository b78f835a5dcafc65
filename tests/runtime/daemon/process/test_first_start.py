"""The start of a daemon: it waits for commands, and a first one that fails leaves nothing behind."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from runtime.daemon.process.root import make
from tests.lanes import LONG
from tests.runtime.daemon.running import running, symbi, until, write_program


def opened(process: int, file: str) -> bool:
    """Return whether the process has the file open."""
    for each in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):
            if str(each.readlink()) == file:
                return True
    return False


@pytest.mark.parametrize("broken", ["agent {", 'agent a {}\nwebhook w { path "/x" provider nobody }'])
def test_a_first_start_that_fails_leaves_no_root_behind(tmp_path: Path, broken: str) -> None:
    write_program(tmp_path, broken)
    done = symbi("up", "program", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", root=tmp_path)
    assert done.returncode == 2
    assert "error[" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["program"]


def test_a_port_that_is_taken_leaves_no_root_behind_and_names_the_variable(tmp_path: Path) -> None:
    write_program(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for flag, variable in (("--listen", "SYMBIONT_LISTEN"), ("--admin-listen", "SYMBIONT_ADMIN_LISTEN")):
            ports = {"SYMBIONT_LISTEN": "127.0.0.1:0", "SYMBIONT_ADMIN_LISTEN": "127.0.0.1:0", variable: address}
            done = symbi("up", "program", root=tmp_path, **ports)
            assert done.returncode == 2
            said = done.stderr
            assert f"{flag} {address}: the port is in use" in said
            assert f"{variable}=HOST:PORT" in said
    assert [each.name for each in tmp_path.iterdir()] == ["program"]


@pytest.mark.parametrize(
    "setting",
    [
        {"SYMBIONT_MASTER_KEY": "secret://env/NOT_THERE"},
        {"SYMBIONT_MASTER_KEY": "secret://file/not-there"},
        {"SYMBIONT_MASTER_KEY": "no reference"},
        {"SYMBIONT_DATABASE": "mysql://db/x"},
    ],
)
def test_a_key_that_is_not_there_leaves_no_root_behind(tmp_path: Path, setting: dict[str, str]) -> None:
    write_program(tmp_path)
    ports = {"SYMBIONT_LISTEN": "127.0.0.1:0", "SYMBIONT_ADMIN_LISTEN": "127.0.0.1:0"}
    done = symbi("up", "program", root=tmp_path, **ports, **setting)
    assert done.returncode == 2
    assert done.stderr.count("symbi: ") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["program"]


def test_a_folder_that_is_named_as_the_root_is_made_by_a_start_that_succeeds(tmp_path: Path) -> None:
    file, folder = write_program(tmp_path), tmp_path / "new/root"
    good = file.read_text()
    file.write_text("agent {")
    ports = ("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
    assert symbi("up", "program", *ports, "--root", "new/root", root=tmp_path).returncode == 2
    assert not folder.parent.exists()
    done = symbi("webhook", "logs", "--root", "new/root", root=tmp_path)
    assert done.returncode == 2
    assert f"`symbi up --root {folder}` makes one there" in done.stderr
    file.write_text(good)
    with running(tmp_path, "program", "--root", "new/root", wait=False) as daemon:
        daemon.root = folder
        daemon.wait_until_ready()
    assert folder.stat().st_mode & 0o777 == 0o700


@LONG
def test_a_daemon_waits_for_a_command_that_has_the_root(tmp_path: Path) -> None:
    write_program(tmp_path)
    root = make(tmp_path, os.environ, tmp_path)
    with (root.state / "lock").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with running(tmp_path, "program", wait=False) as daemon:
            until(lambda: opened(daemon.process.pid, held.name), what="its look at the lock")
            # Longer than a command takes, and much shorter than one waits for another.
            time.sleep(4)
            assert daemon.process.poll() is None
            held.close()
            daemon.wait_until_ready()
