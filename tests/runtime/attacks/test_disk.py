"""A disk that fails or is full, at any commit: exactly the stored deliveries were answered 202."""

from __future__ import annotations

import contextlib
import resource
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.client import HTTPException
from itertools import product
from pathlib import Path

import pytest

from tests.lanes import EFFORT, LONG, first_of
from tests.runtime.daemon.running import BIN, Daemon, running, until, write_program

SENDERS = 3
EACH = 20
# The error, and which fsync of a thread fails with it.
FAULTS = [*dict.fromkeys([("EIO", 3), *product(("EIO", "ENOSPC", "EDQUOT"), range(1, 25 if EFFORT > 1 else 3))])]


def send(daemon: Daemon, worker: int, acknowledged: dict[str, str], statuses: set[int]) -> None:
    for number in range(EACH):
        name = f"{worker}-{number}"
        with contextlib.suppress(OSError, HTTPException):
            answer = daemon.github(b'{"action":"opened","number":"%s"}' % name.encode(), name)
            statuses.add(answer.status)
            if answer.status == 202:
                acknowledged[name] = answer.json()["delivery_id"]
        if daemon.process.poll() is not None:
            return


def send_all(daemon: Daemon) -> tuple[dict[str, str], set[int]]:
    """Return what was acknowledged, and every status."""
    acknowledged: dict[str, str] = {}
    statuses: set[int] = set()
    workers = [threading.Thread(target=send, args=(daemon, n, acknowledged, statuses)) for n in range(SENDERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return acknowledged, statuses


def kept(daemon: Daemon) -> dict[str, str]:
    rows = daemon.attempts("--limit", "10000")
    return {row["provider_delivery_id"]: row["delivery_id"] for row in rows if row["verdict"] == "accepted"}


def reasons(daemon: Daemon) -> list[str]:
    """Return the reason for the daemon's end from its log."""
    return [entry["reason"] for entry in daemon.entries("stopping") if entry["level"] == "critical"]


@contextlib.contextmanager
def failing(daemon: Daemon, error: str, number: int) -> Iterator[None]:
    """Make every fsync of each thread fail with `error`, from its `number`-th on."""
    trace = daemon.root / "trace"
    calls = "fsync,fdatasync,sync_file_range"
    command = [
        *("strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={calls}"),
        *("-e", f"inject={calls}:error={error}:when={number}+", "-p", str(daemon.process.pid)),
    ]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        status = Path(f"/proc/{daemon.process.pid}/status")
        until(lambda: tracer.poll() is not None or f"TracerPid:\t{tracer.pid}" in status.read_text())
        if tracer.poll() is not None:
            assert tracer.stderr is not None
            pytest.skip(f"strace cannot be used here: {tracer.stderr.read().decode().strip()}")
        yield
    finally:
        tracer.terminate()
        tracer.wait(30)
        if tracer.stderr is not None:
            tracer.stderr.close()


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to make syncs fail")
@first_of("error, number", FAULTS, 1)
def test_nothing_acknowledged_is_lost_when_a_sync_fails(tmp_path: Path, error: str, number: int) -> None:
    write_program(tmp_path)
    with running(tmp_path, "program") as daemon:
        with failing(daemon, error, number):
            acknowledged, statuses = send_all(daemon)
            # It must not continue as if nothing had happened: it stops, or refuses while a quota is used up.
            until(lambda: daemon.process.poll() is not None or (error == "EDQUOT" and daemon.readyz().status == 503))
            refuses = daemon.process.poll() is None
            daemon.kill()
        assert statuses <= {202, 503}
        if not refuses:
            assert daemon.process.returncode == 1
            assert any("disk" in reason or "rror" in reason for reason in reasons(daemon)), daemon.log.read_text()
        log = daemon.log.read_text()
        assert "Traceback" not in log, log
    with running(tmp_path, "program") as daemon:
        found = kept(daemon)
        assert acknowledged.items() <= found.items()

        # A sender without a response, or with a 503, sends again: each delivery is there once.
        def sent_again() -> dict[str, str] | None:
            answered, statuses = send_all(daemon)
            return answered if statuses == {202} else None

        again = until(sent_again, what="the acceptance of all deliveries")
        assert len(again) == SENDERS * EACH
        assert acknowledged.items() <= again.items()
        assert kept(daemon) == again


@LONG
def test_a_file_that_may_not_grow_loses_nothing(tmp_path: Path) -> None:
    """RLIMIT_FSIZE: writes fail with EFBIG in the middle, as on a disk with a quota."""
    write_program(tmp_path)
    with running(tmp_path, "program"):
        pass
    size = max(file.stat().st_size for file in (tmp_path / ".symbi").iterdir() if file.is_file())
    blocks = (size + 200_000) // 512
    shell = ("/bin/sh", "-c", f'trap "" XFSZ; ulimit -f {blocks}; exec "$0" "$@"', BIN / "symbi")
    acknowledged: dict[str, str] = {}
    with running(tmp_path, "program", command=shell) as daemon:
        body = b'{"filler":"' + b"x" * 20_000 + b'","number":"%d"}'
        refused = 0
        for number in range(40):
            try:
                answer = daemon.github(body % number, f"large-{number}")
            except (OSError, HTTPException):
                refused += 1
                break
            assert answer.status in {202, 503}, answer
            if answer.status == 202:
                acknowledged[f"large-{number}"] = answer.json()["delivery_id"]
            else:
                refused += 1
        assert acknowledged
        assert refused
        if daemon.process.poll() is None:
            daemon.kill()
        else:
            assert daemon.process.returncode == 1
            assert reasons(daemon)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    with running(tmp_path, "program") as daemon:
        assert acknowledged.items() <= kept(daemon).items()
        assert daemon.github(b'{"n":1}', "after").status == 202
