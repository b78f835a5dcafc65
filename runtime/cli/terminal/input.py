"""Text given as an argument, on standard input with `-`, or in a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from runtime.errors import UsageError


def text_or_input(given: str, name: str) -> str:
    """Return the argument called `name`, or the text on standard input without its last line end. Raises UsageError if
    it is not UTF-8."""
    raw = sys.stdin.buffer.read() if given == "-" else os.fsencode(given)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        where = "standard input" if given == "-" else name
        raise UsageError(f"{where} is not UTF-8 text: invalid byte {error.start + 1}") from None
    return text.removesuffix("\n").removesuffix("\r") if given == "-" else text


def text_or_file(given: str, name: str) -> str:
    """Return the text of the file after `@`, without its last line end, or else `text_or_input`. Raises UsageError."""
    if not given.startswith("@"):
        return text_or_input(given, name)
    try:
        return Path(given[1:]).read_bytes().decode("utf-8").removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise UsageError(f"{name} {given}: {(error.strerror or 'cannot be read').lower()}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{given[1:]} is not UTF-8 text: invalid byte {error.start + 1}") from None


@contextmanager
def open_input(source: str) -> Iterator[BinaryIO]:
    """Open a file, or standard input for `-`. Raises UsageError."""
    if source == "-":
        yield sys.stdin.buffer
        return
    try:
        file = Path(source).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise UsageError(f"{source}: {(error.strerror or str(error)).lower()}") from None
    with file:
        yield file
