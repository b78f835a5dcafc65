"""Every format is well-formed whatever is reported, agrees with the others, and shows no secret."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from email.message import Message
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft4Validator

from dslc.compiler import Compilation, analyse
from dslc.diagnostics.diagnostic import CODES, Diagnostic, Edit, Fix, Label, Severity
from dslc.editing.edit import apply
from dslc.files import find, read
from dslc.report import FORMATS
from dslc.report.project import path_in_project
from dslc.report.selection import limit_per_file, omission_note
from dslc.source import Source, Span
from tests.cases import each_case
from tests.dslc.catalogs import CATALOG

_SCHEMAS = Path(__file__).parent / "schemas"
_CASES = Path(__file__).parents[2] / "golden" / "dslc"
_XSD = "{http://www.w3.org/2001/XMLSchema}"
_URI = re.compile(r"(?:file:///)?(?:[A-Za-z0-9._~/-]|%[0-9A-F]{2})+")

_PROGRAM = """\
memory agent-memory {
    retenton 90d
    path     "data/a"
    path     "data/b"
}

webhook w {
    path   "/w"
    secret "hunter2"
    agent  nobody
}
"""


@pytest.fixture(autouse=True)
def _no_build_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.delenv("CI_PROJECT_DIR", raising=False)


def _compiled(text: str = _PROGRAM, name: str = "a.symbiont") -> Compilation:
    return analyse([Source(name, text)], CATALOG)


@cache
def _sarif_schema() -> Draft4Validator:
    schema = json.loads((_SCHEMAS / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    Draft4Validator.check_schema(schema)
    return Draft4Validator(schema)


def _sarif(report: str) -> dict[str, Any]:
    """Return the only run of a report that the schema accepts."""
    log = json.loads(report)
    _sarif_schema().validate(log)
    (run,) = log["runs"]
    assert isinstance(run, dict)
    return run


@cache
def _junit_schema() -> dict[str, tuple[set[str], set[str], set[str], bool]]:
    """Return for every element its attributes, the required ones, its children, and whether it has text."""
    root = Xml.parse(_SCHEMAS / "junit-10.xsd").getroot()
    known = {}
    for element in root.findall(f"{_XSD}element"):
        attributes = list(element.iter(f"{_XSD}attribute"))
        shape = element.find(f"{_XSD}complexType")
        known[element.attrib["name"]] = (
            {attribute.attrib["name"] for attribute in attributes},
            {attribute.attrib["name"] for attribute in attributes if attribute.get("use") == "required"},
            {child.attrib["ref"] for child in element.iter(f"{_XSD}element") if "ref" in child.attrib},
            shape is None or shape.get("mixed") == "true",
        )
    return known


def _junit(report: str) -> Xml.Element:
    """Return the root of a report that the schema accepts."""
    assert report.isascii()
    root = Xml.fromstring(report)
    assert root.tag == "testsuites"
    for element in root.iter():
        attributes, required, children, text = _junit_schema()[element.tag]
        assert required <= set(element.attrib) <= attributes
        assert {child.tag for child in element} <= children
        assert text or not (element.text or "").strip()
        assert not (element.tail or "").strip()
    for group in (root, *root.iter("testsuite")):
        cases = list(group.iter("testcase"))
        assert int(group.attrib["tests"]) == len(cases)
        assert int(group.attrib["failures"]) == sum(case.find("failure") is not None for case in cases)
        assert int(group.attrib["errors"]) == sum(case.find("error") is not None for case in cases)
    return root


def _commands(report: str) -> Iterator[tuple[str, dict[str, str], str]]:
    """Return the workflow commands as GitHub's runner reads them: name, properties, message."""
    assert "\r" not in report
    for line in report.splitlines():
        if line.startswith("::"):
            head, _, message = line[2:].partition("::")
            name, _, listed = head.partition(" ")
            properties = dict(part.split("=", 1) for part in listed.split(","))
            yield name, {key: _unescaped(value) for key, value in properties.items()}, _unescaped(message)


def _unescaped(text: str) -> str:
    for escape, letter in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escape, letter)
    return text


