"""Code actions for diagnostics."""

from __future__ import annotations

import re

import pytest

from dslc.editing.edit import apply
from dslc.language_server.actions import Action, actions
from dslc.source import Span
from tests.dslc.language_server.programs import HERE, project

_UNVERIFIED = 'webhook w {\n    path "/a"\n    insecure_allow_unverified true\n}\n'


def _actions(text: str) -> list[Action]:
    made = project(here=text)
    source = made.source(HERE)
    assert source is not None
    return list(actions(made.diagnostics(HERE), source, Span(0, len(source.data))))


def _done(text: str, title: str) -> str:
    action = next(action for action in _actions(text) if action.title == title)
    return apply(text.encode(), action.edits).decode()


def _codes(text: str) -> list[str]:
    return [diagnostic.code for diagnostic in project(here=text).diagnostics(HERE)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (_UNVERIFIED, "P502"),
        (_UNVERIFIED.replace("\n", "\r\n"), "P502"),
        (_UNVERIFIED.replace("    ", "\t"), "P502"),
        (f"\ufeff{_UNVERIFIED}", "P502"),
        ('webhook w { path "/a" secret "hunter2" }\n', "P501"),
        ('# é😀\nwebhook w {\n    path "/a"\n    # dslc: allow P502\n    secret "x" keep_body false\n}\n', "P501"),
    ],
)
def test_an_allow_comment_silences_a_warning(text: str, code: str) -> None:
    assert code in _codes(text)
    after = _done(text, f"Allow {code} here")
    assert code not in _codes(after)
    assert after.count("\r\n") in {0, after.count("\n")}
    without = re.sub(rf"(?m)^[ \t]*# dslc: allow {code}\r?\n| {code}$", "", after)
    assert without == text


def test_an_allow_comment_takes_a_second_code() -> None:
    text = '# dslc: allow P502  \nwebhook w { path "/a" secret "x" }\n'
    assert _done(text, "Allow P501 here").startswith("# dslc: allow P502 P501  \nwebhook")


@pytest.mark.parametrize("reason", ["for tests only", "– nur für Tests", "see P999x!", "P503: a test"])
def test_a_second_code_precedes_the_reason(reason: str) -> None:
    text = f'# dslc: allow P502, {reason}\nwebhook w {{ path "/a" secret "x" insecure_allow_unverified true }}\n'
    after = _done(text, "Allow P501 here")
    assert after == text.replace("P502", "P502 P501")
    assert "P501" not in _codes(after)


def test_a_first_code_precedes_the_reason_if_the_comment_names_none() -> None:
    text = '# dslc: allow\nwebhook w { path "/a" secret "x" }\n'
    assert _done(text, "Allow P501 here").startswith("# dslc: allow P501\n")


def test_errors_cannot_be_allowed() -> None:
    assert [action.sort for action in _actions("nothing {}\n")] == []


def test_a_fix_is_offered_for_the_diagnostic_that_has_it() -> None:
    text = 'webhook w {\n    pth "/a"\n    secret = "secret://env/A"\n}\n'
    assert "path" in _done(text, "Write `path`")
    assert {action.about.code for action in _actions(text) if action.about and action.sort == "fix"} >= {"N202", "S105"}


def test_all_fixes_are_made_at_once() -> None:
    text = 'webhook w {\n    path= "/a"\n    secret: "secret://env/A"\n}\n'
    after = _done(text, "Fix everything that can be fixed safely")
    assert after == 'webhook w {\n    path "/a"\n    secret "secret://env/A"\n}\n'


def test_a_character_that_is_all_over_a_file_keeps_no_other_fix_away() -> None:
    text = "memory m {\n\u00a0 path 'a'\n\u00a0 retention = 90d\u00a0\n}\n"
    after = _done(text, "Fix everything that can be fixed safely")
    assert after == 'memory m {\n  path "a"\n  retention 90d \n}\n'


def test_a_guess_is_offered_alone_and_is_not_among_the_safe_fixes() -> None:
    text = 'webhook w {\n    path "/a"\n    secret "secret://env/A"\n    agent support-prod\n}\nagent support-dev {}\n'
    found = _actions(text)
    assert [action.title for action in found if action.sort == "fix"] == ["Write `support-dev`"]
    assert not any(action.is_safe for action in found)
    assert [action for action in found if action.sort == "all"] == []


def test_only_what_touches_the_place_is_offered() -> None:
    made = project(here="webhok w {}\n\nwebhok v {}\n")
    source = made.source(HERE)
    assert source is not None
    near = [action.about for action in actions(made.diagnostics(HERE), source, Span(0, 0)) if action.about]
    assert {diagnostic.span.start for diagnostic in near} == {0}


def test_no_action_shows_a_secret() -> None:
    assert "hunter2" not in repr([action.title for action in _actions('webhook w { path "/a" secret "hunter2" }\n')])
