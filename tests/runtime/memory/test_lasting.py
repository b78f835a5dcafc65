from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given

from runtime.memory import Provenance
from runtime.memory.lasting import lasting
from runtime.memory.log import Log, entry_of, header
from tests.runtime.memory.texts import WHEN, files, item

DAY = date(2026, 2, 14)


def found(body: str, day: date = DAY) -> list[tuple[str, str]]:
    log = Log.parse(day, f"# Session Log: {day}\n\n## 10:30 — Title\n{body}".encode())
    return [(one.section.name, one.item.text) for one in lasting("reviewer", log)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("- [fact] a", [("Facts", "a")]),
        ("- [procedure] a\n- [pattern] b", [("Procedures", "a"), ("Learned Patterns", "b")]),
        ("* [Fact] star\n+ [FACT]: plus\n-\t[fact]tight", [("Facts", "star"), ("Facts", "plus"), ("Facts", "tight")]),
        ("- note\n  - [fact] deeper\n\t- [pattern] tab", [("Facts", "deeper"), ("Learned Patterns", "tab")]),
        ("- [fact] a\n  goes on\n\n  and on\n- note", [("Facts", "a\ngoes on\n\nand on")]),
        ("- [fact] a\nlazily on\n\nnot this", [("Facts", "a\nlazily on")]),
        ("- [fact] a\n  - but\n    - never\n- note", [("Facts", "a\n- but\n  - never")]),
        (
            "- [fact] a\n  - [procedure] b\n    on\n- [fact] c",
            [("Facts", "a"), ("Procedures", "b\non"), ("Facts", "c")],
        ),
        ("- [procedure] Run\n  ```\n  - [fact] no\n  ```\n- x", [("Procedures", "Run\n```\n- [fact] no\n```")]),
        ("```\n- [fact] no\n```\n- [fact] yes", [("Facts", "yes")]),
        ("  ~~~\n  - [fact] no\n  ~~~\n<!--\n- [fact] no\n-->", []),
        ("```\n- [fact] never closed", [("Facts", "never closed")]),
        ("- [fact]\n- [fact]   \n- [fact]:", []),
        ("- [fact](https://example.com) a link\n- [fact][1]\n- [facts] a\n- x [fact] a\n[fact] a\n1. [fact] a", []),
        ("- [ ] [fact] a task\n> - [fact] quoted", []),
        ("- [fact] a\r\n- [fact] b\r\n", [("Facts", "a"), ("Facts", "b")]),
        ("- [fact] same\n- [fact] same", [("Facts", "same"), ("Facts", "same")]),
        ("- [fact] a\n### deeper\n- [fact] b", [("Facts", "a"), ("Facts", "b")]),
        ("- [fact] no end", [("Facts", "no end")]),
    ],
)
def test_bullets_that_last_are_found_and_nothing_else_is(body: str, expected: list[tuple[str, str]]) -> None:
    assert found(body) == expected


def test_a_title_that_is_such_a_bullet_counts_and_a_section_that_is_no_entry_does_not() -> None:
    log = Log.parse(DAY, b"- [fact] a\n## 10:30 - - [fact] b\nno more of it\n## Mine\n- [fact] c\n")
    assert [one.item.text for one in lasting("reviewer", log)] == ["b"]


def test_what_lasts_has_the_time_source_tags_and_provenance_of_its_entry() -> None:
    about = Provenance(author="ann", session_id="s", confidence=0.5, sources=("a.py",))
    entry = item(
        "Title\n- [fact] a\n- [pattern] b", tags=("pattern", "x"), source_uri="https://example.com/1",
        project_id="p", user_id="u", provenance=about,
    )  # fmt: skip
    fact, pattern = (one.item for one in lasting("reviewer", Log.parse(DAY, header(DAY) + entry_of(entry))))
    for one in (fact, pattern):
        assert (one.timestamp, one.source_uri, one.project_id, one.user_id) == (WHEN, entry.source_uri, "p", "u")
        assert one.provenance == about
    assert (fact.memory_type, fact.tags) == ("semantic", ("x",))
    assert (pattern.memory_type, pattern.tags) == ("semantic", ("pattern", "x"))


def test_what_lasts_has_its_log_as_the_source_where_the_entry_names_none() -> None:
    (one,) = lasting("reviewer", Log.parse(DAY, b"## 10:30\n- [procedure] a\n"))
    assert (one.item.source_uri, one.item.memory_type) == ("logs/2026-02-14.md", "procedural")
    assert one.item.timestamp == datetime(2026, 2, 14, 10, 30, tzinfo=UTC)


@given(files)
def test_any_file_can_be_looked_through(data: bytes) -> None:
    log = Log.parse(DAY, header(DAY) + entry_of(item("Title")) + data)
    assert all(one.item.text.strip() for one in lasting("reviewer", log))


@pytest.mark.parametrize("line", ["- [fact] a", "  - [fact] a\n", "```\n- x", "\n", "- [fact] a\n\n\n\n  x", "<!--"])
def test_a_log_made_to_be_slow_is_looked_through_all_the_same(line: str) -> None:
    assert len(found("\n".join([line] * 3000) + "\n- [fact] the last")) >= 1
