"""Every code has a page with correct examples, and `dslc explain` shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.diagnostics.diagnostic import CODES, Diagnostic, Severity
from dslc.explain.page import page
from dslc.source import Source
from tests.cases import each_case
from tests.dslc.command import run

_PAGES = Path(__file__).parents[2] / "dslc" / "explain" / "pages"


def _diagnostics(program: str) -> list[Diagnostic]:
    return list(analyse([Source("example.symbiont", program)], Catalog.installed()).diagnostics)


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert {path.stem for path in _PAGES.iterdir()} == set(CODES)


@each_case("code", CODES)
def test_the_wrong_example_is_wrong_in_this_one_way(code: str) -> None:
    others = {"N202"} if code == "S108" else set()  # no existing settings are nested so deeply
    assert {diagnostic.code for diagnostic in _diagnostics(page(code).wrong)} - others == {code}


@each_case("code", CODES)
def test_the_right_example_is_right(code: str) -> None:
    assert _diagnostics(page(code).right) == []


@each_case("code", CODES)
def test_a_page_says_what_and_why_in_plain_words(code: str) -> None:
    about = page(code)
    assert about.severity is CODES[code][0]
    for text in (about.what, about.why):
        assert text.strip() == text
        assert text.endswith(".")
        assert text.count("`") % 2 == 0
        assert len(text) < 600


def test_a_page_is_printed_in_a_pipe_without_colours(tmp_path: Path) -> None:
    done = run("explain", "s105", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("error[S105]: sign between key and value\n\nA sign such as")
    assert "\nWrong\n\n    memory agent-memory {\n        retention = 90d\n    }\n\nRight\n\n" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_without_a_code_all_are_listed(tmp_path: Path) -> None:
    lines = run("explain", cwd=tmp_path).stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [[code, severity.value] for code, (severity, _) in CODES.items()]
    assert lines[0] == "S101  error    setting has no value"


def test_json_has_the_whole_page(tmp_path: Path) -> None:
    about = json.loads(run("explain", "P501", "--format", "json", cwd=tmp_path).stdout)
    assert set(about) == {"version", "code", "severity", "title", "what", "why", "wrong", "right"}
    assert (about["code"], about["severity"]) == ("P501", Severity.WARNING)
    listed = json.loads(run("explain", "--format", "json", cwd=tmp_path).stdout)
    assert [each["code"] for each in listed["codes"]] == list(CODES)


@pytest.mark.parametrize(
    ("code", "hint"), [("S119", "S110"), ("N20", "N201"), ("frobnicate", "`dslc explain` lists all")]
)
def test_an_unknown_code_exits_2_and_names_the_nearest(code: str, hint: str, tmp_path: Path) -> None:
    done = run("explain", code, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert hint in done.stderr
    report = json.loads(run("explain", code, "--format", "json", cwd=tmp_path).stdout)
    assert hint in report["failure"]
