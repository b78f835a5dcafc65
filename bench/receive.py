"""`python -m bench.receive [--json]`: the receiver against bare aiohttp, and 1 webhook against 10,000.

Every server runs in a process of its own on loopback; rounds alternate and medians of three are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.load import SECRET, Sample, github_request, load

CONNECTIONS = 64
BODY_BYTES = 8 * 1024
MANY = 10_000
PATH = "/hooks/github"

WEBHOOK = """\
webhook {name} {{
    path     "{path}"
    provider github
    secret   "secret://env/BENCH_SECRET"
    agent    recorder
}}
"""


def body() -> bytes:
    """A push-shaped JSON document of exactly 8 KiB."""
    document = {"action": "opened", "number": 7, "repository": {"full_name": "octo/site"}, "sender": {"login": "mona"}}
    filler = BODY_BYTES - len(json.dumps({**document, "body": ""}))
    return json.dumps({**document, "body": "x" * filler}).encode()


@dataclass(frozen=True, slots=True)
class Server:
    """A server in a process of its own."""

    port: int
    pid: int

    def settle(self) -> None:
        """Wait until it does nothing any more, at most two minutes: runs of the last round are not the next one's
        matter."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            before = self._ticks()
            time.sleep(0.5)
            if self._ticks() - before <= 2:
                return

    def _ticks(self) -> int:
        """Processor time used so far, in hundredths of a second (proc(5)); 0 where there is no /proc."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0
        return int(fields[11]) + int(fields[12])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError(f"a server ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("a server did not start within a minute")


@contextmanager
def _process(port: int, *command: str, folder: Path) -> Iterator[Server]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env={**os.environ, "BENCH_SECRET": SECRET, "PYTHONPATH": str(Path(__file__).parent.parent)},
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        _wait_for(port, process)
        yield Server(port, process.pid)
    except RuntimeError:
        sys.stderr.write((folder / "log").read_text())
        raise
    finally:
        process.terminate()
        process.wait(120)


@contextmanager
def bare(*loop: str) -> Iterator[Server]:
    """Bare aiohttp, on asyncio's own event loop or on `uvloop`."""
    port = _free_port()
    command = (sys.executable, "-m", "bench.bare", str(port), *loop)
    with tempfile.TemporaryDirectory() as folder, _process(port, *command, folder=Path(folder)) as server:
        yield server


@contextmanager
def daemon(webhooks: int) -> Iterator[Server]:
    """This daemon with so many webhooks; its state is on a real disk."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.symbiont"
        others = [WEBHOOK.format(name=f"other-{i}", path=f"/hooks/other/{i}") for i in range(1, webhooks)]
        program.write_text("\n".join([WEBHOOK.format(name="github", path=PATH), *others]))
        listen = ("--listen", f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{_free_port()}")
        command = (sys.executable, "-m", "runtime", "up", str(program), *listen, "--log-format", "json")
        with _process(port, *command, folder=Path(folder)) as server:
            yield server


def compare(servers: dict[str, Server], requests: int, rounds: int = 3) -> dict[str, list[Sample]]:
    """Alternating rounds against every server, after one warm-up each; a round begins when all of them are quiet."""
    request = github_request(PATH, body())
    samples: dict[str, list[Sample]] = {name: [] for name in servers}
    for turn in range(rounds + 1):
        for name, server in servers.items():
            for other in servers.values():
                other.settle()
            port = server.port
            total = requests if turn else max(requests // 10, CONNECTIONS)
            tag = f"{name}-{turn}-{os.getpid()}"
            sample = asyncio.run(load("127.0.0.1", port, request, total=total, connections=CONNECTIONS, tag=tag))
            if turn:
                samples[name].append(sample)
    return samples


def median(samples: list[Sample]) -> dict[str, float]:
    """Requests a second, and milliseconds at the 50th and 99th percentile: medians over the rounds."""
    return {
        "requests_per_second": round(statistics.median(sample.rate for sample in samples), 1),
        "p50_ms": round(statistics.median(sample.percentile(0.5) for sample in samples), 2),
        "p99_ms": round(statistics.median(sample.percentile(0.99) for sample in samples), 2),
    }


def measure(requests: int) -> dict[str, Any]:
    """The whole measurement as a JSON object."""
    with ExitStack() as stack:
        against_bare = compare(
            {
                "bare aiohttp": stack.enter_context(bare()),
                "bare aiohttp on uvloop": stack.enter_context(bare("uvloop")),
                "symbiont": stack.enter_context(daemon(1)),
            },
            requests,
        )
    with ExitStack() as stack:
        by_size = compare(
            {"1 webhook": stack.enter_context(daemon(1)), f"{MANY:,} webhooks": stack.enter_context(daemon(MANY))},
            requests,
        )
    rows = {name: median(samples) for name, samples in {**against_bare, **by_size}.items()}
    rate = {name: row["requests_per_second"] for name, row in rows.items()}
    return {
        "connections": CONNECTIONS,
        "body_bytes": BODY_BYTES,
        "requests_per_round": requests,
        "rows": rows,
        "symbiont_to_bare": round(rate["symbiont"] / rate["bare aiohttp"], 3),
        "one_to_many": round(rate["1 webhook"] / rate[f"{MANY:,} webhooks"], 3),
    }


def table(result: dict[str, Any]) -> str:
    """The measurement as a Markdown table."""
    lines = ["| server | requests/s | p50 ms | p99 ms |", "|---|---:|---:|---:|"]
    for name, row in result["rows"].items():
        lines.append(f"| {name} | {row['requests_per_second']:,.0f} | {row['p50_ms']} | {row['p99_ms']} |")
    lines.append("")
    lines.append(f"symbiont / bare aiohttp: **{result['symbiont_to_bare']}** (target: at least 0.55)")
    lines.append(f"1 webhook / {MANY:,} webhooks: **{result['one_to_many']}** (target: at most 1.2)")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.receive", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--requests", type=int, default=10_000, help="requests a round (default 10,000)")
    options = parser.parse_args()
    result = measure(options.requests)
    print(json.dumps(result, indent=2) if options.json else table(result))


if __name__ == "__main__":
    main()