def _well_formed(done: Compilation) -> None:
    """Assert that every format is readable by its consumer and contains the diagnostics."""
    reports = {name: form.render(done, colour=True, deny_warnings=True, applied=()) for name, form in FORMATS.items()}
    number, more = len(limit_per_file(done.diagnostics)), len(omission_note(done.diagnostics))
    for name, report in reports.items():
        assert report.endswith("\n")
        report.encode("utf-8", "strict" if FORMATS[name].document else "surrogateescape")
    assert not re.search(r"\\ud[89a-f]", re.sub(r"\\ud[89ab]..\\ud[c-f]..", "", reports["json"].replace(r"\\", "")))
    assert len(json.loads(reports["json"])["diagnostics"]) == number
    assert len({issue["fingerprint"] for issue in json.loads(reports["gitlab"])}) == number
    assert len(_sarif(reports["sarif"])["results"]) == number
    cases = [case for case in _junit(reports["junit"]).iter("testcase") if case.attrib["name"] != "no mistakes"]
    assert len(cases) == number + more
    assert len(list(_commands(reports["github"]))) == number
    assert len(reports["github"].splitlines()) == number + more + 1


@each_case("case", sorted(path.name for path in _CASES.iterdir() if path.is_dir()))
def test_every_golden_case_is_well_formed_in_every_format(case: str) -> None:
    folder = _CASES / case
    sources = [Source(str(path.relative_to(folder)), read(path)) for path in find([folder])]
    _well_formed(analyse(sources, CATALOG))


_TEXT = st.text(st.characters(codec=None), max_size=20) | st.sampled_from(
    (
        "a\nb\r\nc",
        "::error::x",
        "%0A",
        "a,b:c=d",
        "]]>&<\"'",
        "\x00\x1b[31m\ufffe\uffff",
        "\ud83d",
        "{0} {",
        "[a](b)",
        "😀é",
    )
)
_NAME = _TEXT.map(lambda name: name.replace("\0", "") or "x")


@st.composite
def _any_compilation(draw: st.DrawFn) -> Compilation:
    name = draw(_NAME)
    content = draw(st.binary(max_size=30) | _TEXT.map(lambda text: text.encode("utf-8", "surrogatepass")))
    other = f"{name}.other"

    def span() -> Span:
        start, end = sorted((draw(st.integers(0, len(content))), draw(st.integers(0, len(content)))))
        return Span(start, end)

    def diagnostic() -> Diagnostic:
        code = draw(st.sampled_from(list(CODES)))
        label = Label(draw(_TEXT), draw(st.sampled_from([name, other])), Span(0, 0))
        fix = Fix(draw(_TEXT), (Edit(span(), draw(_TEXT)),))
        severity = draw(st.sampled_from(list(Severity)))
        hint, fixes = draw(st.none() | _TEXT), draw(st.none() | st.just(fix))
        return Diagnostic(code, severity, draw(_TEXT), name, span(), (label,) * draw(st.integers(0, 1)), hint, fixes)

    diagnostics = tuple(diagnostic() for _ in range(draw(st.integers(0, 3))))
    sources = (Source(name, content), Source(other, ""))
    return _compiled("")._replace(diagnostics=diagnostics, sources=sources)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_any_compilation())
def test_any_diagnostics_are_well_formed_in_every_format(done: Compilation) -> None:
    _well_formed(done)


@settings(deadline=None)
@given(_NAME, _TEXT)
@example("a,b:c%\n.symbiont", "50%\r\n::error::")
def test_github_reads_back_names_and_messages(name: str, message: str) -> None:
    about = Diagnostic("S109", Severity.ERROR, message, name, Span(0, 0))
    done = _compiled("")._replace(sources=(Source(name, ""),), diagnostics=(about,))
    ((command, properties, text),) = _commands(FORMATS["github"].render(done))
    assert (command, properties["title"]) == ("error", "dslc S109")
    visible = "".join(letter if letter.isprintable() or letter in "\t\r\n" else "\ufffd" for letter in name)
    assert properties["file"] == path_in_project(visible)
    if message.isprintable():
        assert text == message


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if name != "text"])
@pytest.mark.parametrize("message", ["no such file or folder: nowhere", '50% {0} <b>"\x00\ud800\n::x é😀'])
def test_a_failure_is_well_formed_and_says_why(name: str, message: str) -> None:
    report = FORMATS[name].render_failure(message)
    if name == "json":
        assert json.loads(report)["failure"].startswith(message[:5])
    elif name == "gitlab":
        (issue,) = json.loads(report)
        assert issue["severity"] == "blocker"
        assert message[:5] in issue["description"]
    elif name == "sarif":
        (invocation,) = _sarif(report)["invocations"]
        assert not invocation["executionSuccessful"]
        assert invocation["toolExecutionNotifications"][0]["message"]["text"].startswith(message[:4])
    elif name == "junit":
        (case,) = _junit(report).iter("testcase")
        assert (case.find("error") or case[0]).attrib["message"].startswith(message[:5])
    else:
        ((command, _, text),) = _commands(report)
        assert command == "error"
        assert text.startswith(message[:5])


