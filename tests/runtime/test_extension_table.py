"""Extension tables, which every family builds with one function."""

from __future__ import annotations

import pytest

from runtime.extension_table import LazyRow, table_of


def row(name: str, title: str = "A row") -> LazyRow:
    return LazyRow(name, title, "A row.", "module:Options", "module:open")


def test_a_table_has_its_rows_by_name_in_their_order() -> None:
    rows = [row("second"), row("first")]
    table = table_of("index", rows)
    assert list(table.items()) == [("second", rows[0]), ("first", rows[1])]


def test_a_name_that_two_rows_have_is_named_with_its_table() -> None:
    with pytest.raises(ValueError, match="index first is in the table twice"):
        table_of("index", [row("first"), row("second"), row("first", "Another")])
