"""The command `dslc`. Exit 0: no errors; 1: errors, or warnings that are denied; 2: it could not run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TextIO, cast

import click

if TYPE_CHECKING:
    from io import BufferedReader

    from dslc.compiler import Compilation
    from dslc.source import Source

_STDIN = "-"
_INTERRUPTED = 130


class CannotRun(click.ClickException):
    """The command cannot do its work at all."""

    exit_code = 2


def _version(_: click.Context, __: click.Parameter, asked: object) -> None:
    if asked:
        from importlib.metadata import version

        _print(f"dslc {version('symbiont')}\n")
        raise click.exceptions.Exit(0)


@click.group(no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
def dslc() -> None:
    """The compiler of .symbiont files."""


_PATHS = click.argument("paths", nargs=-1, metavar="[PATH…|-]")
_DENY = click.option("--deny-warnings", is_flag=True, help="Exit 1 when there are warnings.")


@dslc.command()
@_PATHS
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to report.")
@_DENY
def check(paths: tuple[str, ...], form: str, *, deny_warnings: bool) -> int:
    """Report every mistake in the files at PATH (of a folder: every .symbiont file below it; `-`: standard input)."""
    from dslc.report import FORMATS

    done = _compile(paths)
    _print(FORMATS[form](done, colour=_colour(sys.stdout)))
    return _exit_code(done, deny_warnings=deny_warnings)


@dslc.command(name="compile")
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
        _print(FORMATS["text"](done, colour=_colour(sys.stderr)), to_stderr=True)
    if code == 0:
        _print(render(done.program, Vocabulary(Catalog.installed())))
    return code


def _compile(paths: Sequence[str]) -> Compilation:
    sources = _sources(paths or (".",))
    from dslc.catalog import Catalog
    from dslc.compiler import analyse

    return analyse(sources, Catalog.installed())


def _sources(paths: Sequence[str]) -> list[Source]:
    from dslc import files
    from dslc.source import LARGEST, Source

    sources = []
    try:
        if _STDIN in paths:
            sources.append(Source("<stdin>", _stdin(LARGEST + 1)))
        found = files.find(path for path in paths if path != _STDIN)
        sources += [Source(str(path), files.read(path)) for path in found]
    except FileNotFoundError as error:
        raise CannotRun(f"no such file or folder: {error.filename}") from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise CannotRun(f"cannot read {where}{error.strerror or error}") from error
    if not sources:
        raise CannotRun(f"no .symbiont file found in {', '.join(paths)}")
    return sources


def _stdin(most: int) -> bytes:
    """Standard input, up to `most` bytes; piece by piece, for one long read would not hear an interrupt between two."""
    if sys.stdin is None:  # closed before the start
        raise CannotRun("standard input is closed")
    stream, data = cast("BufferedReader", sys.stdin.buffer), bytearray()
    while len(data) < most and (piece := stream.read1(most - len(data))):
        data += piece
    return bytes(data)


def _exit_code(done: Compilation, *, deny_warnings: bool) -> int:
    from dslc.diagnostic import Severity

    bad = {Severity.ERROR, Severity.WARNING} if deny_warnings else {Severity.ERROR}
    return 1 if any(diagnostic.severity in bad for diagnostic in done.diagnostics) else 0


def _colour(stream: TextIO | None) -> bool:
    """Colour on a terminal only; https://no-color.org."""
    terminal = stream is not None and stream.isatty()
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _print(text: str, *, to_stderr: bool = False) -> None:
    """Write a whole report. A reader that has gone away is no error; letters the terminal lacks are escaped."""
    stream: TextIO | None = sys.stderr if to_stderr else sys.stdout
    if stream is None:  # closed before the start
        return
    try:
        stream.buffer.write(text.encode(stream.encoding or "utf-8", "backslashreplace"))
        stream.flush()
    except OSError as error:
        # Python flushes once more at exit, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError) and not to_stderr:
            raise CannotRun(f"cannot write: {error.strerror}") from error


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `dslc` and exit with its code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(_run(given))


def _run(given: list[str]) -> int:
    try:
        code = dslc.main(given, prog_name="dslc", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        _print(f"{error.format_message()}\n", to_stderr=True)
        return 2
    except click.ClickException as error:
        if _wants_json(given):
            from dslc.report.json import render_failure

            _print(render_failure(error.format_message()))
        _print(f"dslc: {error.format_message()}\n", to_stderr=True)
        return 2
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    return code if isinstance(code, int) else 0


def _wants_json(given: Sequence[str]) -> bool:
    """Whether the options ask for JSON, for when they could not be read as a whole."""
    return "--format=json" in given or ("--format", "json") in pairwise(given)
