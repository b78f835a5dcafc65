"""`python -m bench.mcp [--json] [--items N]`: `symbi mcp` beside the SDK's smallest server, and a search through it
beside the engine called directly, in one run.

*Start*: from the start of the process to the answer to `initialize`, to the first `tools/list`, and to the first result
of a tool. The sides take turns: the smallest server, `symbi mcp` that owns its root, and one beside another that does.
*Search*: a collection of N items is asked by meaning and by words; in this process by the collection's own `search`,
then through `symbi mcp` that owns the root, then through one beside it, which asks the first by its admin socket. Every
side is asked the same questions; what the protocol adds is the difference of the medians.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.mcp_lines import HELLO, SYMBI, Client
from bench.parts import Ratio
from bench.search import Texts

ROUNDS: Final = 9
ITEMS: Final = 2_000
QUERIES: Final = 150
WARM: Final = 10
PUSHED: Final = 200
"""Texts of one push that fills the collection."""

PROGRAM: Final = 'memory notes { store collection { } embedding hashing }\n'


class Start(NamedTuple):
    """Milliseconds from the start of the process to three answers, the median of the rounds."""

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
        """In milliseconds."""
        return statistics.median(self.times)


def starts(rounds: int = ROUNDS) -> list[Start]:
    """Every side's start, one after another in each round."""
    with tempfile.TemporaryDirectory() as folder, _owner(Path(folder) / "beside") as beside:
        sides: dict[str, tuple[Sequence[str], str, dict[str, Any]]] = {
            "the SDK's smallest server": (HELLO, "hello", {"name": "x"}),
            "symbi mcp, owner": ((*SYMBI, str(Path(folder) / "alone")), "memory_stats", {}),
            "symbi mcp, beside it": ((*SYMBI, str(beside)), "memory_stats", {}),
        }
        measured: dict[str, list[tuple[float, float, float]]] = {side: [] for side in sides}
        # The first of each writes bytecode and, of the second, the root.
        for number in range(rounds + 1):
            for side, (command, tool, arguments) in sides.items():
                once = _start(command, tool, arguments)
                if number:
                    measured[side].append(once)
    return [Start(side, *map(statistics.median, zip(*times, strict=True))) for side, times in measured.items()]


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
    """A root that a `symbi mcp` owns while inside."""
    client = Client((*SYMBI, str(root)))
    client.initialize()
    client.call("memory_stats", {})
    try:
        yield root
    finally:
        client.close()


def searches(items: int = ITEMS, queries: int = QUERIES) -> list[Search]:
    """The same questions to every side."""
    texts = Texts()
    asked = [texts.text(2, 5) for _ in range(queries + WARM)]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "notes.symbiont").write_text(PROGRAM)
        command = (*SYMBI, folder)
        owner = Client(command)
        owner.initialize()
        for start in range(0, items, PUSHED):
            text = "\n\n".join(texts.text(20, 60) for _ in range(min(PUSHED, items - start)))
            owner.call("push", {"text": text, "project_id": "bench"})
        _settle(owner)
        through = Search("symbi mcp, owner", _timed(lambda query: _called(owner, query), asked))
        second = Client(command)
        second.initialize()
        beside = Search("symbi mcp, beside it", _timed(lambda query: _called(second, query), asked))
        second.close()
        owner.close()
        return [asyncio.run(_direct(root, asked)), through, beside]


def _called(client: Client, query: str) -> None:
    client.call("search", {"query_text": query, "limit": 5})


def _settle(client: Client) -> None:
    """Wait until the index has everything, with its vectors."""
    while client.call("search", {"query_text": "settled", "limit": 1}).get("notes"):
        time.sleep(0.2)


def _timed(ask: Callable[[str], object], asked: Sequence[str]) -> list[float]:
    times = []
    for query in asked:
        began = time.perf_counter()
        ask(query)
        times.append((time.perf_counter() - began) * 1000)
    return times[WARM:]