def test_github_says_where_what_and_what_to_do() -> None:
    report = FORMATS["github"].render(_compiled())
    assert report.splitlines()[0] == (
        "::error file=a.symbiont,line=2,endLine=2,col=5,endColumn=13,title=dslc N202::"
        "`memory agent-memory` has no setting `retenton`%0Ahint: did you mean `retention`?"
    )
    assert [command for command, _, _ in _commands(report)] == ["error", "error", "warning", "warning"]
    assert report.splitlines()[-1] == "1 file, 2 blocks checked: 2 errors, 2 warnings"


def test_github_gets_no_columns_of_a_place_over_several_lines() -> None:
    about = Diagnostic("S102", Severity.ERROR, "x", "a.symbiont", Span(0, 30))
    done = _compiled()._replace(diagnostics=(about,))
    assert "col" not in FORMATS["github"].render(done).lower().split("::")[1]


def _fingerprints(text: str) -> dict[str, str]:
    issues = json.loads(FORMATS["gitlab"].render(_compiled(text)))
    return {f"{issue['check_name']} {issue['description']}": issue["fingerprint"] for issue in issues}


def test_a_fingerprint_stays_when_lines_move_and_goes_when_its_line_changes() -> None:
    before = _fingerprints(_PROGRAM)
    assert _fingerprints('# new\n\nmemory more {\n    path "data/c"\n}\n' + _PROGRAM).items() >= before.items()
    assert _fingerprints(_PROGRAM.replace("    ", "\t\t")) == before
    after = _fingerprints(_PROGRAM.replace('"data/b"', '"data/c"'))
    assert [key[:4] for key in before if before[key] != after[key]] == ["N203"]


def test_a_fingerprint_tells_equal_problems_apart() -> None:
    text = (
        "".join(f"agent a{number} {{\n    stepz 1\n}}\n" for number in range(3)).replace("a0", "x").replace("a1", "x")
    )
    issues = json.loads(FORMATS["gitlab"].render(_compiled(text)))
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)


def test_a_fingerprint_does_not_depend_on_the_secret() -> None:
    other = _fingerprints(_PROGRAM.replace("hunter2", "hunter3"))
    assert other == _fingerprints(_PROGRAM)


def test_gitlab_has_what_its_widget_needs() -> None:
    issues = json.loads(FORMATS["gitlab"].render(_compiled()))
    assert issues[0] == {
        "description": "`memory agent-memory` has no setting `retenton` (did you mean `retention`?)",
        "check_name": "N202",
        "fingerprint": issues[0]["fingerprint"],
        "severity": "major",
        "location": {"path": "a.symbiont", "lines": {"begin": 2}},
    }
    assert [issue["severity"] for issue in issues] == ["major", "major", "minor", "minor"]
    assert re.fullmatch("[0-9a-f]{32}", issues[0]["fingerprint"])


def test_gitlab_gets_an_empty_list_when_nothing_is_wrong() -> None:
    assert FORMATS["gitlab"].render(_compiled("")) == "[]\n"


def test_sarif_knows_every_code_and_names_the_right_one() -> None:
    run = _sarif(FORMATS["sarif"].render(_compiled()))
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(CODES)
    names = [rule["name"] for rule in rules]
    assert names[0] == "SettingHasNoValue"
    assert len({*names}) == len(CODES)
    assert all(name.isidentifier() and name[0].isupper() for name in names)
    assert all(rule["help"]["text"] and rule["shortDescription"]["text"] for rule in rules)
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    assert [result["level"] for result in run["results"]] == ["error", "error", "warning", "warning"]
    assert run["columnKind"] == "unicodeCodePoints"
    assert run["invocations"] == [{"executionSuccessful": True}]


