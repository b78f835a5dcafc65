"""`python -m bench.reload [--json] [--reloads N]`: how long a reload blocks the event loop of a running root.

A root with two memories and N webhooks, a hundred per file, each with a secret and a filter, runs as in a daemon, on
uvloop; then a webhook of one file is changed, and the root reloads. Meanwhile a task yields repeatedly. The longest
time between two of its turns counts, in two ways: processor time of the loop's thread (*processor*, which other
processes do not lengthen), and elapsed time (*wall*, which includes other threads and processes; a compiling thread
takes up to the interpreter's switch interval of 5 ms at a time). *Idle* is the same task on the same loop, for as
long, without a reload. The median of several reloads counts.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from bench.harness.load import SECRET
from bench.harness.report import Ratio, command_line, show
from runtime.daemon.process.root import make
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.program.app import App
from runtime.daemon.server import LOOKS_FOR_CYCLES

WEBHOOKS = (100, 10_000)
RELOADS = 3
A_FILE = 100
_MEMORIES = """\
memory notes { path "notes" embedding hashing }
memory records { store collection embedding hashing }
agent recorder { memory notes }
"""
_WEBHOOK = """\
webhook hook-{number} {{
    path     "/hooks/{number}"
    provider github
    secret   "secret://env/BENCH_SECRET_{number}"
    agent    recorder
    event    "{event}"
    filter {{
        json_path "$.action"
        equals    "opened"
    }}
}}
"""


class Stop(NamedTuple):
    """The longest time between two turns, in milliseconds."""

    processor: float
    wall: float


class Turns:
    """Measures the longest stop while inside."""

    def __init__(self) -> None:
        self._processor = self._wall = 0.0

    async def __aenter__(self) -> Turns:
        self._task = asyncio.create_task(self._take(), name="turns")
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)
        self._task.cancel()
        await asyncio.wait({self._task})

    @property
    def longest(self) -> Stop:
        return Stop(self._processor * 1000, self._wall * 1000)

    async def _take(self) -> None:
        processor, wall = time.thread_time(), time.perf_counter()
        while True:
            await asyncio.sleep(0)
            now, clock = time.thread_time(), time.perf_counter()
            self._processor = max(self._processor, now - processor)
            self._wall = max(self._wall, clock - wall)
            processor, wall = now, clock


@asynccontextmanager
async def running(folder: Path, webhooks: int) -> AsyncIterator[App]:
    """Yield a root with this number of webhooks, run as by a daemon."""
    program = folder / "program"
    program.mkdir()
    (program / "memories.symbiont").write_text(_MEMORIES)
    for first in range(0, webhooks, A_FILE):
        (program / f"hooks-{first:06}.symbiont").write_text(_file(first, min(first + A_FILE, webhooks)))
    secrets = {f"BENCH_SECRET_{number}": f"{SECRET}-{number}" for number in range(webhooks)}
    os.environ.update(secrets)
    try:
        async with App.open(make(folder, os.environ, folder), ProcessSettings.read({})) as app:
            await app.start([program])
            await app.start_background(lambda name, work: asyncio.create_task(work, name=name))
            yield app
    finally:
        for name in secrets:
            del os.environ[name]


def _file(first: int, end: int, event: str = "push") -> str:
    return "".join(
        _WEBHOOK.format(number=number, event=event if number == first else "push") for number in range(first, end)
    )


async def measure(webhooks: int, reloads: int = RELOADS) -> dict[str, Any]:
    """Return the longest stops during the reloads, and without a reload."""
    with tempfile.TemporaryDirectory() as folder:
        async with running(Path(folder), webhooks) as app:
            # As in the daemon.
            gc.collect()
            gc.freeze()
            during, beside, seconds = list[Stop](), list[Stop](), list[float]()
            changed = Path(folder, "program", f"hooks-{0:06}.symbiont")
            for number in range(reloads):
                changed.write_text(_file(0, min(A_FILE, webhooks), f"event-{number}"))
                began = time.perf_counter()
                async with Turns() as turns:
                    assert await app.reload()
                seconds.append(time.perf_counter() - began)
                during.append(turns.longest)
                async with Turns() as turns:
                    await asyncio.sleep(seconds[-1])
                beside.append(turns.longest)
            assert len(app.table) == webhooks
    return {
        "webhooks": webhooks,
        "reload_ms": _median(during)._asdict(),
        "beside_ms": _median(beside)._asdict(),
        "seconds": round(statistics.median(seconds), 3),
    }


def _median(stops: Sequence[Stop]) -> Stop:
    return Stop(*(round(statistics.median(each), 2) for each in zip(*stops, strict=True)))


def ratios(results: Sequence[dict[str, Any]]) -> list[Ratio]:
    """Return the promised figures, in milliseconds of processor time."""
    return [
        Ratio(
            f"longest stop of a reload, {result['webhooks']:,} webhooks, ms of the processor",
            result["reload_ms"]["processor"],
            "less than 5",
        )
        for result in results
    ]


def table(results: Sequence[dict[str, Any]]) -> str:
    """Return the measurement as a Markdown table."""
    lines = ["| webhooks | reload: processor ms | wall ms | idle: processor ms | wall ms | a reload takes s |"]
    lines.append("|---:|---:|---:|---:|---:|---:|")
    for each in results:
        during, beside = each["reload_ms"], each["beside_ms"]
        lines.append(
            f"| {each['webhooks']:,} | **{during['processor']:.2f}** | {during['wall']:.1f} | "
            f"{beside['processor']:.2f} | {beside['wall']:.1f} | {each['seconds']:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    options = command_line("reload", __doc__, reloads=(RELOADS, "reloads of each program")).parse_args()
    # As in the daemon.
    gc.set_threshold(*LOOKS_FOR_CYCLES)
    results = [uvloop.run(measure(webhooks, options.reloads)) for webhooks in WEBHOOKS]
    show({"programs": results, "ratios": ratios(results)}, lambda _: table(results), as_json=options.json)


if __name__ == "__main__":
    main()
