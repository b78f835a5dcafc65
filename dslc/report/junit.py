"""Report as JUnit XML: a suite for each file and a case for each diagnostic.

Jenkins and GitLab show one failure per case, so a case has one diagnostic.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Xml

from dslc.diagnostics.diagnostic import Diagnostic, Severity
from dslc.files import SUFFIX
from dslc.report import View
from dslc.report.project import path_in_project
from dslc.report.selection import MOST_IN_A_FILE
from dslc.source import Source

if TYPE_CHECKING:
    from dslc.compiler import Compilation

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that are not allowed in XML 1.0, not even escaped."""


def render(compilation: Compilation, view: View) -> str:
    """Render the document. Diagnostics that fail the check are failures; others are passed cases with output."""
    fails = {Severity.ERROR, Severity.WARNING} if view.deny_warnings else {Severity.ERROR}
    found: dict[str, list[Diagnostic]] = {source.name: [] for source in compilation.sources}
    for diagnostic in compilation.diagnostics:
        found[diagnostic.file].append(diagnostic)
    suites = [_suite(source, found[source.name], fails) for source in compilation.sources]
    return _document(suites)


def render_failure(message: str) -> str:
    """Render one suite with one case that has an error."""
    suite = Xml.Element("testsuite", name="dslc", tests="1", failures="0", errors="1")
    case = Xml.SubElement(suite, "testcase", name="check", classname="dslc")
    Xml.SubElement(case, "error", type="dslc", message=_legal(message)).text = _legal(message)
    return _document([suite])


def _document(suites: Sequence[Xml.Element]) -> str:
    root = Xml.Element("testsuites", name="dslc")
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    root.extend(suites)
    Xml.indent(root)
    # ASCII, so that the output's encoding always agrees with the XML declaration.
    document: bytes = Xml.tostring(root, encoding="us-ascii", xml_declaration=True)
    return document.decode() + "\n"


def _suite(source: Source, diagnostics: Sequence[Diagnostic], fails: set[Severity]) -> Xml.Element:
    path = _legal(path_in_project(source.name))
    group = path.removesuffix(SUFFIX)  # Jenkins treats text after a dot as a class name
    cases = [_case(diagnostic, source, path, group, fails) for diagnostic in diagnostics[:MOST_IN_A_FILE]]
    rest = diagnostics[MOST_IN_A_FILE:]
    if rest:
        more, failed = f"and {len(rest)} more", any(diagnostic.severity in fails for diagnostic in rest)
        cases.append(_result("not shown", group, more, ("dslc", more) if failed else None))
    if not cases:
        cases.append(Xml.Element("testcase", name="no mistakes", classname=group))
    failures = str(sum(case.find("failure") is not None for case in cases))
    suite = Xml.Element("testsuite", name=path, tests=str(len(cases)), failures=failures, errors="0")
    suite.extend(cases)
    return suite


def _case(diagnostic: Diagnostic, source: Source, path: str, group: str, fails: set[Severity]) -> Xml.Element:
    at = source.position(diagnostic.span.start)
    hint = f"\nhint: {diagnostic.hint}" if diagnostic.hint else ""
    text = f"{path}:{at.line}:{at.column}: {diagnostic.severity.value}[{diagnostic.code}]: {diagnostic.message}{hint}"
    failure = (diagnostic.code, diagnostic.message) if diagnostic.severity in fails else None
    return _result(f"{diagnostic.code} at {at.line}:{at.column}", group, text, failure)


def _result(name: str, group: str, text: str, failure: tuple[str, str] | None) -> Xml.Element:
    """Return a case with an output. `failure`: type and message of a failed one."""
    case = Xml.Element("testcase", name=name, classname=group)
    if failure is None:
        Xml.SubElement(case, "system-out").text = _legal(text)
    else:
        Xml.SubElement(case, "failure", type=failure[0], message=_legal(failure[1])).text = _legal(text)
    return case


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", text)
