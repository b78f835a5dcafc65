"""`python -m bench.relevance --data FILE.jsonl …`: the effect of a threshold on answers and on nonsense.

The conversations of the files are searched as in `bench.recall`. Thirty questions unrelated to all content are asked
about those conversations, this project's documentation, and the docstrings of Python's library; each is an agent. The
first table shows what thresholds of the relevance drop. The second compares the measures of fit that a hit has, each at
the lowest threshold that no unrelated question passes, and at the one that at most one in a hundred passes.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from math import floor, inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_type_hints

from bench.harness.dialogues import Corpus, Query, corpora
from bench.harness.report import command_line, show
from bench.recall.constants import DEFAULT
from bench.recall.memory import HITS, Progress, agent_of, filled, opened_embedder, remembered
from bench.recall.scores import Ranking, outcomes, together
from runtime.cli.terminal.progress import progress_bar
from runtime.errors import SymbiontError
from runtime.memory.chunking import chunks
from runtime.memory.item import Item
from runtime.memory.open_memory import FoundHit, OpenMemory
from runtime.search.engine import CANDIDATES, DIGITS
from runtime.search.entry import EntryFilter
from runtime.search.question import RECOMMENDED_THRESHOLD, Question

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

THRESHOLDS = (0.0, 0.4, 0.5, RECOMMENDED_THRESHOLD, 0.6)
TEXTS = 600
"""Maximum texts of each of the two other collections."""
PASSING: Final = (0.0, 0.01)
"""The shares of the unrelated questions that pass a threshold of the second table."""
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


class Fitting(NamedTuple):
    """The hits of a question, best first. `values`: of each measure of fit, in a row for each hit; NaN: it has none."""

    agent: str
    text: str
    found: Sequence[str]
    values: NDArray[np.float64]


class Asked(NamedTuple):
    """A corpus, its questions with their conversations, and what they find, in the same order."""

    corpus: str
    questions: Sequence[tuple[str, Query]]
    fitting: Sequence[Fitting]


def measures_of_fit() -> tuple[str, ...]:
    """Return the numbers of a hit that can be compared between searches."""
    hints = get_type_hints(FoundHit)
    return tuple(name for name, hint in hints.items() if name != "score" and hint in {float, float | None})


async def measure(
    measured: Sequence[Corpus], embedding: str, thresholds: Sequence[float], texts: int
) -> dict[str, Any]:
    """Return the rows of both tables: at each threshold of the relevance, and at the lowest one of each measure of fit
    that an unrelated question does not pass, recall@10 and the share of questions with a hit."""
    asked: list[Asked] = []
    nonsense: list[Fitting] = []
    with progress_bar("relevance") as progress:
        for corpus in measured:
            embedder = await opened_embedder(embedding)
            batches = [remembered(conversation) for conversation in corpus.conversations]
            async with filled(batches, embedder, progress) as memory:
                asked.append(await _asked(memory, corpus, progress))
                for conversation in corpus.conversations:
                    nonsense += await _of_nonsense(memory, agent_of(conversation), conversation.now)
        now = measured[0].conversations[0].now
        others = {
            agent: [
                Item(agent_id=agent, memory_type="semantic", timestamp=now, text=text) for text in islice(said, texts)
            ]
            for agent, said in (("documentation", documentation()), ("library", library()))
        }
        async with filled(list(others.values()), await opened_embedder(embedding), progress) as memory:
            for agent in others:
                nonsense += await _of_nonsense(memory, agent, now)
    return {
        "thresholds": [_at(each, nonsense, "relevance", value) for value in thresholds for each in asked],
        "measures": [
            _at(each, nonsense, name, _lowest(nonsense, name, share)) | {"share": share}
            for name in measures_of_fit()
            for share in PASSING
            for each in asked
        ],
    }


async def _asked(memory: OpenMemory, corpus: Corpus, progress: Progress) -> Asked:
    questions = [(conversation, query) for conversation in corpus.conversations for query in conversation.queries]
    fitting = []
    for done, (conversation, query) in enumerate(questions):
        progress("searching", done, len(questions))
        fitting.append(await _fitting(memory, agent_of(conversation), query.q, conversation.now))
    return Asked(corpus.source, [(conversation.conv, query) for conversation, query in questions], fitting)


async def _of_nonsense(memory: OpenMemory, agent: str, now: datetime) -> list[Fitting]:
    return [await _fitting(memory, agent, text, now) for text in NONSENSE]


async def _fitting(memory: OpenMemory, agent: str, text: str, now: datetime) -> Fitting:
    """Ask for all candidates: which of them pass a threshold is a matter of their values."""
    import numpy as np

    weights = DEFAULT if memory.embedder else (0.0, 1.0)
    wanted = EntryFilter(agent=agent)
    question = Question(
        text=text, now=now, limit=CANDIDATES, wanted=wanted, vector_weight=weights[0], keyword_weight=weights[1]
    )
    hits = (await memory.search(question)).hits
    names = measures_of_fit()
    values = np.array([[getattr(hit, name) for name in names] for hit in hits], np.float64).reshape(-1, len(names))
    return Fitting(agent, text, [hit.item.source_uri or "" for hit in hits], values)


def _lowest(nonsense: Sequence[Fitting], measure: str, share: float) -> float:
    """Return the lowest threshold that at most this share of the unrelated questions passes."""
    best = sorted((_best(each, measure) for each in nonsense), reverse=True)
    return max(0.0, round(best[floor(share * len(best))] + 10**-DIGITS, DIGITS))


def _best(fitting: Fitting, measure: str) -> float:
    """Return the highest value among the hits; less than any number if there is none."""
    import numpy as np

    values = fitting.values[:, measures_of_fit().index(measure)]
    return float(np.max(values, initial=-inf, where=~np.isnan(values)))


def _at(asked: Asked, nonsense: Sequence[Fitting], measure: str, threshold: float) -> dict[str, Any]:
    column = measures_of_fit().index(measure)
    rankings = [
        Ranking(
            conversation, query, [each.found[at] for at in (each.values[:, column] >= threshold).nonzero()[0][:HITS]]
        )
        for (conversation, query), each in zip(asked.questions, asked.fitting, strict=True)
    ]
    usual = together(outcomes(rankings))
    return {
        "corpus": asked.corpus,
        "measure": measure,
        "threshold": threshold,
        "recall_10": usual and usual.recall_10,
        "find_anything": sum(bool(each.found) for each in rankings) / len(rankings) if rankings else None,
        "nonsense": len(nonsense),
        "nonsense_that_finds": [f"{each.agent}: {each.text}" for each in nonsense if _best(each, measure) >= threshold],
    }


def table(report: dict[str, Any]) -> str:
    """Return the measurements as Markdown tables."""
    columns = "recall@10 | find anything | nonsense that finds anything |"
    lines = [f"| corpus | threshold | {columns}", "|---|---:|---:|---:|---:|"]
    lines += [f"| {row['corpus']} | {row['threshold']:g} | {_cells(row)}" for row in report["thresholds"]]
    lines += ["", f"| measure | corpus | threshold | {columns}", "|---|---|---:|---:|---:|---:|"]
    for row in report["measures"]:
        lines.append(f"| {row['measure']} | {row['corpus']} | {row['threshold']:.3f} | {_cells(row)}")
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> str:
    shares = ("" if row[name] is None else f"{row[name]:.3f}" for name in ("recall_10", "find_anything"))
    return f"{' | '.join(shares)} | {len(row['nonsense_that_finds'])} of {row['nonsense']} |"


def main(given: Sequence[str] | None = None) -> int:
    """Measure and print. Returns 2 for an invalid file."""
    parser = command_line("relevance", __doc__, texts=(TEXTS, "texts of each of the other collections"))
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="the dialogues, one JSON object per line")
    parser.add_argument("--embedding", choices=("local", "hashing", "none"), default="local")
    parser.add_argument("--threshold", type=float, action="append", help="a relevance to measure; may be repeated")
    options = parser.parse_args(given)
    try:
        thresholds = options.threshold or THRESHOLDS
        report = asyncio.run(measure(corpora(options.data), options.embedding, thresholds, options.texts))
    except SymbiontError as error:
        print(f"bench.relevance: {error.line()}", file=sys.stderr)
        return 2
    show(report, table, as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
