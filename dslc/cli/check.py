"""`dslc check` and `dslc compile`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from dslc.cli.terminal import colour, put, sources

if TYPE_CHECKING:
    from dslc.compiler import Compilation

_PATHS = click.argument("paths", nargs=-1, metavar="[PATH…|-]")
_DENY = click.option("--deny-warnings", is_flag=True, help="Exit 1 when there are warnings.")


@click.command()
@_PATHS
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to report.")
@_DENY
def check(paths: tuple[str, ...], form: str, *, deny_warnings: bool) -> int:
    """Report every mistake in the files at PATH (of a folder: every .symbiont file below it; `-`: standard input)."""
    from dslc.report import FORMATS

    done = _compile(paths)
    put(FORMATS[form].render(done, colour=colour(sys.stdout)))
    return _exit_code(done, deny_warnings=deny_warnings)


@click.command(name="compile")
@_PATHS
@_DENY
def compile_(paths: tuple[str, ...], *, deny_warnings: bool) -> int:
    """Print the program in the files at PATH as JSON; secrets written in them are not shown."""
    from dslc.catalog import Catalog
    from dslc.report import FORMATS
    from dslc.report.program import render
    from dslc.vocabulary import Vocabulary

    done = _compile(paths)
    code = _exit_code(done, deny_warnings=deny_warnings)
    if done.diagnostics:
        put(FORMATS["text"].render(done, colour=colour(sys.stderr)), to_stderr=True)
    if code == 0:
        put(render(done.program, Vocabulary(Catalog.installed())))
    return code


def _compile(paths: Sequence[str]) -> Compilation:
    given = sources(paths)
    from dslc.catalog import Catalog
    from dslc.compiler import analyse

    return analyse(given, Catalog.installed())


def _exit_code(done: Compilation, *, deny_warnings: bool) -> int:
    from dslc.diagnostic import Severity

    bad = {Severity.ERROR, Severity.WARNING} if deny_warnings else {Severity.ERROR}
    return 1 if any(diagnostic.severity in bad for diagnostic in done.diagnostics) else 0
