from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.memory.markdown.items import long_term_items
from runtime.memory.markdown.text.annotation import Annotation
from runtime.memory.markdown.text.document import SECTIONS, MarkdownDocument
from tests.cases import each_case
from tests.lanes import examples
from tests.runtime.memory.texts import documents, files, hard, tags, texts, times

NAMES = [section.name for section in SECTIONS]
DESIGN = b"""\
# Agent Memory: reviewer
Updated: 2026-02-14T10:30:00Z

## Facts
- User prefers dark mode
- API rate limit is 100 req/min

## Procedures
- Deploy via `cargo shuttle deploy`

## Learned Patterns
- User asks about metrics after every deployment
"""


def read(data: bytes) -> list[tuple[str, str]]:
    """Return the section and text of every item."""
    return [(section.name, bullet.text) for section, bullet in MarkdownDocument.parse(data).items]


def test_the_designs_own_example_is_read() -> None:
    assert read(DESIGN) == [
        ("Facts", "User prefers dark mode"),
        ("Facts", "API rate limit is 100 req/min"),
        ("Procedures", "Deploy via `cargo shuttle deploy`"),
        ("Learned Patterns", "User asks about metrics after every deployment"),
    ]


@given(files)
def test_every_file_is_written_as_it_was_read(data: bytes) -> None:
    assert MarkdownDocument.parse(data).data == data


new_items = st.lists(st.tuples(st.sampled_from(NAMES), texts, tags, times), max_size=4)


@given(files, new_items)
def test_what_is_added_to_any_file_is_read_back_exactly_and_no_byte_of_the_file_is_lost(
    data: bytes, new: list[tuple[str, str, tuple[str, ...], datetime]]
) -> None:
    before = MarkdownDocument.parse(data)
    added = {
        name: [(text, Annotation(at=at, tags=said)) for its, text, said, at in new if its == name] for name in NAMES
    }
    after = MarkdownDocument.parse(before.adding(added).data)
    found = sorted((section.name, bullet.text, bullet.annotation.tags) for section, bullet in after.items)
    kept = [(section.name, bullet.text, bullet.annotation.tags) for section, bullet in before.items]
    assert found == sorted([*kept, *((name, text, said) for name, text, said, _ in new)])
    rest = iter(after.data)
    assert all(byte in rest for byte in data)


@given(files, st.lists(texts, min_size=1, max_size=3), texts, st.data())
def test_an_edit_or_a_deletion_changes_one_item_and_no_other_line(
    data: bytes, old: list[str], new: str, choice: st.DataObject
) -> None:
    notes = [(text, Annotation(at=datetime(2026, 2, 14, tzinfo=UTC))) for text in old]
    before = MarkdownDocument.parse(MarkdownDocument.parse(data).adding({"Facts": notes}).data)
    number = choice.draw(st.integers(0, len(before.items) - 1))
    _, bullet = before.items[number]
    edited, without = before.replacing(bullet, new), before.without(bullet)
    texts_before = [bullet.text for _, bullet in before.items]
    assert [bullet.text for _, bullet in MarkdownDocument.parse(edited.data).items] == [
        new if at == number else text for at, text in enumerate(texts_before)
    ]
    del texts_before[number]
    assert [bullet.text for _, bullet in MarkdownDocument.parse(without.data).items] == texts_before
    assert without.lines == before.lines[: bullet.start] + before.lines[bullet.end :]


def said(document: MarkdownDocument) -> list[tuple[str, str, Annotation]]:
    """Return everything that a document contains about its items."""
    return [(section.name, bullet.text, bullet.annotation) for section, bullet in document.items]


@settings(max_examples=examples(400))
@given(documents, texts.filter(str.strip), st.data())
def test_an_edit_or_a_deletion_of_any_item_hides_and_changes_no_other(
    data: bytes, new: str, choice: st.DataObject
) -> None:
    before = MarkdownDocument.parse(b"## Facts\n- first\n" + data)
    number = choice.draw(st.integers(0, len(before.items) - 1))
    bullet, others = before.items[number][1], said(before)
    section, _, note = others.pop(number)
    without, edited = before.without(bullet), before.replacing(bullet, new)
    assert said(MarkdownDocument.parse(without.data)) == others
    assert said(MarkdownDocument.parse(edited.data)) == [*others[:number], (section, new, note), *others[number:]]
    for after in (without, edited):
        assert after.lines[: bullet.start] == before.lines[: bullet.start]
        rest = before.lines[bullet.end :]
        assert after.lines[len(after.lines) - len(rest) :] == rest


