"""The file that an export writes: standard output, or a file that is replaced atomically."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from runtime.cli.terminal.output import F
from runtime.daemon.process.atomic_file import replacing
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
def written(output: str) -> Iterator[BinaryIO]:
    """Open standard output, or a file that is replaced atomically. Raises UsageError."""
    if output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    file = Path(output).absolute()
    if file.is_dir():
        raise UsageError(f"{output} is a folder", hint="name a file in it")
    with ExitStack() as stack:
        try:
            handle = stack.enter_context(replacing(file))
        except OSError as error:
            raise UsageError(f"{output} cannot be written: {(error.strerror or str(error)).lower()}") from None
        yield handle
