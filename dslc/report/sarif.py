"""Report as SARIF 2.1.0: https://docs.oasis-open.org/sarif/sarif/v2.1.0/. Section numbers refer to that document.

Source text is not included, because it may contain secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dslc.diagnostics.diagnostic import CODES, Diagnostic, Fix
from dslc.explain.page import page
from dslc.report import View
from dslc.report.fingerprint import fingerprints
from dslc.report.json import dump
from dslc.report.project import uri_in_project
from dslc.report.selection import limit_per_file, omission_note
from dslc.source import Source, Span

if TYPE_CHECKING:
    from dslc.compiler import Compilation

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"
_RULES = {code: number for number, code in enumerate(CODES)}
_MEDIA_TYPE = "text/x-symbiont"


def render(compilation: Compilation, _view: View) -> str:
    """Render one run: rules, files and results."""
    files = _Files(compilation)
    diagnostics = limit_per_file(compilation.diagnostics)
    marks = fingerprints(diagnostics, files.sources)
    results = [files.result(diagnostic, mark) for diagnostic, mark in zip(diagnostics, marks, strict=True)]
    return _log(results, files.artifacts, omission_note(compilation.diagnostics), level="note", successful=True)


def render_failure(message: str) -> str:
    """Render a failed run, with the reason as its notification."""
    return _log([], [], [message], level="error", successful=False)


def _log(
    results: list[dict[str, Any]],
    artifacts: list[dict[str, Any]],
    notifications: list[str],
    *,
    level: str,
    successful: bool,
) -> str:
    invocation: dict[str, Any] = {"executionSuccessful": successful}
    if notifications:
        notes = [{"level": level, "message": _message(text)} for text in notifications]
        invocation["toolExecutionNotifications"] = notes
    run = {
        "tool": {"driver": _driver()},
        "invocations": [invocation],
        # §3.14.14: the project's path on this machine is left out for privacy.
        "originalUriBaseIds": {_ROOT: {"description": _message("the folder of the project")}},
        "artifacts": artifacts,
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return dump({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _driver() -> dict[str, Any]:
    from importlib.metadata import metadata

    about = metadata("symbiont")
    driver = {"name": "dslc", "version": about["Version"], "rules": [_rule(code) for code in CODES]}
    # Set if pyproject.toml has the project's address in [project.urls].
    addresses = [address.partition(", ")[2] for address in about.get_all("Project-URL") or ()]
    return driver | ({"informationUri": addresses[0]} if addresses else {})


def _rule(code: str) -> dict[str, Any]:
    severity, title = CODES[code]
    about = page(code)
    return {
        "id": code,
        "name": "".join(word[:1].upper() + word[1:] for word in re.findall(r"[A-Za-z0-9]+", title)),
        "shortDescription": _message(title),
        "fullDescription": _message(about.what),
        "help": _message(f"{about.what}\n\n{about.why}\n\n`dslc explain {code}` shows examples."),
        "defaultConfiguration": {"level": severity.value},
    }


class _Files:
    """Files of a compilation as artifacts, and locations in them."""

    def __init__(self, compilation: Compilation) -> None:
        self.sources: Mapping[str, Source] = {source.name: source for source in compilation.sources}
        self.index = {name: number for number, name in enumerate(self.sources)}
        self.artifacts = [self._artifact(source) for source in self.sources.values()]

    def _artifact(self, source: Source) -> dict[str, Any]:
        known = {} if source.text is None else {"encoding": "UTF-8"}
        return {
            "location": self._file(source.name),
            "length": len(source.data),
            "roles": ["analysisTarget"],
            "mimeType": _MEDIA_TYPE,
            **known,
        }

    def _file(self, name: str) -> dict[str, Any]:
        uri = uri_in_project(name)
        base = {} if uri.startswith("file:///") else {"uriBaseId": _ROOT}
        return {"uri": uri, **base, "index": self.index[name]}

    def result(self, diagnostic: Diagnostic, fingerprint: str) -> dict[str, Any]:
        hint = f"\nhint: {diagnostic.hint}" if diagnostic.hint else ""
        labels = [
            {"id": number, "message": _message(label.message), **self._place(label.file, label.span)}
            for number, label in enumerate(diagnostic.labels, start=1)
        ]
        optional: dict[str, Any] = {"relatedLocations": labels} if labels else {}
        if diagnostic.fix is not None:
            optional["fixes"] = [self._fix(diagnostic.fix, diagnostic.file)]
        return {
            "ruleId": diagnostic.code,
            "ruleIndex": _RULES[diagnostic.code],
            "level": diagnostic.severity.value,
            "message": _message(diagnostic.message + hint),
            "locations": [self._place(diagnostic.file, diagnostic.span)],
            "partialFingerprints": {"dslc/v1": fingerprint},
            **optional,
        }

    def _place(self, file: str, span: Span) -> dict[str, Any]:
        return {"physicalLocation": {"artifactLocation": self._file(file), "region": self._region(file, span)}}

    def _region(self, file: str, span: Span) -> dict[str, int]:
        source = self.sources[file]
        start, end = source.position(span.start), source.position(span.end)
        return {
            "startLine": start.line,
            "startColumn": start.column,
            "endLine": end.line,
            "endColumn": end.column,
            "byteOffset": span.start,
            "byteLength": span.end - span.start,
        }

    def _fix(self, fix: Fix, file: str) -> dict[str, Any]:
        replacements = [
            {"deletedRegion": self._region(file, edit.span), "insertedContent": {"text": edit.text}}
            for edit in fix.edits
        ]
        change = {"artifactLocation": self._file(file), "replacements": replacements}
        return {"description": _message(fix.message), "artifactChanges": [change], "properties": {"safe": fix.safe}}


def _message(text: str) -> dict[str, str]:
    """Escape a message. §3.11.5: a single brace would begin a placeholder. §3.11.6: `[a](b)` would be a link."""
    return {"text": text.replace("{", "{{").replace("}", "}}").replace("](", "] (")}