def test_sarif_names_the_projects_address_as_soon_as_it_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    about = Message()
    about["Version"] = "1.0"
    about["Project-URL"] = "Homepage, https://example.org/symbiont"
    monkeypatch.setattr("importlib.metadata.metadata", lambda _: about)
    driver = _sarif(FORMATS["sarif"].render(_compiled()))["tool"]["driver"]
    assert driver["informationUri"] == "https://example.org/symbiont"


def test_sarif_points_at_what_it_means_in_characters_and_in_bytes() -> None:
    text = '\ufeffwebhook w {\r\n    path "/é😀 " secret "secret://é😀w/A" agent nobody\r\n}\r\n'
    done = _compiled(text)
    data, lines = text.encode(), text.removeprefix("\ufeff").split("\n")
    regions = [
        result["locations"][0]["physicalLocation"]["region"]
        for result in _sarif(FORMATS["sarif"].render(done))["results"]
    ]
    assert regions
    for region, diagnostic in zip(regions, done.diagnostics, strict=True):
        in_bytes = data[region["byteOffset"] :][: region["byteLength"]].decode()
        assert in_bytes == data[diagnostic.span.start : diagnostic.span.end].decode()
        line = lines[region["startLine"] - 1]
        assert region["startLine"] == region["endLine"]
        assert line[region["startColumn"] - 1 : region["endColumn"] - 1] == in_bytes


def test_sarif_carries_labels_and_fixes() -> None:
    done = _compiled()
    results = {result["ruleId"]: result for result in _sarif(FORMATS["sarif"].render(done))["results"]}
    (related,) = results["N203"]["relatedLocations"]
    assert related["message"]["text"] == "first given here"
    assert related["physicalLocation"]["region"]["startLine"] == 3
    for diagnostic in done.diagnostics:
        if diagnostic.fix is None:
            assert "fixes" not in results[diagnostic.code]
            continue
        (fix,) = results[diagnostic.code]["fixes"]
        (change,) = fix["artifactChanges"]
        edits = [
            Edit(
                Span(region["byteOffset"], region["byteOffset"] + region["byteLength"]), one["insertedContent"]["text"]
            )
            for one in change["replacements"]
            for region in [one["deletedRegion"]]
        ]
        assert change["artifactLocation"]["uri"] == "a.symbiont"
        assert apply(_PROGRAM.encode(), edits) == apply(_PROGRAM.encode(), diagnostic.fix.edits)


def test_sarif_doubles_braces_and_makes_no_links() -> None:
    about = Diagnostic("S104", Severity.ERROR, "`}` and [a](1)", "a.symbiont", Span(0, 0))
    run = _sarif(FORMATS["sarif"].render(_compiled()._replace(diagnostics=(about,))))
    assert run["results"][0]["message"]["text"] == "`}}` and [a] (1)"


@pytest.mark.parametrize(
    "name",
    ["a b.symbiont", "a:b.symbiont", "sub/ü😀%?#.symbiont", os.fsdecode(b"\xff.symbiont"), "/elsewhere/x y.symbiont"],
)
def test_sarif_names_files_by_uris(name: str) -> None:
    run = _sarif(FORMATS["sarif"].render(_compiled(name=name)))
    (artifact,) = run["artifacts"]
    uri = artifact["location"]["uri"]
    assert _URI.fullmatch(uri)
    assert unquote_to_bytes(uri.removeprefix("file://")) == os.fsencode(name)
    assert ("uriBaseId" in artifact["location"]) == (not name.startswith("/"))
    assert artifact["location"].get("uriBaseId", "%SRCROOT%") in run["originalUriBaseIds"]


def test_sarif_shows_no_source() -> None:
    report = FORMATS["sarif"].render(_compiled())
    assert "hunter2" not in report
    assert "snippet" not in report


