from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.memory.markdown import promoted
from runtime.memory.markdown.text.annotation import NOTHING
from runtime.memory.markdown.text.document import MarkdownDocument
from tests.runtime.memory.texts import files

DAY = date(2026, 2, 14)
KEY = "3f9a2c1b8e7d6c5b"

said = st.dictionaries(
    st.dates(), st.sets(st.text("0123456789abcdef", min_size=16, max_size=16), min_size=1, max_size=3), max_size=3
)


@given(files, said, said)
def test_what_is_said_is_read_back_and_no_item_is_touched(
    data: bytes, first: dict[date, set[str]], second: dict[date, set[str]]
) -> None:
    before = promoted.write(MarkdownDocument.parse(data), {})
    for keys in (first, second, {}):
        after = MarkdownDocument.parse(promoted.write(before, keys).data)
        assert promoted.read(after) == keys
        assert [bullet.text for _, bullet in after.items] == [bullet.text for _, bullet in before.items]
        again = MarkdownDocument.parse(promoted.write(after, keys).data)
        assert again.data == after.data


def test_it_stands_at_the_end_and_is_written_over_where_it_stands() -> None:
    document = promoted.write(MarkdownDocument.parse(b"## Facts\n- a\n"), {DAY: {KEY}})
    assert document.data.decode() == f"## Facts\n- a\n\n<!-- symbi flushed\n2026-02-14 {KEY}\n-->\n"
    moved = MarkdownDocument.parse(b"\n" + document.data + b"\n## Mine\n- more\n").adding(
        {"Procedures": [("b", NOTHING)]}
    )
    other = promoted.write(moved, {date(2026, 2, 15): {KEY}})
    assert other.data == moved.data.replace(b"02-14", b"02-15")


def test_nothing_to_say_leaves_the_document_as_it_was_before() -> None:
    document = MarkdownDocument.parse(b"## Facts\n- a\n")
    assert promoted.write(promoted.write(document, {DAY: {KEY}}), {}).data == document.data
    assert promoted.write(document, {DAY: set()}).data == document.data


def test_two_of_them_are_one() -> None:
    block = f"<!-- symbi flushed\n2026-02-14 {KEY}\n-->\n"
    document = MarkdownDocument.parse(f"{block}## Facts\n- a\n{block.replace('3f', '4f')}".encode())
    keys = promoted.read(document)
    assert keys == {DAY: {KEY, KEY.replace("3f", "4f")}}
    assert promoted.write(document, keys).data.count(b"symbi flushed") == 1


@pytest.mark.parametrize("line", ["2026-02-30 " + KEY, "nonsense", "2026-02-14 " + KEY[1:], "", "- a bullet"])
def test_a_line_that_says_nothing_is_passed_over(line: str) -> None:
    document = MarkdownDocument.parse(f"<!-- symbi flushed\n{line}\n2026-02-14 {KEY}\n-->\n".encode())
    assert promoted.read(document) == {DAY: {KEY}}


def test_lines_end_as_the_files_do() -> None:
    data = promoted.write(MarkdownDocument.parse(b"## Facts\r\n- a"), {DAY: {KEY}}).data
    assert data.count(b"\n") == data.count(b"\r\n") == 6
