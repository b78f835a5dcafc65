"""`python -m bench.compile [--json]`: the compiler compared with lark's own parse of the same text, in one run.

Start-up: a process compared with one that imports lark, pydantic and click, both from bytecode, by the processor time
of the fastest of each. Parse and check of 10,000 blocks compared with lark's parse. An edit in a workspace compared
with the check of the edited file, for 1 to 1,000 files of 1,000 blocks in all, and through the language server's
protocol. Blocks that all conflict compared with as many that are correct. Sides alternate; except for start-up medians
are compared.
"""

from __future__ import annotations

import gc
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.harness.report import command_line, show
from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.editing.format import canonical
from dslc.source import Source
from dslc.vocabulary import Vocabulary
from dslc.workspace import Workspace
from grammar.parser import load
from tests.dslc.language_server.client import Client, span

BLOCKS = (
    """\
# What the reviewers of team {n} learned.
memory "memory-{n}" {{
    store     markdown
    path      "data/agents-{n}"
    retention 90d
    search {{
        vector_weight  0.7
        keyword_weight 0.3
    }}
}}
""",
    """\
webhook "github-events-{n}" {{
    path     "/hooks/github/{n}"
    provider github
    secret   "secret://vault/github-webhook-secret"
    agent    reviewer-{n}
    filter {{ json_path "$.action" equals "opened" }}
}}
""",
    '''\
agent reviewer-{n} {{
    memory      memory-{n}
    instruction """
        You review pull requests and remember.
        """
}}
''',
)


