"""`dslc explain`: the page of a diagnostic code."""

from __future__ import annotations

import re
import shutil
import sys
from textwrap import fill, indent
from typing import TYPE_CHECKING, Any

import click

from dslc.cli.completion import complete_codes
from dslc.cli.terminal import CannotRun, colour, put

if TYPE_CHECKING:
    from dslc.explain.page import Page

_STYLES = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "note": "\x1b[1;36m",
    "bold": "\x1b[1m",
    "code": "\x1b[36m",
    "Wrong": "\x1b[1;31m",
    "Right": "\x1b[1;32m",
}
_WIDEST = 100  # columns; longer lines are hard to read


@click.command(short_help="Explain a diagnostic CODE, or list all codes.")
@click.argument("code", required=False, shell_complete=complete_codes)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The output format.",
)
def explain(code: str | None, form: str) -> None:
    """Explain CODE: what it means, why it matters, a wrong example and a right one. Without CODE, list all."""
    from dslc.diagnostics.diagnostic import CODES
    from dslc.explain.page import page

    if code is None:
        pages = [page(known) for known in CODES]
        put(_json({"codes": [_summary(each) for each in pages]}) if form == "json" else _list(pages))
        return
    if code.upper() not in CODES:
        raise CannotRun(_unknown_code(code))
    about = page(code.upper())
    if form == "json":
        examples = {"wrong": about.wrong, "right": about.right}
        put(_json({**_summary(about), "what": about.what, "why": about.why, **examples}))
    else:
        put(_Painter(colour(sys.stdout)).page(about))


def _unknown_code(code: str) -> str:
    from dslc.diagnostics.diagnostic import CODES

    near: list[str] = []
    for size in (3, 2, 1):  # length of the common prefix
        near = near or [known for known in CODES if known[:size] == code.upper()[:size]]
    hint = f"the nearest are {', '.join(near)}" if near else "`dslc explain` lists all"
    return f"unknown code {code!r}: {hint}"


def _summary(about: Page) -> dict[str, Any]:
    return {"code": about.code, "severity": about.severity.value, "title": about.title}


def _json(value: dict[str, Any]) -> str:
    from dslc.report.json import VERSION, dump

    return dump({"version": VERSION, **value})


def _list(pages: list[Page]) -> str:
    lines = [f"{each.code}  {each.severity.value:<7}  {each.title}" for each in pages]
    return "\n".join(lines) + "\n"


class _Painter:
    """Formats a page for a terminal, with its width and optional colours."""

    def __init__(self, colours: bool) -> None:
        self.colours = colours
        self.width = min(shutil.get_terminal_size().columns - 1, _WIDEST) if colours else _WIDEST

    def page(self, about: Page) -> str:
        severity = about.severity.value
        head = f"{self._paint(f'{severity}[{about.code}]', severity)}{self._paint(f': {about.title}', 'bold')}"
        examples = (("Wrong", about.wrong), ("Right", about.right))
        parts = [head, self._text(about.what), self._text(about.why)]
        parts += [f"{self._paint(name, name)}\n\n{indent(example, '    ').rstrip()}" for name, example in examples]
        return "\n\n".join(parts) + "\n"

    def _text(self, text: str) -> str:
        """Wrap paragraphs and colour words in backquotes."""
        lines = "\n\n".join(fill(part, self.width, break_on_hyphens=False) for part in text.split("\n\n"))
        return re.sub(r"`[^`]+`", lambda match: self._paint(match.group(), "code"), lines)

    def _paint(self, text: str, style: str) -> str:
        return f"{_STYLES[style]}{text}\x1b[0m" if self.colours else text
