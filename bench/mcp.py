"""`python -m bench.mcp [--json] [--items N]`: `symbi mcp` compared with the SDK's smallest server, and a search through
it compared with the engine called directly, in one run.

*Start*: from the start of the process to the response to `initialize`, to the first `tools/list`, and to the first
result of a tool. The sides alternate, and the fastest of the rounds counts: the smallest server, `symbi mcp` that owns
its root, and a second one on a root that another owns. *Search*: a collection of N items is searched in this process,
on a copy, by the collection's own `search`; then through `symbi mcp` that owns the root; then through a second `symbi
mcp`, which calls the first over its admin socket. The sides alternate, and the fastest of three turns of a question
counts; the overhead of the protocol is the difference of the medians.
"""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.harness.mcp_client import HELLO, SYMBI, Client
from bench.harness.report import Ratio, command_line
from bench.search import Texts

ROUNDS: Final = 9
ITEMS: Final = 2_000
QUERIES: Final = 100
TURNS: Final = 3
WARM: Final = 10
PUSHED: Final = 200
"""Texts of one push that fills the collection."""

PROGRAM: Final = "memory notes {\n    store     collection\n    embedding hashing\n}\n"


class Start(NamedTuple):
    """Milliseconds from the start of the process to three responses, the fastest of the rounds."""

    side: str
    initialize: float
    tools_list: float
    tool_result: float


class Search(NamedTuple):
    """Milliseconds of each search."""

    side: str
    times: Sequence[float]

    @property
    def median(self) -> float:
        """The median in milliseconds."""
        return statistics.median(self.times)


def starts(rounds: int = ROUNDS) -> list[Start]:
    """Measure the start of every side, one after the other in each round."""
    with tempfile.TemporaryDirectory() as folder, _owner(Path(folder) / "beside") as beside:
        sides: dict[str, tuple[Sequence[str], str, dict[str, Any]]] = {
            "the SDK's smallest server": (HELLO, "hello", {"name": "x"}),
            "symbi mcp, owner": ((*SYMBI, str(Path(folder) / "alone")), "memory_stats", {}),
            "symbi mcp, second": ((*SYMBI, str(beside)), "memory_stats", {}),
        }
        measured: dict[str, list[tuple[float, float, float]]] = {side: [] for side in sides}
        # The first round writes bytecode, and creates the root.
        for number in range(rounds + 1):
            for side, (command, tool, arguments) in sides.items():
                once = _start(command, tool, arguments)
                if number:
                    measured[side].append(once)
    return [Start(side, *map(min, zip(*times, strict=True))) for side, times in measured.items()]


def _start(command: Sequence[str], tool: str, arguments: dict[str, Any]) -> tuple[float, float, float]:
    began = time.perf_counter()
    client = Client(command)
    times = []
    for step in (
        client.initialize,
        lambda: client.ask("tools/list", {}),
        lambda: client.call(tool, arguments),
    ):
        step()
        times.append((time.perf_counter() - began) * 1000)
    client.close()
    return times[0], times[1], times[2]


@contextmanager
def _owner(root: Path) -> Iterator[Path]:
    """Yield a root that is owned by a running `symbi mcp`."""
    client = Client((*SYMBI, str(root)))
    client.initialize()
    client.call("memory_stats", {})
    try:
        yield root
    finally:
        client.close()


def searches(items: int = ITEMS, queries: int = QUERIES) -> list[Search]:
    """Measure the same searches on every side."""
    texts = Texts()
    asked = [texts.text(2, 5) for _ in range(queries + WARM)]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        root.mkdir()
        (root / "notes.symbiont").write_text(PROGRAM)
        with _connected(root) as owner:
            for start in range(0, items, PUSHED):
                pushed = [{"text": texts.text(20, 60)} for _ in range(min(PUSHED, items - start))]
                owner.call("push", {"items": pushed, "project_id": "bench"})
            _settle(owner)
        copy = Path(folder) / "copy"
        shutil.copytree(root, copy)
        # The program is recorded by its absolute path.
        (copy / ".symbi" / "program.json").unlink()
        return asyncio.run(_compared(root, copy, asked))


@contextmanager
def _connected(root: Path) -> Iterator[Client]:
    client = Client((*SYMBI, str(root)))
    client.initialize()
    try:
        yield client
    finally:
        client.close()


def _called(client: Client, query: str) -> None:
    client.call("search", {"query_text": query, "limit": 5})


