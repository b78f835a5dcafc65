"""Report for GitLab Code Quality: https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dslc.diagnostics.diagnostic import Severity
from dslc.report import View
from dslc.report.fingerprint import fingerprints
from dslc.report.json import dump
from dslc.report.project import path_in_project
from dslc.report.selection import limit_per_file

if TYPE_CHECKING:
    from dslc.compiler import Compilation

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.NOTE: "info"}


def render(compilation: Compilation, _view: View) -> str:
    """Render a list of issues."""
    sources = {source.name: source for source in compilation.sources}
    diagnostics = limit_per_file(compilation.diagnostics)
    issues = []
    for diagnostic, fingerprint in zip(diagnostics, fingerprints(diagnostics, sources), strict=True):
        line = sources[diagnostic.file].position(diagnostic.span.start).line
        hint = f" ({diagnostic.hint})" if diagnostic.hint else ""
        place = {"path": path_in_project(diagnostic.file), "lines": {"begin": line}}
        description = diagnostic.message + hint
        issues.append(_issue(description, diagnostic.code, fingerprint, _SEVERITIES[diagnostic.severity], place))
    return dump(issues)


def render_failure(message: str) -> str:
    """Render one issue for the failure: an empty list would mean that all known issues are resolved."""
    place = {"path": ".", "lines": {"begin": 1}}
    return dump([_issue(f"dslc could not check: {message}", "dslc", "0" * 32, "blocker", place)])


def _issue(description: str, name: str, fingerprint: str, severity: str, place: dict[str, Any]) -> dict[str, Any]:
    return {
        "description": description,
        "check_name": name,
        "fingerprint": fingerprint,
        "severity": severity,
        "location": place,
    }
