"""Report as GitHub workflow commands: https://docs.github.com/actions/reference/workflow-commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dslc.diagnostics.diagnostic import Diagnostic, Severity
from dslc.report import View
from dslc.report.project import path_in_project
from dslc.report.selection import limit_per_file, omission_note
from dslc.report.text import summary, visible
from dslc.source import Source

if TYPE_CHECKING:
    from dslc.compiler import Compilation

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(compilation: Compilation, _view: View) -> str:
    """Render one command for each diagnostic, then a summary line."""
    sources = {source.name: source for source in compilation.sources}
    lines = [_command(diagnostic, sources[diagnostic.file]) for diagnostic in limit_per_file(compilation.diagnostics)]
    return "\n".join([*lines, *omission_note(compilation.diagnostics), summary(compilation)]) + "\n"


def render_failure(message: str) -> str:
    """Render one command without a location."""
    return f"::error title=dslc::{_data(message)}\n"


def _command(diagnostic: Diagnostic, source: Source) -> str:
    start, end = source.position(diagnostic.span.start), source.position(diagnostic.span.end)
    where: dict[str, object] = {"file": path_in_project(diagnostic.file), "line": start.line, "endLine": end.line}
    # GitHub accepts columns only for a location within one line.
    if start.line == end.line:
        where |= {"col": start.column, "endColumn": end.column}
    where["title"] = f"dslc {diagnostic.code}"
    properties = ",".join(f"{name}={_property(str(value))}" for name, value in where.items())
    hint = f"\nhint: {diagnostic.hint}" if diagnostic.hint else ""
    return f"::{_COMMANDS[diagnostic.severity]} {properties}::{_data(diagnostic.message + hint)}"


def _data(text: str) -> str:
    """Escape like `escapeData` of actions/toolkit, and replace unprintable characters."""
    kept = "\n".join(visible(line) for line in text.split("\n"))
    return kept.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape like `escapeProperty` of actions/toolkit: a file name is preserved, including line ends."""
    plain = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    escaped = plain.replace(":", "%3A").replace(",", "%2C")
    return "\t".join(visible(part) for part in escaped.split("\t"))