def program(blocks: int, first: int = 0) -> str:
    """Return a program of this number of blocks, of which each three refer to one another, numbered from `first` on."""
    numbers = range(first, first + blocks)
    return "\n".join(BLOCKS[number % len(BLOCKS)].format(n=number // len(BLOCKS)) for number in numbers)


def seconds(work: Callable[[], object]) -> float:
    """Return the duration of `work` after a garbage collection."""
    gc.collect()
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def beside(ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the medians in seconds of both sides, which alternate; the first round is not counted."""
    ours(), theirs()
    turns = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    return statistics.median(turn[0] for turn in turns), statistics.median(turn[1] for turn in turns)


def row(name: str, ours: float, theirs: float, aim: float | None) -> dict[str, Any]:
    return {"what": name, "ours_ms": ours * 1000, "beside_ms": theirs * 1000, "ratio": ours / theirs, "aim": aim}


def start_up(folder: Path) -> dict[str, Any]:
    """Compare `dslc check` of one file with a process that imports its dependencies."""
    file = folder / "one.symbiont"
    file.write_text(program(3), encoding="utf-8")
    check = [str(Path(sys.executable).parent / "dslc"), "check", str(file)]
    bare = [sys.executable, "-c", "import lark, pydantic, click"]
    environment = _with_bytecode(folder / "bytecode")
    _processor_seconds(check, environment), _processor_seconds(bare, environment)  # warm-up, which writes the bytecode
    turns = [(_processor_seconds(check, environment), _processor_seconds(bare, environment)) for _ in range(40)]
    ours, theirs = (min(side) for side in zip(*turns, strict=True))
    return row("process: dslc check of one file", ours, theirs, 1.35)


def _with_bytecode(folder: Path) -> dict[str, str]:
    """Return this environment, with all bytecode in `folder`.

    pip compiles installed packages, so lark has bytecode in any case. A checkout with PYTHONDONTWRITEBYTECODE has none,
    and would compile our source in every round.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder)}


def _processor_seconds(command: list[str], environment: dict[str, str]) -> float:
    """Return the processor time, user and system, of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def throughput(blocks: int, rounds: int) -> list[dict[str, Any]]:
    """Compare parse and check, compile and format with lark's parse into a tree."""
    text, bare = program(blocks), load()
    catalog = Catalog.installed()
    ways: dict[str, tuple[Callable[[], object], float | None]] = {
        "parse and check": (lambda: analyse([Source("a", text)], catalog, build=False), 1.6),
        "parse, check and build models": (lambda: analyse([Source("a", text)], catalog), None),
        "format": (lambda: canonical(text), None),
    }
    parse = lambda: bare.parse(text, start="file")  # noqa: E731
    return [row(f"{blocks:,} blocks: {name}", *beside(way, parse, rounds), aim) for name, (way, aim) in ways.items()]


def clashes(blocks: int) -> list[dict[str, Any]]:
    """Compare blocks that all conflict or are misspelt with as many that are correct."""
    catalog = Catalog.installed()

    def checked(block: str) -> Callable[[], object]:
        text = "\n".join(block.format(n=number) for number in range(blocks))
        return lambda: analyse([Source("a", text)], catalog, build=False)

    right = checked('memory m{n} {{ path "p/{n}" }}')
    wrong = {
        "memories on one path": 'memory m{n} {{ path "p" }}',
        "memories of one name": 'memory m {{ path "p/{n}" }}',
        "misspelt kinds": 'memroy m{n} {{ path "p/{n}" }}',
    }
    return [row(f"{blocks:,} {name}", *beside(checked(block), right, 3), None) for name, block in wrong.items()]


def edit(files: int, blocks: int = 1000) -> dict[str, Any]:
    """Compare an edit of one file of a workspace, including all changed diagnostics, with a check of that file
    alone."""
    each = blocks // files
    texts = [program(each, first=number * each) for number in range(files)]
    workspace = Workspace(Vocabulary(Catalog.installed()))
    for number, text in enumerate(texts):
        workspace.put(Source(f"{number:04}.symbiont", text))
    workspace.take_changed()
    turn = iter(range(1_000_000))
    wrong = texts[0].replace("90d", "90", 1) if "90d" in texts[0] else texts[0].replace("agent", "agnet", 1)

    def change() -> None:
        workspace.put(Source("0000.symbiont", wrong if next(turn) % 2 else texts[0]))
        for name in workspace.take_changed():
            workspace.diagnostics(name)

    def check() -> None:
        alone = Workspace(workspace.vocabulary)
        alone.put(Source("0000.symbiont", wrong if next(turn) % 2 else texts[0]))
        alone.diagnostics("0000.symbiont")

    name = f"edit in one of {files:,} files, {blocks:,} blocks in all"
    return row(name, *beside(change, check, 21 if each > 100 else 201), 1.5)


def protocol(folder: Path) -> dict[str, Any]:
    """Measure the same through the language server, from the sent change to the received diagnostics."""
    text = program(999)
    file = folder / "workspace" / "all.symbiont"
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    client = Client(file.parent, ["utf-8"])
    client.open(file.as_uri(), text)
    line = next(number for number, content in enumerate(text.split("\n")) if content.strip() == "retention 90d")
    turn = iter(range(1_000_000))

    def change() -> None:
        correct = next(turn) % 2  # `90` has no unit
        edit = {"range": span(line, 14, 16 if correct else 17), "text": "90d" if correct else "90"}
        client.change(file.as_uri(), edit)
        client.diagnostics(file.as_uri(), *([] if correct else ["T401"]))

    checked = lambda: analyse([Source("all", text)], Catalog.installed(), build=False)  # noqa: E731
    measured = beside(change, checked, 11)
    client.end()
    return row("the same in one file, through the protocol", *measured, 1.5)


def measure() -> list[dict[str, Any]]:
    """Return all rows in order; takes a minute or two."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [start_up(folder)]
        for blocks in (2_500, 5_000):
            rows += throughput(blocks, 3)[:1]
        rows += throughput(10_000, 5)
        rows += [each for blocks in (5_000, 20_000) for each in clashes(blocks)]
        rows += [edit(files) for files in (1, 10, 100, 1000)]
        return [*rows, protocol(folder)]


def table(rows: list[dict[str, Any]]) -> str:
    """Return the measurement as text."""
    lines = [f"{'':56} {'ours ms':>9} {'other ms':>9} {'ratio':>6}  aim"]
    for each in rows:
        aim = f"at most {each['aim']}" if each["aim"] else ""
        lines.append(f"{each['what']:56} {each['ours_ms']:9.1f} {each['beside_ms']:9.1f} {each['ratio']:6.2f}  {aim}")
    return "\n".join(lines)


def main() -> None:
    options = command_line("compile", __doc__).parse_args()
    show(measure(), table, as_json=options.json)


if __name__ == "__main__":
    main()
