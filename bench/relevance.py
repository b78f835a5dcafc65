"""`python -m bench.relevance --data FILE.jsonl`: the effect of a threshold on answers and on nonsense.

The conversations of the file are searched as in `bench.recall`, with each of the thresholds. Thirty questions unrelated
to all content are asked about those conversations, this project's documentation, and the docstrings of Python's
library; each is an agent of one memory.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from bench.harness.dialogues import Conversation, read, score
from bench.harness.report import command_line, show
from bench.recall import RECOMMENDED, Progress, agent_of, open_filled, opened_embedder, searched
from runtime.cli.terminal.progress import progress_bar
from runtime.errors import SymbiontError
from runtime.memory.chunking import chunks
from runtime.memory.item import Item
from runtime.memory.open_memory import OpenMemory
from runtime.search.entry import EntryFilter
from runtime.search.question import RECOMMENDED_THRESHOLD, Question

THRESHOLDS = (0.0, 0.4, 0.5, RECOMMENDED_THRESHOLD, 0.6)
TEXTS = 600
"""Maximum texts of each of the two other collections."""
_CHUNK = 800
_DOCS = Path(__file__).parent.parent / "docs"
_MODULES = [
    "asyncio",
    "json",
    "csv",
    "re",
    "os",
    "pathlib",
    "threading",
    "socket",
    "subprocess",
    "logging",
    "sqlite3",
    "email.message",
    "http.client",
    "zipfile",
    "tarfile",
    "hashlib",
    "random",
    "statistics",
    "decimal",
    "datetime",
    "calendar",
    "collections",
    "functools",
    "itertools",
    "heapq",
    "argparse",
    "configparser",
    "shutil",
    "tempfile",
    "glob",
    "pickle",
    "copy",
    "enum",
    "dataclasses",
    "typing",
    "inspect",
    "unittest",
    "contextlib",
    "queue",
    "selectors",
    "ssl",
    "smtplib",
    "ftplib",
    "imaplib",
    "html",
    "textwrap",
    "string",
    "struct",
    "codecs",
    "locale",
    "gettext",
]
NONSENSE = (
    "purple dinosaurs eating pasta",
    "zzzz qqqq",
    "asdkjh qwepoi",
    "recipe for sourdough bread",
    "who won the football world cup in 1998",
    "boiling point of liquid nitrogen in kelvin",
    "which king married six wives",
    "how deep is the Mariana trench",
    "symptoms of appendicitis in toddlers",
    "flibber jabberwock snark boojum",
    "average rainfall in the Atacama desert",
    "when was the treaty of Westphalia signed",
    "how do penguins keep their eggs warm",
    "capital of Burkina Faso",
    "half-life of tritium in years",
    "moons of Jupiter and their orbits",
    "colourless green ideas sleep furiously",
    "how many strings does a sitar have",
    "tax deductions for dairy farmers in Norway",
    "who painted the ceiling of the Sistine chapel",
    "the mating calls of humpback whales",
    "marble quarry output in Carrara",
    "xylophone llama umbrella quasar",
    "why do volcanoes erupt under glaciers",
    "speed limit on Polish motorways",
    "population of Liechtenstein in 1950",
    "how to shear an alpaca",
    "longest reign of a Byzantine emperor",
    "lkjsdf oiuwer mnbzxc",
    "chemical formula of caffeine",
)


def documentation() -> Iterator[str]:
    """Yield the chunks of this project's documentation."""
    for page in sorted(_DOCS.glob("*.md")):
        yield from chunks(page.read_text(), _CHUNK)


def library() -> Iterator[str]:
    """Yield the docstrings of classes and functions of Python's library."""
    for name in _MODULES:
        for called, what in sorted(vars(importlib.import_module(name)).items()):
            if not called.startswith("_") and (inspect.isclass(what) or inspect.isfunction(what)):
                said = inspect.getdoc(what) or ""
                if len(said) > 60:
                    yield f"{name}.{called}: {said}"[:1000]


async def measure(
    conversations: Sequence[Conversation], embedding: str, thresholds: Sequence[float], texts: int
) -> list[dict[str, Any]]:
    """Return for each threshold recall@10, the share of questions with a hit, and the nonsense questions with a hit."""
    embedder = await opened_embedder(embedding)
    weights = (0.0, 1.0) if embedder is None else RECOMMENDED
    with tempfile.TemporaryDirectory() as folder, progress_bar("relevance") as progress:
        memory = await open_filled(conversations, embedder, Path(folder), progress)
        try:
            agents = [agent_of(conversation) for conversation in conversations]
            for agent, said in (("documentation", documentation()), ("library", library())):
                now, some = conversations[0].now, islice(said, texts)
                items = [Item(agent_id=agent, memory_type="semantic", timestamp=now, text=text) for text in some]
                await memory.store.append(items)
                agents.append(agent)
            await memory.sync()
            await memory.embed(progress=progress)
            return [await _at(memory, conversations, agents, weights, threshold, progress) for threshold in thresholds]
        finally:
            await memory.close()


async def _at(
    memory: OpenMemory,
    conversations: Sequence[Conversation],
    agents: Sequence[str],
    weights: tuple[float, float],
    threshold: float,
    progress: Progress,
) -> dict[str, Any]:
    rankings = await searched(memory, conversations, weights, progress, threshold)
    passed = []
    for agent in agents:
        for text in NONSENSE:
            question = Question(
                text=text, now=conversations[0].now, limit=1, wanted=EntryFilter(agent=agent), threshold=threshold
            )
            passed += [f"{agent}: {text}" for _ in (await memory.search(question)).hits]
    return {
        "threshold": threshold,
        "recall_10": score(rankings)["together"].recall_10,
        "find_anything": sum(bool(found) for _, found in rankings) / len(rankings),
        "nonsense": len(agents) * len(NONSENSE),
        "nonsense_that_finds": passed,
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the measurement as a Markdown table."""
    lines = ["| threshold | recall@10 | find anything | nonsense that finds anything |", "|---|---:|---:|---:|"]
    for row in rows:
        found = f"{len(row['nonsense_that_finds'])} of {row['nonsense']}"
        lines.append(f"| {row['threshold']:g} | {row['recall_10']:.3f} | {row['find_anything']:.3f} | {found} |")
    return "\n".join(lines)


def main(given: Sequence[str] | None = None) -> int:
    """Measure and print. Returns 2 for an invalid file."""
    parser = command_line("relevance", __doc__, texts=(TEXTS, "texts of each of the other collections"))
    parser.add_argument("--data", type=Path, required=True, help="the dialogues, one JSON object per line")
    parser.add_argument("--embedding", choices=("local", "hashing", "none"), default="local")
    parser.add_argument("--threshold", type=float, action="append", help="a threshold to measure; may be repeated")
    options = parser.parse_args(given)
    try:
        conversations = read(options.data)
        thresholds = options.threshold or THRESHOLDS
        rows = asyncio.run(measure(conversations, options.embedding, thresholds, options.texts))
    except SymbiontError as error:
        print(f"bench.relevance: {error.line()}", file=sys.stderr)
        return 2
    show(rows, table, as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
