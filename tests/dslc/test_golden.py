"""Golden cases: a folder of sources, and the reports about them.

`UPDATE_GOLDEN=1 pytest tests/dslc/test_golden.py` rewrites the answers; read them before they are committed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dslc.compiler import Compilation, analyse
from dslc.diagnostics.diagnostic import CODES
from dslc.files import find, read
from dslc.report import FORMATS
from dslc.report.program import render as render_program
from dslc.source import Source
from dslc.vocabulary import Vocabulary
from tests.cases import each_case
from tests.dslc.catalogs import CATALOG

CASES = Path(__file__).parent.parent / "golden" / "dslc"
UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))
_NAMES = sorted(path.name for path in CASES.iterdir() if path.is_dir())


def _compiled(case: str) -> Compilation:
    folder = CASES / case
    return analyse([Source(str(path.relative_to(folder)), read(path)) for path in find([folder])], CATALOG)


def _answers(case: str) -> dict[str, str]:
    """Return the files with which a case is compared: its reports, and the program if it has no error."""
    done = _compiled(case)
    answers = {f"report.{name}": FORMATS[name].render(done) for name in ("text", "json")}
    answers["report.txt"] = answers.pop("report.text")
    if not any(diagnostic.severity == "error" for diagnostic in done.diagnostics):
        answers["program.json"] = render_program(done.program, Vocabulary(CATALOG))
    return answers


@pytest.mark.parametrize("case", _NAMES)
def test_reports_say_what_they_said(case: str) -> None:
    answers = _answers(case)
    if UPDATE:
        for name, text in answers.items():
            (CASES / case / name).write_text(text, encoding="utf-8")
    expected = {
        path.name: path.read_text(encoding="utf-8")
        for path in (CASES / case).iterdir()
        if path.suffix in {".txt", ".json"}
    }
    assert answers == expected


def test_every_code_has_a_case() -> None:
    reports = [json.loads((CASES / case / "report.json").read_text(encoding="utf-8")) for case in _NAMES]
    assert {diagnostic["code"] for report in reports for diagnostic in report["diagnostics"]} == set(CODES)


@each_case("case", [name for name in _NAMES if name[:1].isupper()])
def test_a_case_named_for_a_code_has_that_code(case: str) -> None:
    assert case.partition("-")[0] in {diagnostic.code for diagnostic in _compiled(case).diagnostics}


@each_case("case", _NAMES)
def test_every_span_lies_in_its_file(case: str) -> None:
    done = _compiled(case)
    sizes = {source.name: len(source.data) for source in done.sources}
    places = [(diagnostic.file, diagnostic.span) for diagnostic in done.diagnostics]
    places += [(label.file, label.span) for diagnostic in done.diagnostics for label in diagnostic.labels]
    assert all(0 <= span.start <= span.end <= sizes[file] for file, span in places)
