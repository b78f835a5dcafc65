"""Text given as an argument, or on standard input with `-`."""

from __future__ import annotations

import os
import sys

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
