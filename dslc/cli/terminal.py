"""Input and output of the commands: sources, reports, and the error of a command that cannot run."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO, cast

import click

if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path

    from dslc.source import Source

_COLOUR = re.compile(r"(\x1b\[(?:0|1|2|94|3[1-6]|1;3[1-6])m)")
"""The colours of reports."""

STDIN = "-"
STDIN_NAME = "<stdin>"


class CannotRun(click.ClickException):
    """The command could not run; exit code 2."""

    exit_code = 2


def sources(paths: Sequence[str]) -> list[Source]:
    """Return the sources at `paths` (`-`: standard input; empty: the current folder). Raises CannotRun."""
    from dslc import files
    from dslc.source import LARGEST, Source

    paths = paths or (".",)
    found: list[Source] = []
    left_out: list[Path] = []
    for path in paths:
        if path != STDIN and _is_stream(path):
            raise CannotRun(f"{path} is a pipe or a device, not a file: give `-` and send the text to standard input")
    try:
        if STDIN in paths:
            found.append(Source(STDIN_NAME, standard_input(LARGEST + 1)))
        on_disk = files.find((path for path in paths if path != STDIN), left_out=left_out)
        found += [Source(str(path), files.read(path)) for path in on_disk]
    except FileNotFoundError as error:
        raise CannotRun(f"no such file or folder: {error.filename}") from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise CannotRun(f"cannot read {where}{error.strerror or error}") from error
    _say_left_out(left_out)
    if not found:
        raise CannotRun(f"no .symbiont file found in {', '.join(paths)}")
    return found


def _is_stream(path: str) -> bool:
    """True if the path exists and is neither a file nor a folder, such as the pipe of `<(…)` in a shell."""
    from pathlib import Path

    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _say_left_out(links: Sequence[Path]) -> None:
    if links:
        from dslc.report.text import visible

        for link in links:
            why = "the link leads outside the folder or to a hidden file; to include it, name it on the command line"
            put(f"dslc: skipped {visible(str(link))}: {why}\n", to_stderr=True)


def standard_input(most: int) -> bytes:
    """Read standard input, up to `most` bytes, in several reads so that an interrupt is noticed between them."""
    if sys.stdin is None:  # closed before the start
        raise CannotRun("standard input is closed")
    stream, data = cast("BufferedReader", sys.stdin.buffer), bytearray()
    while len(data) < most and (section := stream.read1(most - len(data))):
        data += section
    return bytes(data)


def colour(stream: TextIO | None) -> bool:
    """True if the stream is a terminal that supports colours; see https://no-color.org."""
    terminal = stream is not None and stream.isatty()
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def put(text: str, *, to_stderr: bool = False) -> None:
    """Write a whole report. A closed pipe is not an error; characters that the encoding lacks are escaped."""
    stream: TextIO | None = sys.stderr if to_stderr else sys.stdout
    encoding = (stream and stream.encoding) or "utf-8"
    put_bytes(text.encode(encoding, "backslashreplace"), to_stderr=to_stderr)


def put_bytes(data: bytes, *, to_stderr: bool = False) -> None:
    """Write bytes unchanged, for example those of a file. A closed pipe is not an error.

    On a terminal only the colours of reports have an effect: every other control character becomes U+FFFD.
    """
    stream: TextIO | None = sys.stderr if to_stderr else sys.stdout
    if stream is None:  # closed before the start
        return
    if stream.isatty():
        data = _harmless(data.decode("utf-8", "replace")).encode(stream.encoding, "backslashreplace")
    try:
        stream.buffer.write(data)
        stream.flush()
    except OSError as error:
        # Python flushes again at exit and would report the error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError) and not to_stderr:
            raise CannotRun(f"cannot write: {error.strerror}") from error


def _harmless(text: str) -> str:
    return "".join(
        part if at % 2 else "".join(each if each.isprintable() or each in "\t\n" else "\ufffd" for each in part)
        for at, part in enumerate(_COLOUR.split(text))
    )
