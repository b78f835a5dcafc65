"""The file that an export writes: standard output, or a file that is replaced atomically."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import click

from runtime.cli.terminal.output import F
from runtime.cli.terminal.progress import no_progress, progress_bar
from runtime.cli.terminal.screen import binary_output, json_escaped
from runtime.daemon.process.atomic_file import replacing
from runtime.daemon.process.root_owner import as_invoker
from runtime.errors import UsageError


def output_option(command: F) -> F:
    """Add `--output`."""
    return click.option(
        "--output",
        metavar="FILE|-",
        default="-",
        show_default=True,
        help="The file to write; an existing one is replaced atomically.",
    )(command)


@contextmanager
def open_output(output: str) -> Iterator[BinaryIO]:
    """Open standard output, or a file that is replaced atomically. Raises UsageError.

    A superuser who works on the root of a service has its rights meanwhile, but owns the file.
    """
    if output == "-":
        yield binary_output()
        binary_output().flush()
        return
    file = Path(output).absolute()
    stack = ExitStack()
    try:
        with as_invoker():
            if file.is_dir():
                raise UsageError(f"{output} is a folder", hint="name a file in it")
            handle = stack.enter_context(replacing(file))
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {(error.strerror or str(error)).lower()}") from None
    try:
        yield handle
    except BaseException:
        with as_invoker():
            stack.__exit__(*sys.exc_info())
        raise
    with as_invoker():
        stack.close()


def export_lines(output: str, pages: Iterable[tuple[Iterable[Any], int]]) -> int:
    """Write the rows of all pages to `output` as lines of JSON, and return their number. `pages`: each with the total
    number of rows, 0 if it is unknown. Raises UsageError."""
    count, on_terminal = 0, output == "-" and sys.stdout.isatty()
    bar = nullcontext(no_progress) if on_terminal else progress_bar("exporting")
    with bar as progress, open_output(output) as file:
        for rows, total in pages:
            for row in rows:
                file.write(json_line(row, on_terminal=on_terminal))
                count += 1
            progress("", count, total)
    return count


def json_line(value: Any, *, on_terminal: bool) -> bytes:
    """Return a JSON value as one line. `on_terminal`: without characters that control one."""
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return (json_escaped(line) if on_terminal else line).encode() + b"\n"
