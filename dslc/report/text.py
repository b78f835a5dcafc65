"""The report for people: the message, the line it is about with a ruler below, what to do, and a summary."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import lru_cache

from dslc.compiler import Compilation
from dslc.diagnostic import Diagnostic, Severity
from dslc.report.mask import masked
from dslc.report.selection import count, shown
from dslc.report.view import View
from dslc.source import Source, Span

_WIDEST = 160  # characters of a line that are shown
_COLOURS = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "note": "\x1b[1;36m", "bold": "\x1b[1m", "dim": "\x1b[34m"}
_PLAIN = "\x1b[0m"


def render(compilation: Compilation, view: View) -> str:
    """The whole report; it ends with the summary line."""
    page = _Page({source.name: source for source in compilation.sources}, view.colour)
    parts = [page.diagnostic(diagnostic) for diagnostic in shown(compilation.diagnostics)]
    return "\n".join([*parts, *_rest(compilation), summary(compilation)]) + "\n"


def render_failure(_message: str) -> str:
    """Nothing: the reason stands on standard error."""
    return ""


def summary(compilation: Compilation) -> str:
    """`2 files, 5 blocks checked: 1 error, 2 warnings`."""
    counts = {severity: count(compilation.diagnostics, severity) for severity in Severity}
    found = ", ".join(_many(number, severity.value) for severity, number in counts.items() if number)
    files, blocks = _many(len(compilation.sources), "file"), _many(compilation.blocks, "block")
    return f"{files}, {blocks} checked: {found or 'no problems'}"


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _rest(compilation: Compilation) -> list[str]:
    hidden = len(compilation.diagnostics) - len(shown(compilation.diagnostics))
    return [f"and {hidden} more, not shown: at most 100 a file are\n"] if hidden else []


class _Page:
    def __init__(self, sources: Mapping[str, Source], colour: bool) -> None:
        self.sources = sources
        self.colour = colour
        self._masked: dict[str, str] = {}

    def diagnostic(self, diagnostic: Diagnostic) -> str:
        severity = diagnostic.severity.value
        head = self._paint(f"{severity}[{diagnostic.code}]", severity)
        lines = [f"{head}{self._paint(f': {visible(diagnostic.message)}', 'bold')}"]
        lines += self._excerpt(diagnostic.file, diagnostic.span, "-->", "^", "", severity)
        for label in diagnostic.labels:
            lines += self._excerpt(label.file, label.span, ":::", "-", label.message, "dim")
        if diagnostic.hint:
            lines.append(f"   {self._paint('=', 'dim')} hint: {visible(diagnostic.hint)}")
        return "\n".join(lines) + "\n"

    def _excerpt(self, file: str, span: Span, arrow: str, sign: str, message: str, style: str) -> list[str]:
        """Where it is, the line, and the ruler below it; only the place when the file is not text."""
        source = self.sources[file]
        at, end = source.position(span.start), source.position(span.end)
        place = f"  {self._paint(arrow, 'dim')} {visible(file)}:{at.line}:{at.column}"
        if source.text is None or not source.data:
            return [place]
        line = self._line(source, at.line)
        last = end.column if end.line == at.line else len(line) + 1
        first = max(at.column - 1 - _WIDEST // 2, 0)
        shown_line = line[first : first + _WIDEST]
        start, stop = at.column - 1 - first, min(last - 1 - first, _WIDEST)
        indent = " " * _width(shown_line[:start])
        ruler = sign * max(_width(shown_line[start : max(stop, start + 1)]), 1)
        cut = ("…" if first else "", "…" if len(line) > first + _WIDEST else "")
        number, bar = f"{at.line:>4}", self._paint("|", "dim")
        marked = f"{' ' * len(cut[0])}{indent}{self._paint(f'{ruler} {message}'.rstrip(), style)}"
        return [place, f"     {bar}", f"{number} {bar} {cut[0]}{visible(shown_line)}{cut[1]}", f"     {bar} {marked}"]

    def _line(self, source: Source, number: int) -> str:
        if source.name not in self._masked:
            self._masked[source.name] = masked(source.text or "")
        return _lines(self._masked[source.name])[number - 1].removesuffix("\r")

    def _paint(self, text: str, style: str) -> str:
        return f"{_COLOURS[style]}{text}{_PLAIN}" if self.colour else text


@lru_cache(maxsize=8)
def _lines(text: str) -> list[str]:
    return text.split("\n")


def visible(text: str) -> str:
    """Text that cannot move the cursor, change colours or turn the direction of writing; a tab is four columns."""
    if text.isprintable():
        return text
    return "".join("    " if letter == "\t" else letter if letter.isprintable() else "\ufffd" for letter in text)


def _width(text: str) -> int:
    """Columns of a terminal that `visible(text)` takes."""
    if text.isascii():
        return len(text) + 3 * text.count("\t")
    return sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if letter == "\t":
        return 4
    if not letter.isprintable():
        return 1
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
