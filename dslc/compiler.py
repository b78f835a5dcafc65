"""The whole compilation, without any IO: sources to program and diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dslc.catalog import Catalog
from dslc.check.context import Checked
from dslc.check.file import CheckedFile, check_file
from dslc.check.references import first_of_each, references, shared_memory_paths, shared_webhook_paths
from dslc.diagnostic import Diagnostic
from dslc.program import Program
from dslc.source import Source
from dslc.syntax import File, parse
from dslc.vocabulary import Vocabulary

_HOMES = {"memory": "memories", "webhook": "webhooks", "agent": "agents"}


@dataclass(frozen=True)
class Compilation:
    """What came of a compilation. `blocks`: how many blocks the readable files hold."""

    program: Program
    diagnostics: tuple[Diagnostic, ...]
    sources: tuple[Source, ...]
    blocks: int


def compile(sources: Iterable[Source], catalog: Catalog) -> tuple[Program, list[Diagnostic]]:  # noqa: A001
    """Compile all sources as one program.

    Returns the program of every block that is right and the diagnostics of all files, files in the given order and
    each in source order. Nothing is raised for wrong input; whether to take a program with errors is the caller's
    decision.
    """
    done = analyse(sources, catalog)
    return done.program, list(done.diagnostics)


def analyse(sources: Iterable[Source], catalog: Catalog) -> Compilation:
    """`compile`, with what reports want to know beside it."""
    vocabulary = Vocabulary(catalog)
    return check([parse(source, vocabulary) for source in sources], vocabulary)


def check(files: Sequence[File], vocabulary: Vocabulary) -> Compilation:
    """Check parsed files as one program."""
    checked = [check_file(file, vocabulary) for file in files]
    known = first_of_each(block for file in checked for block in file.blocks)
    shared_webhook_paths(known.values())
    shared_memory_paths(known.values())
    references(checked, known)
    diagnostics = tuple(diagnostic for file in checked for diagnostic in _in_order(file))
    sources = tuple(file.source for file in files)
    return Compilation(_program(known), diagnostics, sources, sum(len(file.blocks) for file in files))


def _in_order(file: CheckedFile) -> list[Diagnostic]:
    return sorted(
        file.findings.found, key=lambda diagnostic: (diagnostic.span.start, diagnostic.span.end, diagnostic.code)
    )


def _program(known: dict[tuple[str, str], Checked]) -> Program:
    parts: dict[str, dict[str, Any]] = {home: {} for home in _HOMES.values()}
    origins = {}
    for (kind, name), block in known.items():
        if block.model is not None:
            parts[_HOMES[kind]][name] = block.model
            source = block.findings.source
            line = source.position(source.span(block.node.start_pos, block.node.end_pos).start).line
            origins[kind, name] = f"{source.name}:{line}"
    return Program(**parts, origins=origins)
