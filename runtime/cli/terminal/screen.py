"""The one way to standard output and standard error: nothing but what `style` made controls the terminal.

What commands print comes from models, senders and servers: a character that moves the cursor or is not seen would let
one of them draw over what a person reads, such as the question whether a call may run.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

if TYPE_CHECKING:
    from rich.console import RenderableType

_PRINTABLE_CONTROLS: Final = "\t\n\u200c\u200d"

# Printable by their category, and yet blank: fillers, and the selectors of variants other than those of emoji.
_BLANK: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0))))
)


class StyledText(str):
    """Text that `style` and `joined` made. Joined to other text in another way it is text like any other."""

    __slots__ = ()


def style(text: str, *, fg: str | None = None, bold: bool | None = None, dim: bool | None = None) -> StyledText:
    """Return `text`, in one line, with a colour."""
    return StyledText(click.style(one_line(text), fg=fg, bold=bold, dim=dim))


def joined(parts: Iterable[str], between: str = "") -> StyledText:
    """Return one line of parts; those that are not styled as `one_line` returns them."""
    return StyledText(between.join(each if isinstance(each, StyledText) else one_line(each) for each in parts))


def echo(
    *parts: str,
    err: bool = False,
    nl: bool = True,
    fg: str | None = None,
    bold: bool | None = None,
    dim: bool | None = None,
) -> None:
    """Print one line: a line end in it becomes a space. `err`: on standard error. `nl`: with a line end."""
    line = joined(parts)
    click.echo(click.style(line, fg=fg, bold=bold, dim=dim) if fg or bold or dim else line, err=err, nl=nl)


def echo_lines(lines: Iterable[str]) -> None:
    """Print several lines in one write."""
    click.echo("\n".join(joined((line,)) for line in lines))


def rule(width: int) -> str:
    """Return a horizontal line of `width` columns, of characters that the encoding of standard output has."""
    try:
        "─".encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return "-" * width
    return "─" * width


def echo_text(text: str, *, err: bool = False, nl: bool = True, fg: str | None = None) -> None:
    """Print text of several lines."""
    click.echo(click.style(printable(text), fg=fg) if fg else printable(text), err=err, nl=nl)


def echo_exact(text: str, *, nl: bool = True) -> None:
    """Print text of several lines: exactly for a program that reads standard output, printable on a terminal."""
    click.echo(printable(text) if sys.stdout.isatty() else text, nl=nl)


def echo_json(value: Any, *, indent: int | None = 2) -> None:
    """Print one JSON document on standard output; what is not printable is escaped on a terminal, and everything beyond
    ASCII if there is text that the encoding does not have."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        text = json.dumps(value, indent=indent)
    click.echo(json_escaped(text) if sys.stdout.isatty() else text)


def echo_markdown(text: str) -> None:
    """Print Markdown, laid out unless colours are off."""
    if os.environ.get("NO_COLOR"):
        echo_text(text, nl=not text.endswith("\n"))
        return
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.segment import Segment, Segments

    console = Console()
    # Not the source: `&#27;` in it becomes a control character only here.
    laid_out = console.render(Markdown(text, hyperlinks=False))
    console.print(Segments(Segment(printable(each.text), each.style, each.control) for each in laid_out), end="")


def rendered_lines(renderable: RenderableType, width: int) -> list[StyledText]:
    """Return the lines of a table whose cells are printable, of at most `width` columns each."""
    from rich.console import Console

    file = StringIO()
    Console(file=file, width=width, force_terminal=True, color_system="standard", no_color=False).print(renderable)
    return [StyledText(line.rstrip()) for line in file.getvalue().splitlines()]


@contextmanager
def counting_bar(total: int, title: str, *, hidden: bool = False) -> Iterator[Callable[[int], None]]:
    """Yield a function that adds to a bar on standard error, if that is a terminal."""
    hidden = hidden or not sys.stderr.isatty()
    with click.progressbar(length=total, label=one_line(title), file=sys.stderr, hidden=hidden) as bar:
        yield bar.update


def ask(question: str) -> bool:
    """Ask on standard error; return True for yes. Raises click.Abort at the end of the input."""
    return click.confirm(printable(question), err=True)


def ask_secret(question: str) -> str:
    """Ask on standard error for a text that is not shown."""
    answer: str = click.prompt(one_line(question), hide_input=True, err=True)
    return answer


def read_line(prompt: str) -> str:
    """Return the line that is typed after `prompt`. Raises EOFError, KeyboardInterrupt and UnicodeDecodeError."""
    return input(one_line(prompt))


def echo_bytes(data: bytes) -> None:
    """Write bytes to standard output unchanged; to a terminal as text."""
    if sys.stdout.isatty():
        echo_text(data.decode("utf-8", "replace"))
    else:
        binary_output().write(data)


def binary_output() -> BinaryIO:
    """Return standard output for a document of any length. Whoever writes to it asks first whether it is a terminal."""
    return sys.stdout.buffer


def printable(text: str) -> str:
    """Return `text` with U+FFFD for characters that move a terminal's cursor, change its colours or are invisible.

    The joiners (U+200C, U+200D), which some languages and emoji need, tabs and line ends stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join("\ufffd" if _is_unseen(each) and each not in _PRINTABLE_CONTROLS else each for each in text)


def one_line(text: str) -> str:
    """Return `text` as `printable` does, in one line."""
    return printable(text).replace("\n", " ").replace("\t", " ")


def json_escaped(document: str) -> str:
    """Return JSON with escapes for what is not printable, which is only in its strings."""
    return "".join(_escape(each) if _is_unseen(each) and each != "\n" else each for each in document)


def _is_unseen(letter: str) -> bool:
    return not letter.isprintable() or letter in _BLANK


def _escape(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2], strict=True))
