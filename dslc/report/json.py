"""Report for programs: always one JSON object."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dslc.diagnostics.diagnostic import Diagnostic, Fix, Severity
from dslc.report import View
from dslc.report.selection import count, limit_per_file
from dslc.source import Position, Source, Span

if TYPE_CHECKING:
    from dslc.compiler import Compilation
    from dslc.editing.fix import AppliedFix

VERSION = 1
_LONE = re.compile("[\ud800-\udfff]")


def render(compilation: Compilation, view: View) -> str:
    """Render a compilation as JSON; `fixed` is present if fixes were requested."""
    sources = {source.name: source for source in compilation.sources}
    report: dict[str, Any] = {
        "version": VERSION,
        "files": len(compilation.sources),
        "blocks": compilation.blocks,
        "errors": count(compilation.diagnostics, Severity.ERROR),
        "warnings": count(compilation.diagnostics, Severity.WARNING),
        "diagnostics": [_diagnostic(diagnostic, sources) for diagnostic in limit_per_file(compilation.diagnostics)],
    }
    if view.applied is not None:
        report["fixed"] = [_applied_fix(applied) for applied in view.applied]
    return dump(report)


def render_failure(message: str) -> str:
    """Render the same object for a check that could not run; `failure` is the reason."""
    return dump(
        {"version": VERSION, "files": 0, "blocks": 0, "errors": 0, "warnings": 0, "diagnostics": [], "failure": message}
    )


def dump(value: object) -> str:
    """Encode a value as ASCII JSON, which is safe in any stream encoding. Lone surrogates, which strict parsers refuse,
    are replaced."""
    return json.dumps(_whole(value), indent=2) + "\n"


def _whole(value: object) -> object:
    if isinstance(value, str):
        return value if value.isascii() else _LONE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(item) for item in value]
    return value


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
    return {"message": fix.message, "safe": fix.safe, "edits": edits}


def _applied_fix(applied: AppliedFix) -> dict[str, Any]:
    return {
        "code": applied.code,
        "message": applied.message,
        "file": applied.file,
        "position": _plain(applied.position),
    }


def _span(span: Span, source: Source) -> dict[str, Any]:
    return {"start": _position(span.start, source), "end": _position(span.end, source)}


def _position(offset: int, source: Source) -> dict[str, int]:
    return _plain(source.position(offset))


def _plain(position: Position) -> dict[str, int]:
    return {"offset": position.offset, "line": position.line, "column": position.column}
