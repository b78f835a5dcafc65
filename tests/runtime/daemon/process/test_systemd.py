"""sd_notify on a real datagram socket, and the unit file, checked by systemd itself."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.daemon.process.systemd import Notifier
from tests.runtime.daemon.running import running, symbi, write_program

UNIT = Path(__file__).parents[4] / "deploy/symbiont.service"


@contextmanager
def manager(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + address[1:] if address.startswith("@") else address)
        listener.settimeout(30)
        yield listener


@pytest.mark.parametrize("abstract", [False, True])
def test_ready_is_heard_on_a_socket_of_either_kind(tmp_path: Path, abstract: bool) -> None:
    address = f"@symbiont-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with manager(address) as heard:
        Notifier({"NOTIFY_SOCKET": address}).ready("2 webhooks")
        assert heard.recv(1024) == b"READY=1\nSTATUS=2 webhooks"


def test_reloading_carries_the_monotonic_time(tmp_path: Path) -> None:
    with manager(str(tmp_path / "notify")) as heard:
        Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")}).reloading()
        first, second = heard.recv(1024).decode().split("\n")
    assert first == "RELOADING=1"
    assert second.startswith("MONOTONIC_USEC=")
    assert second.partition("=")[2].isdigit()


async def test_the_watchdog_is_fed_when_it_watches_this_process(tmp_path: Path) -> None:
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100000", "WATCHDOG_PID": str(os.getpid())}
    with manager(str(tmp_path / "notify")) as heard:
        task = asyncio.create_task(Notifier(environ).watch())
        beats = [await asyncio.to_thread(heard.recv, 1024) for _ in range(3)]
        task.cancel()
    assert beats == [b"WATCHDOG=1"] * 3


async def test_a_watchdog_of_another_process_is_not_fed(tmp_path: Path) -> None:
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
    with manager(str(tmp_path / "notify")):
        await asyncio.wait_for(Notifier(environ).watch(), 60)


def test_without_a_service_manager_nothing_is_sent() -> None:
    Notifier({}).stopping()


def test_a_service_manager_that_went_away_does_not_matter(tmp_path: Path) -> None:
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("x")


def test_the_daemon_tells_its_whole_life_and_its_webhooks_also_those_made_while_it_runs(tmp_path: Path) -> None:
    write_program(tmp_path)
    address = str(tmp_path / "notify")
    with manager(address) as listener:

        def heard() -> str:
            return listener.recv(1024).decode()

        with running(tmp_path, "program", NOTIFY_SOCKET=address) as daemon:
            assert heard().startswith("READY=1\nSTATUS=1 webhooks on 127.0.0.1:")
            for number in (2, 3):
                assert daemon.symbi("webhook", "create", f"number {number}", "--agent", "reviewer").returncode == 0
                assert heard().startswith(f"STATUS={number} webhooks on")
            daemon.process.send_signal(signal.SIGHUP)
            assert [heard().partition("\n")[0] for _ in range(2)] == ["RELOADING=1", "READY=1"]
        assert heard().startswith("STOPPING=1")


def test_the_unit_hides_no_description_of_the_processor() -> None:
    """ProcSubset=pid hides /proc/cpuinfo, and onnxruntime logs that at each start, in lines that are not JSON."""
    assert "ProcSubset" not in UNIT.read_text()


def test_a_process_without_memory_is_ended_alone() -> None:
    """By default systemd stops the whole service when the kernel ends a worker of SQL tables."""
    assert "\nOOMPolicy=continue\n" in UNIT.read_text()


needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


@needs_systemd
def test_systemd_finds_no_fault_in_the_unit(tmp_path: Path) -> None:
    program = tmp_path / "symbi"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "symbiont.service"
    unit.write_text(UNIT.read_text().replace("/opt/symbiont/bin/symbi", str(program)))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_systemd
def test_the_drop_in_for_mcp_servers_allows_what_node_needs_and_nothing_else(tmp_path: Path) -> None:
    program = tmp_path / "symbi"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "symbiont.service"
    unit.write_text(UNIT.read_text().replace("/opt/symbiont/bin/symbi", str(program)))

    def judged() -> list[str]:
        verified = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
        assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")
        command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        return [line.split("=")[0] for line in lines if "=" in line]

    before = judged()
    folder = tmp_path / "symbiont.service.d"
    folder.mkdir()
    (folder / "mcp-servers.conf").write_text((UNIT.parent / "mcp-servers.conf").read_text())
    changed = [line for line in judged() if line not in before]
    assert changed == ["✗ MemoryDenyWriteExecute"]


@needs_systemd
def test_systemd_calls_the_units_exposure_ok() -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager", UNIT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_systemd_does_not_try_again_what_a_person_must_mend(tmp_path: Path) -> None:
    (lasting,) = re.findall(r"^RestartPreventExitStatus=(.+)$", UNIT.read_text(), re.MULTILINE)
    ports = {"SYMBIONT_LISTEN": "127.0.0.1:0", "SYMBIONT_ADMIN_LISTEN": "127.0.0.1:0"}
    file = write_program(tmp_path)
    wrong = symbi("up", "program", root=tmp_path, **{**ports, "SYMBIONT_WORKERS": "many"})
    assert str(wrong.returncode) == lasting
    good = file.read_text()
    file.write_text("agent {")
    broken = symbi("up", "program", root=tmp_path, **ports)
    assert str(broken.returncode) == lasting
    file.write_text(good)
    # What may pass by itself is tried again.
    away = symbi("up", "program", root=tmp_path, **ports, SYMBIONT_DATABASE="postgresql://u@127.0.0.1:1/x")
    assert away.returncode == 1
    no_interface = symbi("up", "program", root=tmp_path, **{**ports, "SYMBIONT_LISTEN": "192.0.2.1:0"})
    assert no_interface.returncode == 1
