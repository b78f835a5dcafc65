"""`python -m bench.restart [--json] [--chunks N]`: from a daemon's start to its first answer, with a large collection.

A collection of N generated chunks of about 1,000 characters is pushed into a new root, and one chunk into another, with
vectors by hashing. Then `symbi up` is started on each a few times, in turns, and a search is sent over its socket as
soon as that exists. The fastest of each side counts. *Processor* is the processor time of all threads of the daemon
until it has answered, and memory its size then (Linux).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from bench.harness.report import Ratio, command_line, show
from bench.push import generated, product
from runtime.daemon.process.root import INDEXES, Root

CHUNKS = 100_000
STARTS = 3
_WORDS = " ".join(next(generated(1)).split()[:5])
"""The beginning of the chunk that both collections contain."""
_QUESTION = json.dumps({"parameters": {"query_text": _WORDS, "collection": "notes"}}).encode()
_REQUEST = (
    b"POST /v1/search HTTP/1.1\r\nHost: x\r\nSymbiont-Root: %b\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
)


class Started(NamedTuple):
    """Seconds until the socket exists and until the first search is answered; processor seconds; bytes of
    memory."""

    ready: float
    found: float
    processor: float
    memory: float


def start(root: Path) -> Started:
    """Start a daemon, send it a search, and end it."""
    (root / ".symbi/daemon.json").unlink(missing_ok=True)
    command: list[str | Path] = [Path(sys.executable).with_name("symbi"), "up", root, "--root", root]
    command += ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
    begin = time.perf_counter()
    with (root / "daemon.log").open("ab") as log, subprocess.Popen(command, stdout=log, stderr=log) as daemon:
        try:
            while (place := _socket(root)) is None:
                if daemon.poll() is not None:
                    raise RuntimeError((root / "daemon.log").read_text())
                time.sleep(0.005)
            ready = time.perf_counter() - begin
            answer = _asked(root, place)
            found = time.perf_counter() - begin
            assert answer.startswith(b"HTTP/1.1 200"), answer
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["hits"]
            return Started(ready, found, _processor(daemon.pid), _memory(daemon.pid))
        finally:
            daemon.send_signal(signal.SIGTERM)


def _socket(root: Path) -> str | None:
    try:
        found = json.loads((root / ".symbi/daemon.json").read_bytes())["socket"]
    except (OSError, ValueError, KeyError):
        return None
    return str(found)


def _asked(root: Path, place: str) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(120)
        connection.connect(place)
        connection.sendall(_REQUEST % (Root(root).identity.encode(), len(_QUESTION), _QUESTION))
        return b"".join(iter(lambda: connection.recv(65536), b""))


def _processor(pid: int) -> float:
    """Return the processor seconds of a process (proc_pid_stat(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> int:
    """Return the resident bytes of a process (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


async def measure(chunks: int, starts: int = STARTS) -> dict[str, Any]:
    """Measure both sides in turns."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as beside:
        root, small = Path(folder), Path(beside)
        await product(root, list(generated(chunks)))
        await product(small, list(generated(1)))
        size = next((root / ".symbi" / INDEXES).glob("*.db")).stat().st_size
        started, others = [], []
        for _ in range(starts):
            started.append(start(root))
            others.append(start(small))
    many, one = (Started(*map(min, zip(*side, strict=True))) for side in (started, others))
    return {
        "chunks": chunks,
        "rows": {
            "start, until the socket exists, seconds": (many.ready, one.ready),
            "start, until the first search is answered, seconds": (many.found, one.found),
            "the same, processor seconds": (many.processor, one.processor),
            "memory of the daemon, MB": (many.memory / 1e6, one.memory / 1e6),
        },
        "megabytes": size / 1e6,
        "ratios": [Ratio("start and first search, many chunks / one", many.found / one.found, "")],
    }


def table(result: dict[str, Any]) -> str:
    """Return the measurement as Markdown tables."""
    lines = [f"| | {result['chunks']:,} chunks | one |", "|---|---:|---:|"]
    lines += [f"| {name} | {many:.2f} | {one:.2f} |" for name, (many, one) in result["rows"].items()]
    lines += [f"| the index's file, MB | {result['megabytes']:.0f} | |", "", "| ratio | |", "|---|---:|"]
    lines += [f"| {ratio.name} | **{ratio.value:.2f}** |" for ratio in result["ratios"]]
    return "\n".join(lines)


def main() -> None:
    options = command_line("restart", __doc__, chunks=(CHUNKS, "chunks of the large collection")).parse_args()
    show(asyncio.run(measure(options.chunks)), table, as_json=options.json)


if __name__ == "__main__":
    main()