@given(documents | files, times, times, st.booleans())
def test_a_write_moves_the_time_of_no_item_and_takes_no_byte_but_the_old_stamps(
    data: bytes, at: datetime, written: datetime, headed: bool
) -> None:
    before = MarkdownDocument.parse(b"# Agent Memory: reviewer\nUpdated: 2026-01-01\n\n" * headed + data)
    after = MarkdownDocument.parse(before.with_updated_time("reviewer", at, written).data)
    known = [(item.text, item.timestamp, item.tags) for item in long_term_items("reviewer", before, written)]
    for otherwise in (at, written):
        items = long_term_items("reviewer", after, otherwise)
        assert [(item.text, item.timestamp, item.tags) for item in items] == known
    assert after.with_updated_time("reviewer", at, at).data == after.data
    kept = [line for line in before.lines if not line.lstrip("\ufeff").startswith("Updated:")]
    rest = iter(after.data)
    assert all(byte in rest for byte in "".join(kept).encode("utf-8", "surrogateescape"))


def test_bullets_without_a_time_keep_the_old_one_behind_them() -> None:
    text = (
        "# Agent Memory: a\nUpdated: 2026-02-14T10:30:00Z\n\n## Facts\n- one\n* two\n  goes on\n"
        '- three <!-- symbi {"tags":["x"],"later":[1]} -->\n'
        '- four <!-- symbi {"at":"2025-01-01T00:00:00Z"} -->\n'
    )
    at = '"at":"2026-02-14T10:30:00Z"'
    stamped = MarkdownDocument.parse(text.encode()).with_updated_time(
        "a", datetime(2026, 3, 1, tzinfo=UTC), datetime.now(UTC)
    )
    assert stamped.data.decode() == (
        "# Agent Memory: a\nUpdated: 2026-03-01T00:00:00Z\n\n## Facts\n"
        f"- one <!-- symbi {{{at}}} -->\n* two\n  goes on\n  <!-- symbi {{{at}}} -->\n"
        f'- three <!-- symbi {{{at},"tags":["x"],"later":[1]}} -->\n'
        '- four <!-- symbi {"at":"2025-01-01T00:00:00Z"} -->\n'
    )


def test_a_deleted_line_that_kept_a_comment_open_leaves_a_mark_that_does() -> None:
    text = b"## Facts\n<!-- TODO: tidy up\n- alpha <!-- check this\n- beta\n- gamma -->\n- delta\n"
    before = MarkdownDocument.parse(text)
    assert [bullet.text for _, bullet in before.items] == ["alpha <!-- check this", "beta", "gamma -->", "delta"]
    after = before.without(before.items[0][1])
    assert after.data == text.replace(b"- alpha <!-- check this\n", b"<!-- symbi {} -->\n")
    assert before.replacing(before.items[0][1], "new").data == text.replace(
        b"alpha <!-- check this", b"new <!-- symbi {} -->"
    )


def test_an_empty_memory_gets_the_designs_header_and_sections_in_order() -> None:
    at = datetime(2026, 2, 14, 10, 30, tzinfo=UTC)
    new = {
        "Learned Patterns": [("c", Annotation())],
        "Facts": [("a", Annotation())],
        "Procedures": [("b", Annotation())],
    }
    assert MarkdownDocument.parse(b"").with_updated_time("reviewer", at, at).adding(new).data == (
        b"# Agent Memory: reviewer\nUpdated: 2026-02-14T10:30:00Z\n\n"
        b"## Facts\n- a\n\n## Procedures\n- b\n\n## Learned Patterns\n- c\n"
    )


