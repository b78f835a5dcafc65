"""Edits of a program's text change only their target; every other byte stays."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dslc.compiler import analyse
from dslc.diagnostics.diagnostic import Edit
from dslc.editing.edit import add_block, apply, block, remove_block
from dslc.editing.format import layout
from dslc.parse import File, parse
from dslc.program import Program
from dslc.source import Source, Span
from dslc.syntax.reader import Atom, Comment, Entry, Group, TextRow, Verbatim
from dslc.vocabulary import Vocabulary
from tests.dslc.catalogs import CATALOG
from tests.dslc.programs import programs
from tests.lanes import examples

_VOCABULARY = Vocabulary(CATALOG)
_SETTINGS = settings(
    max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def _edit(start: int, end: int, text: str) -> Edit:
    return Edit(Span(start, end), text)


def test_edits_are_applied_whatever_their_order() -> None:
    edits = [_edit(8, 9, "C"), _edit(0, 1, "A"), _edit(4, 5, "")]
    assert apply(b"a-- b-- c--", edits) == b"A-- -- C--"


def test_edits_that_touch_do_not_overlap_and_insertions_keep_their_order() -> None:
    edits = [_edit(1, 2, "B"), _edit(1, 1, "first "), _edit(1, 1, "second "), _edit(2, 2, "!")]
    assert apply(b"abc", edits) == b"afirst second B!c"


def test_spans_are_bytes() -> None:
    data = "é😀x".encode()
    assert apply(data, [_edit(6, 7, "ü")]).decode() == "é😀ü"


@pytest.mark.parametrize(
    "edits",
    [
        [_edit(0, 2, ""), _edit(1, 3, "")],
        [_edit(0, 2, "x"), _edit(0, 2, "x")],
        [_edit(0, 2, ""), _edit(1, 1, "x")],
        [_edit(2, 1, "")],
        [_edit(0, 4, "")],
        [_edit(-1, 1, "")],
    ],
)
def test_edits_that_overlap_or_are_out_of_range_are_refused(edits: list[Edit]) -> None:
    with pytest.raises(ValueError, match=r"overlap|out of range"):
        apply(b"abc", edits)


def read(text: str | bytes) -> File:
    file = parse(Source("a.symbiont", text), _VOCABULARY)
    assert file.readable, (text, file.diagnostics)
    return file


def tree(row: TextRow) -> Any:
    """Return the meaning of a row, without layout and comments."""
    match row:
        case Atom() | Verbatim():
            return row.text
        case Group():
            return [row.brackets, *(tree(inner) for inner in row.rows if not isinstance(inner, Comment))]
        case Entry():
            return tuple(tree(part) for part in (row.key, row.value, row.body) if part is not None)
    raise AssertionError(row)


def blocks(file: File) -> list[Any]:
    return [tree(row) for row in layout(file) if not isinstance(row, Comment)]


def comments(rows: list[TextRow]) -> list[str]:
    """Return all comments, in any order."""
    found = []
    for row in rows:
        inner: list[Any] = []
        if isinstance(row, Comment):
            found.append(row.text)
        if isinstance(row, Group):
            inner = [row.opening, *row.rows]
        if isinstance(row, Entry):
            inner = [row.value, row.body]
        found += comments([part for part in (*inner, row.comment) if part is not None])
    return found


def compiled(data: bytes) -> Program:
    return analyse([Source("a.symbiont", data)], CATALOG).program


def edited(file: File, edit: Edit) -> File:
    """Return the file after an edit; by definition, bytes outside of it do not change."""
    return read(apply(file.source.data, [edit]))


def names(file: File, kind: str) -> list[str]:
    entries = [row for row in layout(file) if isinstance(row, Entry) and row.key.text == kind]
    return [entry.value.text.strip('"') for entry in entries if isinstance(entry.value, Atom)]


_BLOCK = 'webhook new {\n    path   "/new"\n    secret "secret://env/A"\n}\n'


@_SETTINGS
@given(programs(foreign=True))
def test_an_added_block_is_the_last_and_nothing_else_changes(text: str) -> None:
    before = read(text)
    after = edited(before, add_block(before, _BLOCK))
    assert blocks(after) == [*blocks(before), *blocks(read(_BLOCK))]
    assert comments(layout(after)) == comments(layout(before))
    assert after.source.data.startswith(before.source.data.rstrip())
    program = compiled(after.source.data)
    assert program.webhooks["new"].path == "/new"
    others = {name: webhook for name, webhook in program.webhooks.items() if name != "new"}
    assert others == dict(compiled(before.source.data).webhooks)


@_SETTINGS
@given(programs(foreign=True), st.data())
def test_a_removed_block_is_gone_and_nothing_else_changes(text: str, data: st.DataObject) -> None:
    before = read(text)
    kind = data.draw(st.sampled_from(["webhook", "agent", "memory"]))
    assume(names(before, kind))
    name = data.draw(st.sampled_from(names(before, kind)))
    edit = remove_block(before, kind, name)
    after = edited(before, edit)
    assert names(after, kind) == [other for other in names(before, kind) if other != name]
    gone = [block for block in blocks(before) if block not in blocks(after)]
    assert [block[:1] for block in gone] == [(kind,)]
    assert blocks(after) == [block for block in blocks(before) if block != gone[0]]
    assert edit.text == ""


def after(text: str, edit: Edit) -> str:
    return apply(text.encode(), [edit]).decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", _BLOCK),
        ("\n \n", _BLOCK),
        ("agent a {}", f"agent a {{}}\n\n{_BLOCK}"),
        ("agent a {}\n\n\n\n  ", f"agent a {{}}\n\n{_BLOCK}"),
        ("agent a {} # the end", f"agent a {{}} # the end\n\n{_BLOCK}"),
        ("\ufeffagent a {}\r\n", f"\ufeffagent a {{}}\n\n{_BLOCK}".replace("\n", "\r\n")),
        ("\ufeff", f"\ufeff{_BLOCK}"),
    ],
)
def test_a_block_is_added_after_one_empty_line(text: str, expected: str) -> None:
    assert after(text, add_block(read(text), _BLOCK)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("webhook w {}", ""),
        ("agent a {}\n\n# about w\n# more\nwebhook w {\n} # its end\n\nagent b {}\n", "agent a {}\n\nagent b {}\n"),
        ("# about the file\n\nwebhook w {}\nagent b {}\n", "# about the file\n\nagent b {}\n"),
        ("webhook w {}\n\n\nagent b {}\n", "agent b {}\n"),
        ("agent a {}\n\n\nwebhook w {}", "agent a {}\n"),
        ("agent a {}\r\n\r\nwebhook w {}\r\n\r\n", "agent a {}\r\n"),
        ("agent a {}\nwebhook w {}\n\nagent b {}\n", "agent a {}\n\nagent b {}\n"),
        ("agent a {} webhook w {} # both\n", "agent a {} # both\n"),
        ("# both\nwebhook w {} agent a {}\n", "# both\nagent a {}\n"),
        ("agent a {} webhook w {} agent b {}\n", "agent a {} agent b {}\n"),
        ('\ufeff# é\nwebhook "w" {}\nagent "é" {}\n', '\ufeffagent "é" {}\n'),
        ("metadata { webhook w {} }\nwebhook w {}\n", "metadata { webhook w {} }\n"),
    ],
)
def test_a_block_goes_with_what_belongs_to_it(text: str, expected: str) -> None:
    assert after(text, remove_block(read(text), "webhook", "w")) == expected


def test_what_is_not_there_or_there_twice_is_refused() -> None:
    file = read("agent a {}\nagent b {}\nagent b {}\n")
    for name in ("b", "c"):
        with pytest.raises(LookupError):
            remove_block(file, "agent", name)


def test_a_file_that_cannot_be_read_is_not_edited() -> None:
    with pytest.raises(ValueError, match="syntax error"):
        add_block(parse(Source("a", "agent {"), _VOCABULARY), _BLOCK)


def test_a_block_is_written_in_canonical_form() -> None:
    settings = [("path", '"/w"'), ("secret", '"a"')]
    assert block("webhook", "w.1", settings) == 'webhook "w.1" {\n    path   "/w"\n    secret "a"\n}\n'
    assert block("agent", "a", []) == "agent a {}\n"
