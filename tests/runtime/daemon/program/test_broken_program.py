"""An empty, truncated or broken program never replaces the running one, neither by a reload nor by a restart."""

from __future__ import annotations

import gc
import json
import os
import pty
import select
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from runtime.daemon.process.root import LAST_PROGRAM_FILE, Root
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.program.app import SETTLE_SECONDS, App
from tests.lanes import LONG, first_of
from tests.runtime.daemon.running import BIN, GITHUB, SECOND, Daemon, environment, running, symbi, until, write_program

PORTS = ("--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")


def mounted(daemon: Daemon, path: str = "/hooks/second") -> bool:
    return daemon.request("GET", path).status == 405


def last_error(daemon: Daemon) -> str:
    error = daemon.readyz().json()["last_error"]
    return "" if error is None else str(error["message"])


def program_check(daemon: Daemon) -> dict[str, str]:
    done = daemon.symbi("readiness", "--json")
    (found,) = [row for row in json.loads(done.stdout)["checks"] if row["check"] == "program"]
    return dict(found)


@LONG
def test_a_file_that_is_truncated_and_written_again_never_unmounts_what_it_declares(tmp_path: Path) -> None:
    file = write_program(tmp_path, GITHUB + SECOND)
    seen: list[bool] = []
    with running(tmp_path, "program") as daemon:
        stop = threading.Event()

        def look() -> None:
            while not stop.is_set():
                seen.append(mounted(daemon))

        looking = threading.Thread(target=look)
        looking.start()
        pauses = []
        for turn in range(3):
            with daemon.reloading(), file.open("w") as handle:
                began = time.monotonic()
                # Cut between two blocks: the rest compiles.
                handle.write(GITHUB)
                handle.flush()
                time.sleep(0.6)
                handle.write(SECOND + f"# {turn}\n")
                handle.flush()
                pauses.append(time.monotonic() - began)
        stop.set()
        looking.join()
    assert seen
    # A pause may be longer than asked for on a busy machine.
    assert all(seen) or max(pauses) > SETTLE_SECONDS


def test_webhooks_that_a_reload_takes_away_are_named(tmp_path: Path) -> None:
    write_program(tmp_path)
    second = write_program(tmp_path, SECOND, "second.symbiont")
    with running(tmp_path, "program") as daemon:
        second.unlink()
        until(lambda: not mounted(daemon))
        assert daemon.readyz().json()["removed"] == ["second (/hooks/second)"]
        (said,) = until(lambda: daemon.entries("webhook_removed"))
        assert (said["level"], said["webhook"], said["path"]) == ("warning", "second", "/hooks/second")
        daemon.load(GITHUB + "# changed\n")
        assert daemon.readyz().json()["removed"] == []


@first_of("broken", ["webhook x {", None, ""], 2)
def test_a_restart_with_a_broken_program_serves_the_last_good_one(tmp_path: Path, broken: str | None) -> None:
    file = write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        # The running program, not the first one, is the last good one.
        kept = tmp_path / ".symbi" / LAST_PROGRAM_FILE
        first = kept.read_bytes()
        write_program(tmp_path, GITHUB + SECOND)
        until(lambda: mounted(daemon) and kept.read_bytes() != first)
        daemon.kill()
    if broken is None:
        file.unlink()
        file.parent.rmdir()
    else:
        file.write_text(broken)
    with running(tmp_path, "program") as daemon:
        assert mounted(daemon)
        assert daemon.github(b"{}", "1").status == 202
        assert last_error(daemon)
        check = program_check(daemon)
        assert check["status"] == "RED"
        assert "the last valid one runs" in check["text"]
        daemon.load(GITHUB)
        assert (mounted(daemon), last_error(daemon)) == (False, "")
        assert program_check(daemon)["status"] == "GREEN"


def test_the_kept_program_is_sealed_and_of_these_paths_only(tmp_path: Path) -> None:
    write_program(tmp_path, GITHUB.replace("secret://env/GITHUB_SECRET", "written-in-the-file"))
    with running(tmp_path, "program"):
        pass
    held = [file for file in (tmp_path / ".symbi").rglob("*") if file.is_file()]
    assert not [file for file in held if b"written-in-the-file" in file.read_bytes()]
    other = tmp_path / "other"
    other.mkdir()
    (other / "x.symbiont").write_text("webhook x {")
    done = symbi("up", "other", *PORTS, root=tmp_path)
    assert done.returncode == 2
    assert "S103" in done.stderr