def test_junit_fails_what_the_check_fails() -> None:
    def failures(*, deny_warnings: bool) -> list[str]:
        root = _junit(FORMATS["junit"].render(_compiled(), deny_warnings=deny_warnings))
        return [failure.attrib["type"] for failure in root.iter("failure")]

    assert failures(deny_warnings=False) == ["N202", "N203"]
    assert failures(deny_warnings=True) == ["N202", "N203", "P501", "R301"]


def test_junit_has_a_suite_for_every_file_and_a_case_for_every_diagnostic() -> None:
    done = analyse([Source("sub/a.symbiont", _PROGRAM), Source("b.symbiont", "")], CATALOG)
    first, second = _junit(FORMATS["junit"].render(done)).findall("testsuite")
    assert (first.attrib["name"], second.attrib["name"]) == ("sub/a.symbiont", "b.symbiont")
    assert [case.attrib["name"] for case in first] == ["N202 at 2:5", "N203 at 4:5", "P501 at 9:12", "R301 at 10:12"]
    assert {case.attrib["classname"] for case in first} == {"sub/a"}
    assert [case.attrib["name"] for case in second] == ["no mistakes"]


def test_errors_behind_the_first_hundred_still_fail_and_are_counted() -> None:
    done = _compiled("".join(f"agent a{number} {{ stepz 1 }}\n" for number in range(130)))
    assert len(done.diagnostics) > 130
    more = f"and {len(done.diagnostics) - 100} more"
    assert more in FORMATS["text"].render(done)
    assert more in FORMATS["github"].render(done)
    assert more in FORMATS["junit"].render(done)
    run = _sarif(FORMATS["sarif"].render(done))
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"].startswith(more)


@pytest.mark.parametrize("variable", ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"])
def test_paths_are_those_of_the_checkout(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    (real / "sub").mkdir(parents=True)
    link.symlink_to(real)
    monkeypatch.chdir(real / "sub")
    assert path_in_project("a.symbiont") == "a.symbiont"
    monkeypatch.setenv(variable, str(link))
    assert path_in_project("a.symbiont") == "sub/a.symbiont"
    assert path_in_project("../a.symbiont") == "a.symbiont"
    assert path_in_project(str(real / "b.symbiont")) == "b.symbiont"
    assert path_in_project("../../a.symbiont") == str(tmp_path / "a.symbiont")
    assert path_in_project("<stdin>") == "<stdin>"
    monkeypatch.setenv(variable, str(tmp_path / "another"))
    assert path_in_project("a.symbiont") == "a.symbiont"


def test_the_report_for_people_ends_with_what_to_do_next() -> None:
    lines = FORMATS["text"].render(_compiled()).splitlines()
    assert lines[-2:] == [
        "1 file, 2 blocks checked: 2 errors, 2 warnings",
        "2 with `--unsafe-fixes`, if the guess is right; more about a code: `dslc explain N202`",
    ]
    assert FORMATS["text"].render(_compiled("")) == "1 file, 0 blocks checked: no problems\n"


def test_rulers_stand_below_what_they_mean() -> None:
    text = "\n" * 99_998 + 'memory m { path "日本語", retention 90 }\n'
    lines = FORMATS["text"].render(_compiled(text)).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("99999 |"))
    line, ruler = lines[at], lines[at + 1]
    assert lines[at - 1] == "      |"
    assert line.index("90 }") + 3 == ruler.index("^^")  # three letters are two columns wide
    assert ruler.startswith("      | ")


@pytest.mark.parametrize("variable", ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"])
@pytest.mark.parametrize("here", [".", "elsewhere", "checkout", "checkout/sub"])
def test_a_file_of_the_checkout_is_named_in_it_wherever_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, here: str
) -> None:
    file = tmp_path / "checkout/sub/a.symbiont"
    for folder in (file.parent, tmp_path / "elsewhere"):
        folder.mkdir(parents=True)
    file.touch()
    monkeypatch.setenv(variable, str(tmp_path / "checkout"))
    monkeypatch.chdir(tmp_path / here)
    for name in (str(file), os.path.relpath(file)):
        assert path_in_project(name) == "sub/a.symbiont"
    outside = tmp_path / "elsewhere/b.symbiont"
    assert path_in_project(str(outside)) in {str(outside), "b.symbiont", "elsewhere/b.symbiont"}