def _settle(client: Client) -> None:
    """Wait until the index has everything, with its vectors."""
    while client.call("search", {"query_text": "settled", "limit": 1}).get("notes"):
        time.sleep(0.2)


async def _compared(root: Path, copy: Path, asked: Sequence[str]) -> list[Search]:
    """Search with the engine in this process, on the copy, and with a client of each kind on the root, in turns, so
    that other load on the machine affects all sides."""
    times: dict[str, list[float]] = {}
    with _connected(root) as owner:
        _called(owner, "the first")
        with _connected(root) as beside:
            async with _engine(copy) as engine:
                for _ in range(TURNS):
                    turn = {
                        "the engine": [await _timed(engine(query)) for query in asked],
                        "symbi mcp, owner": [await _timed(_through(owner, query)) for query in asked],
                        "symbi mcp, second": [await _timed(_through(beside, query)) for query in asked],
                    }
                    for side, quick in turn.items():
                        times[side] = list(map(min, times.get(side, quick), quick))
    return [Search(side, quick[WARM:]) for side, quick in times.items()]


async def _through(client: Client, query: str) -> None:
    _called(client, query)


async def _timed(work: Awaitable[object]) -> float:
    """Return the duration in milliseconds."""
    began = time.perf_counter()
    await work
    return (time.perf_counter() - began) * 1000


@asynccontextmanager
async def _engine(root: Path) -> AsyncIterator[Callable[[str], Awaitable[object]]]:
    """Yield the collection's own search, in this process."""
    from runtime.clock import SYSTEM, utc
    from runtime.daemon.process import log_setup
    from runtime.daemon.process.root import Root, own
    from runtime.daemon.process.settings import ProcessSettings
    from runtime.daemon.process.supervisor import Supervisor
    from runtime.daemon.program.app import App
    from runtime.search.entry import EntryFilter
    from runtime.search.question import Question

    log_setup.configure("text", "error")
    # As in `symbi mcp`.
    gc.set_threshold(50_000, 20, 50)
    tasks, wanted = Supervisor(), EntryFilter(agent="notes")
    with own(Root(root)):
        async with App.open(Root(root), ProcessSettings.read({})) as app:
            await app.load_last_program()
            await app.start_background(tasks.start)
            memory = app.generation.memories["notes"]
            yield lambda query: memory.search(Question(text=query, now=utc(SYSTEM.now()), limit=5, wanted=wanted))
            await tasks.cancel()


def ratios(started: Sequence[Start], searched: Sequence[Search]) -> list[Ratio]:
    """Return the ratios and their aims."""
    hello, owner, beside = started
    engine, *through = searched
    return [
        Ratio("start to initialize, owner / smallest", owner.initialize / hello.initialize, "<= 1.3"),
        Ratio("start to initialize, second / smallest", beside.initialize / hello.initialize, "<= 1.3"),
        Ratio("start to tools/list, owner / smallest", owner.tools_list / hello.tools_list, "<= 1.3"),
        Ratio("start to tools/list, second / smallest", beside.tools_list / hello.tools_list, "<= 1.3"),
        *(Ratio(f"added to a search, {each.side}, ms", each.median - engine.median, "<= 3 ms") for each in through),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    numbers = {"items": (ITEMS, "items of the collection"), "rounds": (ROUNDS, "starts of each side")}
    given = command_line("mcp", __doc__, **numbers).parse_args(arguments)
    started, searched = starts(given.rounds), searches(given.items)
    found = ratios(started, searched)
    if given.json:
        result = {
            "starts": [each._asdict() for each in started],
            "searches": [{"side": each.side, "median": each.median} for each in searched],
            "ratios": [{"name": each.name, "value": each.value, "aim": each.aim} for each in found],
        }
        print(json.dumps(result))
        return
    print(f"{'start to, ms':<28}{'initialize':>12}{'tools/list':>12}{'a result':>12}")
    for start in started:
        print(f"{start.side:<28}{start.initialize:>12.0f}{start.tools_list:>12.0f}{start.tool_result:>12.0f}")
    print(f"\n{f'search of {given.items} items, ms':<28}{'p50':>12}{'p95':>12}")
    for search in searched:
        slow = statistics.quantiles(search.times, n=20)[-1]
        print(f"{search.side:<28}{search.median:>12.2f}{slow:>12.2f}")
    print()
    for ratio in found:
        print(f"{ratio.name:<44}{ratio.value:>8.2f}   {ratio.aim}")


if __name__ == "__main__":
    main()
