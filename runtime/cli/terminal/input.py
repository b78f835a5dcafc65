"""Text given as an argument, on standard input with `-`, or in a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

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
