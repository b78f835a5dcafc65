"""`dslc check` and `dslc compile`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from dslc.cli.terminal import STDIN, STDIN_NAME, CannotRun, colour, put, put_bytes, sources
from dslc.report import FORMATS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from dslc.compiler import Compilation
    from dslc.editing.fix import FixResult
    from dslc.source import Source


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    from dslc.cli.completion import complete_paths

    return complete_paths(ctx, parameter, incomplete)


_PATHS = click.argument("paths", nargs=-1, metavar="[PATH…|-]", shell_complete=_complete)
_DENY = click.option("--deny-warnings", is_flag=True, help="Exit 1 if there are warnings.")


@click.command(short_help="Report every mistake in the files at PATH.")
@_PATHS
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default="text",
    show_default=True,
    help="The format of the report.",
)
@click.option("--fix", "fixing", is_flag=True, help="Make safe corrections, then report the remaining mistakes.")
@click.option("--unsafe-fixes", "unsafe", is_flag=True, help="Like --fix, but also make corrections that are guesses.")
@_DENY
def check(paths: tuple[str, ...], form: str, *, fixing: bool, unsafe: bool, deny_warnings: bool) -> int:
    """Report every mistake in the files at PATH. A folder means every .symbiont file below it, `-` standard input;
    without PATH, the current folder. Exit code 0: no errors; 1: errors, or warnings with --deny-warnings; 2: the check
    could not run.

    --fix makes only corrections that keep the meaning of the program, or that have no alternative. It does not correct
    misspelt names. Corrected standard input is written to standard output, and the report to standard error.
    """
    given = sources(paths)
    done, applied, text_goes_out = _compile(given), None, False
    if fixing or unsafe:
        fixed = _fix(done, unsafe=unsafe)
        done, applied, text_goes_out = fixed.compilation, fixed.applied, STDIN in paths
        _write(given, fixed, to_stderr=text_goes_out or FORMATS[form].document)
    shown = colour(sys.stderr if text_goes_out else sys.stdout)
    report = FORMATS[form].render(done, colour=shown, deny_warnings=deny_warnings, applied=applied)
    put(report, to_stderr=text_goes_out)
    if FORMATS[form].document:
        put(_summary(done), to_stderr=True)
    return _exit_code(done, deny_warnings=deny_warnings)


@click.command(name="compile", short_help="Print the program in the files at PATH as JSON.")
@_PATHS
@_DENY
def compile_(paths: tuple[str, ...], *, deny_warnings: bool) -> int:
    """Print the program in the files at PATH as JSON, without literal secrets and passwords in URLs."""
    from dslc.catalog import Catalog
    from dslc.report.program import render
    from dslc.vocabulary import Vocabulary

    done = _compile(sources(paths), build=True)
    code = _exit_code(done, deny_warnings=deny_warnings)
    if done.diagnostics:
        put(FORMATS["text"].render(done, colour=colour(sys.stderr)), to_stderr=True)
    if code == 0:
        put(render(done.program, Vocabulary(Catalog.installed())))
    return code


def _compile(given: Sequence[Source], *, build: bool = False) -> Compilation:
    gc.disable()  # before the import: no object becomes garbage before the process ends
    from dslc.catalog import Catalog
    from dslc.compiler import analyse

    return analyse(given, Catalog.installed(), build=build)


def _exit_code(done: Compilation, *, deny_warnings: bool) -> int:
    from dslc.diagnostics.diagnostic import Severity

    bad = {Severity.ERROR, Severity.WARNING} if deny_warnings else {Severity.ERROR}
    return 1 if any(diagnostic.severity in bad for diagnostic in done.diagnostics) else 0


def _summary(done: Compilation) -> str:
    from dslc.report.text import summary

    return f"{summary(done)}\n"


def _fix(done: Compilation, *, unsafe: bool) -> FixResult:
    from dslc.editing.fix import fix

    return fix(done, _compile, unsafe=unsafe)


def _write(given: Sequence[Source], fixed: FixResult, *, to_stderr: bool) -> None:
    """Write the fixed text of every file and report the fixes of each file. Raises CannotRun."""
    from dslc.files import replace
    from dslc.source import LARGEST

    for before, after in zip(given, fixed.compilation.sources, strict=True):
        if before.name == STDIN_NAME:
            if len(before.data) > LARGEST:
                raise CannotRun("standard input has more than 4 MiB")
            put_bytes(after.data)
        elif after.data != before.data:
            try:
                replace(before.name, after.data, was=before.data)
            except OSError as error:
                raise CannotRun(f"cannot write {before.name}: {error.strerror or error}") from error
        put("".join(_fix_lines(fixed, before.name)), to_stderr=to_stderr)
    if fixed.applied or fixed.refused:
        put("\n", to_stderr=to_stderr)


def _fix_lines(fixed: FixResult, file: str) -> Iterator[str]:
    """Yield a line for each fix of a file, applied or refused."""
    from dslc.report.text import visible

    for made in fixed.applied:
        if made.file == file:
            place = f"{file}:{made.position.line}:{made.position.column}"
            yield visible(f"fixed {place}: {made.code}: {made.message}") + "\n"
    for left in fixed.refused:
        if left.file == file:
            place = f"{file}:{left.position.line}:{left.position.column}"
            yield visible(f"not fixed {place}: {left.message} would be {left.error.code}: {left.error.message}") + "\n"
