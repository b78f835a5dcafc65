"""Text that is given as an argument, or with `-` on standard input."""

from __future__ import annotations

import os
import sys

from runtime.errors import UsageError


def text_or_input(given: str, name: str) -> str:
    """The argument, which is called `name`, or what standard input says, without the line end that `echo` and editors
    put last. Raises UsageError for what is not UTF-8."""
    raw = sys.stdin.buffer.read() if given == "-" else os.fsencode(given)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        where = "standard input" if given == "-" else name
        raise UsageError(f"{where} is not UTF-8 text: byte {error.start + 1} cannot be read") from None
    return text.removesuffix("\n").removesuffix("\r") if given == "-" else text
