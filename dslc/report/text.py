"""Report for people: message, source line with a marker below, hint, and summary."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from dslc.diagnostics.diagnostic import Diagnostic, Severity
from dslc.report import View
from dslc.report.selection import count, limit_per_file, omission_note
from dslc.source import Source, Span

if TYPE_CHECKING:
    from dslc.compiler import Compilation

_WIDEST = 160  # characters shown of a line
_COLOURS = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "note": "\x1b[1;36m", "bold": "\x1b[1m", "dim": "\x1b[94m"}
_PLAIN = "\x1b[0m"


def render(compilation: Compilation, view: View) -> str:
    """Render the whole report; the last lines are the summary and the suggested commands."""
    secrets: dict[str, list[Span]] = {}
    for found in compilation.diagnostics:
        if found.code == "P501":
            secrets.setdefault(found.file, []).append(found.span)
    page = _Page({source.name: source for source in compilation.sources}, secrets, view.colour)
    parts = [page.diagnostic(diagnostic) for diagnostic in limit_per_file(compilation.diagnostics)]
    parts += [f"{line}\n" for line in omission_note(compilation.diagnostics)]
    return "\n".join([*parts, summary(compilation), *_suggested_commands(compilation, view)]) + "\n"


def render_failure(_message: str) -> str:
    """Return "": the reason is written to standard error."""
    return ""


def summary(compilation: Compilation) -> str:
    """Summary line: `2 files, 5 blocks checked: 1 error, 2 warnings`."""
    counts = {severity: count(compilation.diagnostics, severity) for severity in Severity}
    found = ", ".join(_many(number, severity.value) for severity, number in counts.items() if number)
    files, blocks = _many(len(compilation.sources), "file"), _many(compilation.blocks, "block")
    return f"{files}, {blocks} checked: {found or 'no problems'}"


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _suggested_commands(compilation: Compilation, view: View) -> list[str]:
    """Line with commands that help with the diagnostics; empty list if there are none."""
    if not compilation.diagnostics:
        return []
    worst = min(compilation.diagnostics, key=lambda diagnostic: list(Severity).index(diagnostic.severity))
    fixes = [diagnostic.fix for diagnostic in compilation.diagnostics if diagnostic.fix is not None]
    safe = sum(fix.safe for fix in fixes)
    offers = [f"{safe} fixable with `dslc check --fix`"] if safe and view.applied is None else []
    if len(fixes) > safe:
        offers.append(f"{len(fixes) - safe} {'more ' if offers else ''}with `--unsafe-fixes`, if the guess is right")
    return ["; ".join([*offers, f"more about a code: `dslc explain {worst.code}`"])]


class _Page:
    def __init__(self, sources: Mapping[str, Source], secrets: Mapping[str, Sequence[Span]], colour: bool) -> None:
        self.sources = sources
        self.colour = colour
        self._secrets = secrets
        self._masked: dict[str, str] = {}

    def diagnostic(self, diagnostic: Diagnostic) -> str:
        severity = diagnostic.severity.value
        head = self._paint(f"{severity}[{diagnostic.code}]", severity)
        lines = [f"{head}{self._paint(f': {visible(diagnostic.message)}', 'bold')}"]
        lines += self._excerpt(diagnostic.file, diagnostic.span, "-->", "^", "", severity)
        for label in diagnostic.labels:
            lines += self._excerpt(label.file, label.span, ":::", "-", visible(label.message), "dim")
        if diagnostic.hint:
            lines.append(f"   {self._paint('=', 'dim')} {self._paint('hint:', 'bold')} {visible(diagnostic.hint)}")
        return "\n".join(lines) + "\n"

    def _excerpt(self, file: str, span: Span, arrow: str, sign: str, message: str, style: str) -> list[str]:
        """Location, source line and marker below it; only the location if the file is not text.

        A file with NUL characters is not a program; its lines are not shown.
        """
        source = self.sources[file]
        at, end = source.position(span.start), source.position(span.end)
        place = f"  {self._paint(arrow, 'dim')} {visible(file)}:{at.line}:{at.column}"
        if source.text is None or not source.data or "\0" in source.text:
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
        gutter = f"{' ' * len(number)} {bar}"
        last_line = end.line - (end.column == 1)  # a line end belongs to its line
        onward = f"up to line {last_line}" if last_line > at.line else ""
        marked = self._paint(" ".join(part for part in (ruler, message, onward) if part), style)
        shown_line = f"{cut[0]}{visible(shown_line)}{cut[1]}"
        return [place, gutter, f"{number} {bar} {shown_line}", f"{gutter} {' ' * len(cut[0])}{indent}{marked}"]

    def _line(self, source: Source, number: int) -> str:
        if source.name not in self._masked:
            from dslc.report.mask import masked  # late: not needed for a program without diagnostics

            known = source.indexes(edge for span in sorted(self._secrets.get(source.name, ())) for edge in span)
            self._masked[source.name] = masked(source.text or "", zip(known, known, strict=True))
        return _lines(self._masked[source.name])[number - 1].removesuffix("\r")

    def _paint(self, text: str, style: str) -> str:
        return f"{_COLOURS[style]}{text}{_PLAIN}" if self.colour else text


@lru_cache(maxsize=8)
def _lines(text: str) -> list[str]:
    return text.split("\n")


def visible(text: str) -> str:
    """Replace characters that move the cursor, change colours or the writing direction; a tab becomes four spaces."""
    if text.isprintable():
        return text
    return "".join("    " if letter == "\t" else letter if letter.isprintable() else "\ufffd" for letter in text)


def _width(text: str) -> int:
    """Number of terminal columns of `visible(text)`."""
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
