"""`python -m bench.receive [--json]`: the receiver compared with bare aiohttp and with adnanh's `webhook`, and its
parts.

Every server runs in a separate process on loopback; rounds alternate and medians are compared.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import receiver_parts
from bench.harness.load import SECRET, Sample, github_request, load
from bench.harness.program import BODY_BYTES, PATH, body, program
from bench.harness.report import Ratio, command_line, ratio_table, show

CONNECTIONS = 64
MANY = 10_000
KEEP_MB = 16
"""Megabytes of handled deliveries that the daemon stores in `sustained`: two thousand deliveries."""
NOTHING_MORE: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Server:
    """A server in a separate process."""

    port: int
    pid: int
    folder: Path

    def settle(self) -> None:
        """Wait until the server is idle, at most two minutes, so that work of the last round does not affect the
        next."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            before = processor_seconds([self.pid])
            time.sleep(0.5)
            if processor_seconds([self.pid]) - before <= 0.02:
                return


def processor_seconds(pids: Iterable[int]) -> float:
    """Return the processor seconds of these processes so far (proc(5)); 0 for ended ones, and without /proc."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


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
def _process(port: int, *command: str, folder: Path, environment: Mapping[str, str] = NOTHING_MORE) -> Iterator[Server]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env={**os.environ, "BENCH_SECRET": SECRET, "PYTHONPATH": str(Path(__file__).parent.parent), **environment},
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        _wait_for(port, process)
        yield Server(port, process.pid, folder)
    except RuntimeError:
        sys.stderr.write((folder / "log").read_text())
        raise
    finally:
        process.terminate()
        process.wait(120)


@contextmanager
def bare(*loop: str) -> Iterator[Server]:
    """Run bare aiohttp, on asyncio's own event loop or on `uvloop`."""
    port = _free_port()
    command = (sys.executable, "-m", "bench.harness.bare", str(port), *loop)
    with tempfile.TemporaryDirectory() as folder, _process(port, *command, folder=Path(folder)) as server:
        yield server


@contextmanager
def checked() -> Iterator[Server]:
    """Run the receiver with its checks and limits, without storage."""
    port = _free_port()
    command = (sys.executable, "-m", "bench.harness.checked", str(port))
    with tempfile.TemporaryDirectory() as folder, _process(port, *command, folder=Path(folder)) as server:
        yield server


@contextmanager
def adnanh() -> Iterator[Server]:
    """Run Debian's `webhook` (github.com/adnanh/webhook), which verifies the same signature, then evaluates a condition
    that never holds, so that it runs no command; it answers 202 then too."""
    port = _free_port()
    signature = {"source": "header", "name": "X-Hub-Signature-256"}
    event = {"source": "header", "name": "X-GitHub-Event"}
    rules = [
        {"match": {"type": "payload-hmac-sha256", "secret": SECRET, "parameter": signature}},
        {"match": {"type": "value", "value": "never", "parameter": event}},
    ]
    hook = {
        "id": PATH.rpartition("/")[2],
        "execute-command": "/bin/true",
        "trigger-rule": {"and": rules},
        "trigger-rule-mismatch-http-response-code": 202,
    }
    with tempfile.TemporaryDirectory() as folder:
        hooks = Path(folder) / "hooks.json"
        hooks.write_text(json.dumps([hook]))
        command = ("webhook", "-hooks", str(hooks), "-ip", "127.0.0.1", "-port", str(port))
        with _process(port, *command, folder=Path(folder)) as server:
            yield server


