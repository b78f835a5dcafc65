"""`python -m bench.scale [--json]`: one daemon on SQLite compared with one, two and four that share a PostgreSQL
database.

Webhooks have no agent, so that only receiving is measured. Every daemon is a separate process on loopback, the load is
spread over their listeners, rounds alternate, and medians are compared. Daemons, PostgreSQL and load share the cores of
one machine: with few cores the ratios show the cost of sharing, not the capacity of more machines.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from bench.harness.load import Sample, github_request, load
from bench.harness.postgresql import NAMED, named, postgresql
from bench.harness.program import PATH, body, program
from bench.harness.report import command_line, show
from bench.receive import Server, daemon, processor_seconds

DAEMONS = (1, 2, 4)
CONNECTIONS = 64
ROUNDS = 3
LOOK_SECONDS = 0.01
"""Seconds between two samples of the wait events of PostgreSQL's connections."""


@dataclass(slots=True)
class Setting:
    """Daemons that share a database; `url` is None for SQLite."""

    name: str
    url: str | None
    servers: Sequence[Server]
    samples: list[Sample] = field(default_factory=list)
    waits: Counter[str] = field(default_factory=Counter)
    seconds: list[tuple[float, float]] = field(default_factory=list)
    """Processor seconds per delivery of the daemons and of PostgreSQL."""

    def row(self) -> dict[str, Any]:
        """Return medians over the rounds, and PostgreSQL's wait events as shares of the samples."""
        looks = sum(self.waits.values())
        return {
            "requests_per_second": round(statistics.median(sample.rate for sample in self.samples), 1),
            "p50_ms": round(statistics.median(sample.percentile(0.5) for sample in self.samples), 2),
            "p99_ms": round(statistics.median(sample.percentile(0.99) for sample in self.samples), 2),
            "daemons_us": round(1e6 * statistics.median(ours for ours, _ in self.seconds)),
            "postgresql_us": round(1e6 * statistics.median(theirs for _, theirs in self.seconds)),
            "postgresql": {name: round(count / looks, 2) for name, count in self.waits.most_common(4)},
        }


@contextmanager
def _setting(server: str, count: int) -> Iterator[Setting]:
    """Yield `count` daemons on a new database on `server`; with 0 one on SQLite."""
    keys = {"SYMBIONT_MASTER_KEY": "secret://env/BENCH_MASTER_KEY", "BENCH_MASTER_KEY": secrets.token_hex(32)}
    url = None
    if count:
        name = f"bench_{count}_{os.getpid()}"
        asyncio.run(_execute(server, f"CREATE DATABASE {name}"))
        url = named(server, name)
        keys["SYMBIONT_DATABASE"] = url
    source = program(1, agent=False)
    with ExitStack() as stack:
        servers = [stack.enter_context(daemon(source, environment=keys)) for _ in range(max(1, count))]
        yield Setting(f"{count} on PostgreSQL" if count else "1 on SQLite", url, servers)


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()


async def _round(setting: Setting, requests: int, tag: str) -> Sample:
    """Run one round over all listeners of `setting`."""
    request = github_request(PATH, body())
    each = len(setting.servers)
    before = await _processor(setting)
    looking = asyncio.create_task(_look(setting), name="look at PostgreSQL")
    start = time.perf_counter()
    parts = await asyncio.gather(
        *(
            load(
                "127.0.0.1",
                server.port,
                request,
                total=requests // each,
                connections=CONNECTIONS // each,
                tag=f"{tag}-{n}",
            )
            for n, server in enumerate(setting.servers)
        )
    )
    seconds = time.perf_counter() - start
    looking.cancel()
    await asyncio.wait({looking})
    ours, theirs = (after - then for after, then in zip(await _processor(setting), before, strict=True))
    setting.seconds.append((ours / requests, theirs / requests))
    return Sample(requests / seconds, sorted(second for part in parts for second in part.seconds))


async def _processor(setting: Setting) -> tuple[float, float]:
    """Return the processor seconds so far of the daemons, and of the server if it runs on this machine."""
    theirs = 0.0
    if setting.url is not None:
        connection = await asyncpg.connect(setting.url)
        theirs = processor_seconds(row[0] for row in await connection.fetch("SELECT pid FROM pg_stat_activity"))
        await connection.close()
    return processor_seconds(server.pid for server in setting.servers), theirs


_ACTIVE = """
SELECT coalesce(wait_event, 'CPU') FROM pg_stat_activity
WHERE state = 'active' AND datname = current_database() AND pid <> pg_backend_pid()
"""


async def _look(setting: Setting) -> None:
    """Count the wait events of the database's connections repeatedly."""
    if setting.url is None:
        return
    connection = await asyncpg.connect(setting.url)
    try:
        while True:
            setting.waits.update(row[0] for row in await connection.fetch(_ACTIVE))
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        await connection.close()


def measure(requests: int) -> dict[str, Any]:
    """Return the whole measurement as a JSON object."""
    with postgresql() as server, ExitStack() as stack:
        if server is None:
            raise SystemExit(f"PostgreSQL is unavailable: install pgserver, or set {NAMED} to the URL of a server")
        settings = [stack.enter_context(_setting(server, count)) for count in (0, *DAEMONS)]
        for turn in range(ROUNDS + 1):
            for setting in settings:
                for other in settings:
                    for each in other.servers:
                        each.settle()
                sample = asyncio.run(_round(setting, requests if turn else requests // 10, f"{turn}-{os.getpid()}"))
                if turn:
                    setting.samples.append(sample)
                else:
                    setting.seconds.clear()
    return {
        "connections": CONNECTIONS,
        "requests_per_round": requests,
        "cores": len(os.sched_getaffinity(0)),
        "rows": {setting.name: setting.row() for setting in settings},
    }


def table(result: dict[str, Any]) -> str:
    """Return the measurement as a Markdown table; ratios are relative to one daemon on PostgreSQL."""
    rows = result["rows"]
    one = rows["1 on PostgreSQL"]["requests_per_second"]
    lines = [
        "| daemons | deliveries/s | over one | p50 ms | p99 ms | daemons µs | PostgreSQL µs | its connections |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for name, row in rows.items():
        waits = ", ".join(f"{wait} {share:.0%}" for wait, share in row["postgresql"].items())
        rate = row["requests_per_second"]
        figures = (rate / one, row["p50_ms"], row["p99_ms"], row["daemons_us"], row["postgresql_us"], waits)
        lines.append(f"| {name} | {rate:,.0f} | {figures[0]:.2f} | {' | '.join(map(str, figures[1:]))} |")
    return "\n".join(lines)


def main() -> None:
    options = command_line("scale", __doc__, requests=(6_000, "requests per round")).parse_args()
    show(measure(options.requests), table, as_json=options.json)


if __name__ == "__main__":
    main()
