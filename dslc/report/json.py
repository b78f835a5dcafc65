"""The report for programs: one JSON object, whatever happens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dslc.compiler import Compilation
from dslc.diagnostic import Diagnostic, Fix, Severity
from dslc.report.selection import count, shown
from dslc.report.view import View
from dslc.source import Source, Span

VERSION = 1


def render(compilation: Compilation, _view: View) -> str:
    """A compilation as JSON."""
    sources = {source.name: source for source in compilation.sources}
    return _dump(
        {
            "version": VERSION,
            "files": len(compilation.sources),
            "blocks": compilation.blocks,
            "errors": count(compilation.diagnostics, Severity.ERROR),
            "warnings": count(compilation.diagnostics, Severity.WARNING),
            "diagnostics": [_diagnostic(diagnostic, sources) for diagnostic in shown(compilation.diagnostics)],
        }
    )


def render_failure(message: str) -> str:
    """The same object when nothing could be checked; `failure` says why."""
    return _dump(
        {"version": VERSION, "files": 0, "blocks": 0, "errors": 0, "warnings": 0, "diagnostics": [], "failure": message}
    )


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"


def _diagnostic(diagnostic: Diagnostic, sources: Mapping[str, Source]) -> dict[str, Any]:
    source = sources[diagnostic.file]
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "file": diagnostic.file,
        "span": _span(diagnostic.span, source),
        "labels": [
            {"message": label.message, "file": label.file, "span": _span(label.span, sources[label.file])}
            for label in diagnostic.labels
        ],
        "hint": diagnostic.hint,
        "fix": _fix(diagnostic.fix, source),
    }


def _fix(fix: Fix | None, source: Source) -> dict[str, Any] | None:
    if fix is None:
        return None
    edits = [{"span": _span(edit.span, source), "text": edit.text} for edit in fix.edits]
    return {"message": fix.message, "edits": edits}


def _span(span: Span, source: Source) -> dict[str, Any]:
    return {"start": _position(span.start, source), "end": _position(span.end, source)}


def _position(offset: int, source: Source) -> dict[str, int]:
    position = source.position(offset)
    return {"offset": position.offset, "line": position.line, "column": position.column}