@contextmanager
def daemon(program: str, *, environment: Mapping[str, str] = NOTHING_MORE) -> Iterator[Server]:
    """Run this daemon with `program`; its state is on a real disk. `environment`: additional variables."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "program.symbiont"
        source.write_text(program)
        listen = ("--listen", f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{_free_port()}")
        command = (sys.executable, "-m", "runtime", "up", str(source), *listen, "--log-format", "json")
        with _process(port, *command, folder=Path(folder), environment=environment) as server:
            yield server


def compare(servers: dict[str, Server], requests: int, rounds: int = 3) -> dict[str, list[Sample]]:
    """Run alternating rounds against every server, after one warm-up each; a round begins when all of them are idle."""
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
    """Return requests per second, and milliseconds at the 50th and 99th percentile: medians over the rounds."""
    return {
        "requests_per_second": round(statistics.median(sample.rate for sample in samples), 1),
        "p50_ms": round(statistics.median(sample.percentile(0.5) for sample in samples), 2),
        "p99_ms": round(statistics.median(sample.percentile(0.99) for sample in samples), 2),
    }


def measure(requests: int) -> dict[str, Any]:
    """Return the whole measurement as a JSON object."""
    with ExitStack() as stack:
        servers = {
            "bare aiohttp": stack.enter_context(bare()),
            "bare aiohttp on uvloop": stack.enter_context(bare("uvloop")),
            "symbiont": stack.enter_context(daemon(program(1))),
            "symbiont without a store": stack.enter_context(checked()),
        }
        if shutil.which("webhook"):
            servers["adnanh/webhook"] = stack.enter_context(adnanh())
        samples = compare(servers, requests)
    with ExitStack() as stack:
        by_size = {"1 webhook": daemon(program(1)), f"{MANY:,} webhooks": daemon(program(MANY))}
        samples |= compare({name: stack.enter_context(server) for name, server in by_size.items()}, requests)
    rows = {name: median(of) for name, of in samples.items()}
    return {
        "connections": CONNECTIONS,
        "body_bytes": BODY_BYTES,
        "requests_per_round": requests,
        "rows": rows,
        "sustained": sustained(requests),
        "ratios": [*_ratios(rows), *receiver_parts.measure()],
    }


def sustained(requests: int) -> dict[str, float]:
    """Measure the steady state: the store is full, so each delivery deletes one, and a recorder runs all of them.

    Returns accepted deliveries per second, accepted and done deliveries per second, and microseconds of processor time
    per delivery until it is done.
    """
    environment = {"SYMBIONT_KEEP_SIZE": f"{KEEP_MB}MiB"}
    request = github_request(PATH, body())
    with daemon(program(1), environment=environment) as server:

        def send(total: int, tag: str) -> Sample:
            given = load("127.0.0.1", server.port, request, total=total, connections=CONNECTIONS, tag=tag)
            sample = asyncio.run(given)
            _wait_until_done(server)
            return sample

        send(2 * KEEP_MB * 1024 * 1024 // BODY_BYTES, "before")
        server.settle()
        began, before = time.monotonic(), processor_seconds([server.pid])
        accepted = send(requests, "then").rate
        return {
            "accepted_per_second": round(accepted, 1),
            "done_per_second": round(requests / (time.monotonic() - began), 1),
            "processor_us": round((processor_seconds([server.pid]) - before) / requests * 1e6, 1),
        }


def _wait_until_done(server: Server) -> None:
    """Wait until no delivery is queued or running."""
    query = "SELECT 1 FROM deliveries WHERE state IN ('queued', 'running') LIMIT 1"
    with closing(sqlite3.connect(f"file:{server.folder}/.symbi/symbiont.db?mode=ro", uri=True)) as database:
        while database.execute(query).fetchone():
            time.sleep(0.05)


def _ratios(rows: dict[str, dict[str, float]]) -> list[Ratio]:
    """Return the ratios of two rows that have an aim."""
    wanted = [
        ("symbiont", "bare aiohttp", "requests_per_second", "at least 0.6"),
        ("symbiont", "adnanh/webhook", "requests_per_second", "at least 1.5"),
        ("symbiont", "adnanh/webhook", "p99_ms", "at most 0.35"),
        ("symbiont without a store", "bare aiohttp", "requests_per_second", "at least 0.85"),
        ("1 webhook", f"{MANY:,} webhooks", "requests_per_second", "at most 1.2"),
    ]
    return [
        Ratio(f"{ours} / {theirs}, {what.replace('_', ' ')}", rows[ours][what] / rows[theirs][what], aim)
        for ours, theirs, what, aim in wanted
        if theirs in rows
    ]


def table(result: dict[str, Any]) -> str:
    """Return the measurement as Markdown tables."""
    lines = ["| server | requests/s | p50 ms | p99 ms |", "|---|---:|---:|---:|"]
    for name, row in result["rows"].items():
        lines.append(f"| {name} | {row['requests_per_second']:,.0f} | {row['p50_ms']} | {row['p99_ms']} |")
    if "adnanh/webhook" not in result["rows"]:
        lines.append("\nadnanh/webhook was skipped: `webhook` is not installed (apt-get install webhook)")
    kept = result["sustained"]
    kept = result["sustained"]
    lines += ["", "| sustained, with a full store | |", "|---|---:|"]
    lines += [f"| {name.replace('_', ' ')} | {value:,.0f} |" for name, value in kept.items()]
    lines += ratio_table(result["ratios"])
    return "\n".join(lines)


def main() -> None:
    options = command_line("receive", __doc__, requests=(10_000, "requests per round")).parse_args()
    show(measure(options.requests), table, as_json=options.json)


if __name__ == "__main__":
    main()
