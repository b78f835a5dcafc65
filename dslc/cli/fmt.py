"""`dslc fmt`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from dslc.cli.terminal import STDIN, CannotRun, colour, put, put_bytes, sources

if TYPE_CHECKING:
    from dslc.catalog import Catalog
    from dslc.diagnostics.diagnostic import Diagnostic
    from dslc.source import Source


@dataclass
class _Outcome:
    """Files grouped by result."""

    changed: list[tuple[Source, bytes]] = field(default_factory=list)
    unchanged: list[Source] = field(default_factory=list)
    refused: list[Source] = field(default_factory=list)
    faults: list[Diagnostic] = field(default_factory=list)


@click.command(short_help="Write the files at PATH in canonical form.")
@click.argument("paths", nargs=-1, metavar="[PATH…|-]")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if a file is not in canonical form.")
@click.option("--diff", is_flag=True, help="Write nothing, show the changes; exit 1 if there are any.")
def fmt(paths: tuple[str, ...], *, check: bool, diff: bool) -> int:
    """Write the files at PATH in canonical form.

    A folder means every .symbiont file below it, and no PATH the current folder; `-` formats standard input to standard
    output. The meaning of the program and every comment stay the same. A file with a syntax error is not changed, and
    the exit code is 2.
    """
    if STDIN in paths and len(paths) > 1:
        raise CannotRun("`-` (standard input) cannot be combined with other paths")
    gc.disable()  # many small objects without reference cycles
    outcome = _format(sources(paths))
    _show_refused(outcome)
    failed = False
    if diff:
        _show_diff(outcome)
    if paths == (STDIN,) and not check and not diff:
        for data in [data for _, data in outcome.changed] + [source.data for source in outcome.unchanged]:
            put_bytes(data)
    else:
        failed = _write(outcome, only_say=check or diff, quiet=diff)
    if outcome.refused or failed:
        return 2
    return 1 if outcome.changed and (check or diff) else 0


def _format(given: Sequence[Source]) -> _Outcome:
    from dslc.catalog import Catalog
    from dslc.editing.format import format_file
    from dslc.parse import parse
    from dslc.vocabulary import Vocabulary

    vocabulary, outcome = Vocabulary(Catalog.installed()), _Outcome()
    for source in given:
        file = parse(source, vocabulary)
        errors = file.diagnostics or _unknown_escapes(source, vocabulary.catalog)
        if errors or not file.readable:
            outcome.refused.append(source)
            outcome.faults += errors
            continue
        mark = source.data[: source.span(0, 0).start]
        data = mark + format_file(file).encode()
        if data == source.data:
            outcome.unchanged.append(source)
        else:
            outcome.changed.append((source, data))
    return outcome


def _unknown_escapes(source: Source, catalog: Catalog) -> Sequence[Diagnostic]:
    """Return the errors in the strings of a file that can be parsed: only the checker examines them."""
    if "\\" not in (source.text or ""):
        return ()
    from dslc.compiler import analyse

    return [found for found in analyse([source], catalog).diagnostics if found.code.startswith("S")]


def _show_refused(outcome: _Outcome) -> None:
    if not outcome.refused:
        return
    from dslc.compiler import Compilation
    from dslc.program import Program
    from dslc.report import FORMATS

    compilation = Compilation(Program(), tuple(outcome.faults), tuple(outcome.refused), 0)
    put(FORMATS["text"].render(compilation, colour=colour(sys.stderr)), to_stderr=True)


def _show_diff(outcome: _Outcome) -> None:
    from dslc.report.unified_diff import unified_diff

    for source, data in outcome.changed:
        put(unified_diff(source, data, colour=colour(sys.stdout)))


def _write(outcome: _Outcome, *, only_say: bool, quiet: bool) -> bool:
    """Write the changed files and report them. Returns True if a file could not be written."""
    from dslc.files import replace

    written = []
    for source, data in outcome.changed:
        try:
            if not only_say:
                replace(source.name, data, was=source.data)
        except OSError as error:
            put(f"dslc: cannot write {source.name}: {error.strerror or error}\n", to_stderr=True)
        else:
            written.append(source.name)
    verb = "would be formatted" if only_say else "formatted"
    lines = [f"{name}: {verb}" for name in written] if not quiet else []
    put("\n".join([*lines, _summary(outcome, len(written), verb)]) + "\n", to_stderr=quiet)
    return len(written) < len(outcome.changed)


def _summary(outcome: _Outcome, written: int, verb: str) -> str:
    """Summary line: `2 files formatted, 5 unchanged, 1 skipped`."""
    parts = [f"{written} {'file' if written == 1 else 'files'} {verb}"]
    if outcome.unchanged:
        parts.append(f"{len(outcome.unchanged)} unchanged")
    left = len(outcome.refused) + len(outcome.changed) - written
    return ", ".join([*parts, *([f"{left} skipped"] if left else [])])