def test_a_reload_that_was_asked_for_always_says_why_it_changed_nothing(tmp_path: Path) -> None:
    write_program(tmp_path)
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(60)
        with running(tmp_path, "program", wait=True, NOTIFY_SOCKET=address) as daemon:
            write_program(tmp_path, "webhook x {")
            refused = "reload_rejected"
            daemon.until_logged(refused)
            daemon.process.send_signal(signal.SIGHUP)
            daemon.until_logged(refused, 2)
            assert daemon.log.read_text().count(refused) == 2
            said = b""
            while b"the last program was refused" not in said:
                said = manager.recv(4096)
            assert b"hooks.symbiont:1:11: S103" in said


async def test_a_reload_looks_for_no_garbage_on_the_event_loop(tmp_path: Path) -> None:
    file = write_program(tmp_path, 'webhook w { path "/w" insecure_allow_unverified true }')
    (tmp_path / ".symbi").mkdir(0o700)
    full: list[int] = []

    def note(phase: str, about: dict[str, int]) -> None:
        if phase == "start" and about["generation"] == 2:
            full.append(about["generation"])

    async with App.open(Root(tmp_path), ProcessSettings.read({})) as app:
        await app.load([file])
        gc.callbacks.append(note)
        try:
            file.write_text(file.read_text() + "# changed\n")
            assert await app.reload()
        finally:
            gc.callbacks.remove(note)
    assert not full


@LONG
def test_a_daemon_whose_terminal_is_closed_stops(tmp_path: Path) -> None:
    write_program(tmp_path)
    process, master = pty.fork()
    if process == 0:
        # Not ignored, as it would be if the tests run in the background.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.chdir(tmp_path)
        os.execve(BIN / "symbi", ["symbi", "up", "program", *PORTS], environment())
    record = tmp_path / ".symbi/daemon.json"
    output = b""

    def shown() -> bytes:
        nonlocal output
        while select.select([master], [], [], 0)[0]:
            output += os.read(master, 4096)
        return output

    until(lambda: b"/hooks/github" in shown() and record.exists())
    # A hangup signal still reloads.
    os.kill(process, signal.SIGHUP)
    until(lambda: shown().count(b"program_loaded") == 2)
    os.close(master)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert not record.exists()


def test_journald_is_told_how_severe_a_line_is_and_gets_nothing_but_json(tmp_path: Path) -> None:
    write_program(tmp_path, GITHUB + SECOND.replace("GITHUB_SECRET", "NOT_THERE"))
    log = tmp_path / "daemon.log"
    log.touch()
    status = log.stat()
    stream = f"{status.st_dev}:{status.st_ino}"
    with running(tmp_path, "program", "--log-format", "json", wait=True, JOURNAL_STREAM=stream) as daemon:
        assert mounted(daemon, "/hooks/github")
    lines = log.read_text().splitlines()
    severities = {"critical": "<2>", "error": "<3>", "warning": "<4>", "info": "<6>", "debug": "<7>"}
    entries = [json.loads(line[3:]) for line in lines]
    assert [line[:3] for line in lines] == [severities[entry["level"]] for entry in entries]
    assert "warning" in {entry["level"] for entry in entries}
    (listening,) = [entry for entry in entries if entry["event"] == "listening"]
    assert {each["path"] for each in listening["webhooks"]} == {"/hooks/github", "/hooks/second"}


def test_why_a_daemon_does_not_start_is_json_too_and_severe(tmp_path: Path) -> None:
    write_program(tmp_path)
    log = tmp_path / "log"
    log.touch()
    stream = f"{log.stat().st_dev}:{log.stat().st_ino}"
    with socket.create_server(("127.0.0.1", 0)) as taken, log.open("wb") as output:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [BIN / "symbi", "up", "program", "--listen", address, "--log-format", "json"],
            cwd=tmp_path,
            env=environment(JOURNAL_STREAM=stream),
            stdout=output,
            stderr=output,
            check=False,
        )
    assert done.returncode == 2
    (line,) = log.read_text().splitlines()
    entry = json.loads(line.removeprefix("<3>"))
    assert line.startswith("<3>")
    assert entry["reason"] == f"--listen {address}: the port is in use"
    assert "SYMBIONT_LISTEN" in entry["help"]
