"""`python -m bench.recall --data FILE.jsonl …`: how often the evidence is among the first ten hits.

Every conversation of the files (described in `bench.harness.dialogues`) is written into a real Markdown memory, with an
agent for each, and searched as the product does. For comparison, in the same run: plain FTS5 (bm25, all defaults, the
question's words joined by OR) and plain cosine (the same embedding), both over "Speaker: text", which suits them best.
Each source is measured by itself.

`--through conversation_search` puts the conversations into threads instead, as described in
`bench.agents.conversations`, and asks through that tool, by which agents search what was said; `--through memory
conversation_search` does both.

`--vary` measures the search with each constant of its scoring moved, and `--leave-one-out` with settings that are
chosen on all conversations but the measured one; both take a search of every question for each setting.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench import search as latency
from bench.harness.dialogues import corpora
from bench.harness.report import command_line
from bench.recall.constants import DEFAULT, Setting, each_moved, grid, leave_one_out
from bench.recall.measure import MEMORY, TOOL, Measured, Plan, measure
from bench.recall.scores import GROUPS
from bench.recall.tables import as_json, changes, differences, duration, groups, left_out, overview
from dslc.blocks.variant import Variant
from runtime.cli.terminal.progress import progress_bar
from runtime.errors import SymbiontError, UsageError
from runtime.search.index import DEFAULT as INDEX
from runtime.search.index import INDEXES
from runtime.search.question import Question

_SOME_DAY: Final = datetime(2000, 1, 1, tzinfo=UTC)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = command_line("recall", (__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="the dialogues, one JSON object per line")
    parser.add_argument("--vector-weight", type=float, help="measure these weights instead of the default")
    parser.add_argument("--keyword-weight", type=float, help="measure these weights instead of the default")
    parser.add_argument("--embedding", choices=("local", "hashing", "none"), default="local")
    parser.add_argument("--index", choices=tuple(INDEXES), default=INDEX, help="the index of the memory")
    parser.add_argument("--url", help="the server of that index")
    parser.add_argument(
        "--through", nargs="+", choices=(MEMORY, TOOL), default=[MEMORY], help="what the questions are asked of"
    )
    parser.add_argument("--by", nargs="+", choices=tuple(GROUPS), default=[], help="print a table by these, too")
    parser.add_argument(
        "--vary", nargs="*", metavar="CONSTANT", help="move these constants of the scoring, or all, one at a time"
    )
    parser.add_argument(
        "--leave-one-out",
        nargs="?",
        type=Path,
        const=Path(),
        metavar="GRID.json",
        help="choose settings on all conversations but one; GRID.json: lists of values by constant",
    )
    parser.add_argument("--latency", action="store_true", help="measure the latency of searches and of their parts")
    return parser.parse_args(given)


def weights_of(options: argparse.Namespace) -> tuple[float, float]:
    """Return the weights to measure. Raises UsageError for invalid weights."""
    vector, keyword = options.vector_weight, options.keyword_weight
    if options.embedding == "none":
        return 0.0, 1.0
    if vector is None and keyword is None:
        return DEFAULT
    vector = 1 - keyword if vector is None else vector
    pair = (vector, 1 - vector if keyword is None else keyword)
    Question(text="weights", now=_SOME_DAY, vector_weight=pair[0], keyword_weight=pair[1])
    return pair


async def _measured(options: argparse.Namespace, plan: Plan) -> list[Measured]:
    read = corpora(options.data)
    with progress_bar("recall") as progress:
        return [await measure(corpus, plan, progress) for corpus in read]


def main(given: Sequence[str] | None = None) -> int:
    """Measure and print. Returns 2 for an invalid file or option."""
    options = arguments(given)
    try:
        weights = weights_of(options)
        file = options.leave_one_out
        moved = [] if options.vary is None else each_moved(options.vary, weights)
        tried: list[Setting] = [] if file is None else grid(None if file == Path() else file, weights)
        if (moved or tried) and MEMORY not in options.through:
            raise UsageError("constants are moved in searches of the memory", hint=f"add {MEMORY} to --through")
        address = {} if options.url is None else {"url": options.url}
        plan = Plan(
            embedding=options.embedding,
            weights=weights,
            through=options.through,
            settings=[*moved, *tried],
            index=Variant(name=options.index, options=address),
        )
        measured = asyncio.run(_measured(options, plan))
        choice = None
        if tried:
            choice = leave_one_out([{setting: each.settings[setting] for setting in tried} for each in measured])
    except SymbiontError as error:
        print(f"bench.recall: {error.line()}", file=sys.stderr)
        return 2
    took = asyncio.run(latency.measure(latency.ITEMS)) if options.latency else None
    if options.json:
        embedding = None if options.embedding == "none" else options.embedding
        report = as_json(embedding, measured, weights, moved, choice) | ({"latency": took} if took else {})
        print(json.dumps(report, indent=2, default=vars))
        return 0
    parts = [[f"Turn-level recall, embedding {options.embedding}"], overview(measured)]
    if MEMORY in options.through:
        parts.append(differences(measured))
    parts += [groups(measured, by) for by in options.by]
    if moved:
        parts.append(changes(measured, moved, weights))
    if choice is not None:
        parts.append(left_out(measured, choice))
    if any(each.searches for each in measured):
        parts.append(duration(measured))
    if took:
        parts.append([latency.table(took)])
    print("\n\n".join("\n".join(part) for part in parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