def test_a_missing_section_is_put_where_it_belongs() -> None:
    data = b"# Agent Memory: a\n\n## Learned Patterns\n- c\n\n## Mine\n- d\n"
    assert MarkdownDocument.parse(data).adding({"Facts": [("a", Annotation())]}).data == (
        b"# Agent Memory: a\n\n## Facts\n- a\n\n## Learned Patterns\n- c\n\n## Mine\n- d\n"
    )


def test_a_header_that_a_person_took_away_stays_away_and_bullets_keep_the_time_of_the_file() -> None:
    data, written = b"My notes\n\n## Facts\n- a\n", datetime(2026, 2, 14, tzinfo=UTC)
    assert MarkdownDocument.parse(data).with_updated_time("reviewer", datetime.now(UTC), written).data == data.replace(
        b"- a", b'- a <!-- symbi {"at":"2026-02-14T00:00:00Z"} -->'
    )


@each_case(
    ("source", "items"),
    [
        ("## Facts\n* star\n+ plus\n- dash\n", ["star", "plus", "dash"]),
        ("## facts ##\n- found\n", ["found"]),
        ("## Facts\n- one\n  two\n\n  three\n- four\n", ["one\ntwo\n\nthree", "four"]),
        ("## Facts\n- one\nlazily continued\n\nprose\n", ["one\nlazily continued"]),
        ("## Facts\n-\twith a tab\n\tand one more\n", ["with a tab\nand one more"]),
        ("## Facts\n- code:\n  ```\n  ## Facts\n    - no item\n  ```\n", ["code:\n```\n## Facts\n  - no item\n```"]),
        ("## Facts\n- a\n\n### Sub\n- b\n\n## Other\n- no\n\n# Third\n- no\n", ["a", "b"]),
        ("## Facts\n```\n- no item\n## Procedures\n```\n- item\n", ["item"]),
        ("## Facts\n```\n- never closed\n", ["never closed"]),
        ("## Facts\n<!--\n- hidden\n-->\n- seen\n", ["seen"]),
        ("## Facts\n* * *\n- - -\n- real\n", ["real"]),
        ("## Facts\r\n- one\r\n  two\r\n", ["one\ntwo"]),
        ("\ufeff## Facts\n- after a mark\n", ["after a mark"]),
        ("## Facts\n- \n-\n- full\n", ["full"]),
        ("## Facts\n- no newline at the end", ["no newline at the end"]),
        ("- before any section\n", []),
        ("##Facts\n- no heading\n", []),
        ("## Facts\n1. no bullet\n", []),
        ("", []),
    ],
)
def test_a_persons_markdown_is_read_as_commonmark_reads_it(source: str, items: list[str]) -> None:
    assert [text for _, text in read(source.encode())] == items


def test_bytes_that_are_no_utf8_stay_in_the_file_round_an_edit() -> None:
    before = MarkdownDocument.parse(b"## Facts\n- caf\xe9\n- b\n")
    after = before.replacing(before.items[1][1], "c")
    assert after.data == b"## Facts\n- caf\xe9\n- c\n"


def test_an_edit_keeps_the_bullet_and_the_line_ends_a_person_chose() -> None:
    before = MarkdownDocument.parse(b"## Facts\r\n* a\r\n* b")
    assert before.replacing(before.items[1][1], "c\nd").data == b"## Facts\r\n* a\r\n* c\r\n  d"


def test_a_person_who_edits_the_line_edits_the_item_whatever_is_said_behind_it() -> None:
    written = MarkdownDocument.parse(b"").adding({"Facts": [("two  \nlines ", Annotation(tags=("x",)))]}).data
    assert read(written) == [("Facts", "two  \nlines ")]
    edited = MarkdownDocument.parse(written.replace(b"- two", b"- 2"))
    assert [(bullet.text, bullet.annotation.tags) for _, bullet in edited.items] == [("2\nlines", ("x",))]


@given(hard)
def test_no_text_becomes_two_items_or_hides_what_comes_after(text: str) -> None:
    notes = [(text, Annotation(tags=("x",))), ("after", Annotation())]
    assert read(MarkdownDocument.parse(b"").adding({"Facts": notes}).data) == [("Facts", text), ("Facts", "after")]
