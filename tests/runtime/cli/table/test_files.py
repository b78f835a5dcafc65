"""CSV and JSON Lines: a table that was written is read again without a difference, and a bad line is named."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.cli.table import import_
from runtime.cli.table.csv_text import BadLine, csv_line
from runtime.cli.table.records import CsvFile, JsonLinesFile
from runtime.cli.table.target import Kind, kind_of
from runtime.errors import UsageError
from tests.lanes import examples

BLOB = {"base64": "AP8K"}


def csv_read(text: str | bytes, *kinds: Kind, delimiter: str = ",", dialect: str = "sqlite") -> list[list[Any]]:
    """Return the rows of a CSV file for columns that take these."""
    raw = text.encode() if isinstance(text, str) else text
    return [list(row.values) for row in CsvFile(io.BytesIO(raw), delimiter).rows(kinds, dialect)]


def written(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    return b"".join(map(csv_line, (columns, *rows)))


VALUES = st.one_of(
    st.none(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.sampled_from(["", "NULL", "X'00'", "1", "007", "true", ",", '"', '""', "\n", "\r\n", " a ", "-"]),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.binary(max_size=8).map(lambda raw: {"base64": base64.b64encode(raw).decode()}),
)


@settings(max_examples=examples(30))
@given(st.lists(st.lists(VALUES, min_size=3, max_size=3), max_size=5))
def test_csv_keeps_every_value_and_its_type(rows: list[list[Any]]) -> None:
    read = csv_read(written(["a", "b", "c"], rows), "any", "any", "any")
    assert read == rows
    assert [[type(each) for each in row] for row in read] == [[type(each) for each in row] for row in rows]


@settings(max_examples=examples(30))
@given(st.lists(VALUES, max_size=5))
def test_a_single_column_keeps_its_nulls(values: list[Any]) -> None:
    rows = [[value] for value in values]
    assert csv_read(written(["a"], rows), "any") == rows


def test_a_file_of_a_spreadsheet_is_read() -> None:
    text = b'\xef\xbb\xbfid,name,amount\r\n1,Ada,2.50\r\n2,"Ber\r\ntram",\r\n\r\n03,"",7\r\n'
    assert csv_read(text, "integer", "text", "real") == [[1, "Ada", 2.5], [2, "Ber\r\ntram", None], ["03", "", 7]]
    assert csv_read("a;b\n1;2,5\n", "integer", "text", delimiter=";") == [[1, "2,5"]]


@pytest.mark.parametrize(
    ("raw", "line", "message"),
    [
        (b"a,b\n1,2\n1,2,3\n", 3, "3 cells, but there are 2 columns"),
        (b'a,b\n1,2\n1,"2\n3\n', 3, "a quote is not closed"),
        (b'a,b\n1,2"2"\n', 2, "cell 2 has a quote in the middle"),
        (b'a,b\n"x\ny",1\n2,\xff\n', 4, "it is not UTF-8: invalid byte 3"),
        (b"\xff\xfea\0", 1, "UTF-16"),
        (b"", 1, "the file is empty"),
        (b"a,A\n", 1, "two columns are called 'A'"),
        (b"a,,c\n", 1, "column 2 has no name"),
        (b"a;b\n1;2\n", 1, "there is one column, 'a;b'"),
    ],
)
def test_a_bad_line_of_csv_is_named(raw: bytes, line: int, message: str) -> None:
    with pytest.raises(BadLine, match=message) as bad:
        CsvFile(io.BytesIO(raw), ",")
    assert bad.value.number == line


@pytest.mark.parametrize(
    ("raw", "line", "message"),
    [
        (b'{"a":1}\n\n[1]\n', 3, "it is not a JSON object"),
        (b'{"a":1}\n{"a":}\n', 2, r"it is not JSON: expecting value \(column 6\)"),
        (b'{"a":1}\n{"a":NaN}\n', 2, "it is not readable JSON"),
        (b'{"a":1e999}\n', 1, "it is not readable JSON"),
        (b'{"a":"\xff"}\n', 1, "it is not UTF-8"),
        (b"\n", 1, "the file is empty"),
    ],
)
def test_a_bad_line_of_json_lines_is_named(raw: bytes, line: int, message: str) -> None:
    with pytest.raises(BadLine, match=message) as bad:
        JsonLinesFile(io.BytesIO(raw))
    assert bad.value.number == line


def test_a_value_that_does_not_fit_its_column_is_named_with_its_line() -> None:
    with pytest.raises(BadLine, match="it is not JSON") as bad:
        csv_read("a\n{}\n{\n", "json", dialect="postgresql")
    assert bad.value.number == 3


def test_what_an_object_does_not_have_is_null_and_lists_are_json() -> None:
    raw = b'{"a":1,"b":[1]}\n{"b":{"c":null}}\n'
    file = JsonLinesFile(io.BytesIO(raw))
    assert (file.columns, file.kinds) == (["a", "b"], ["integer", "json"])
    assert [row.values for row in file.rows(["integer", "text"], "sqlite")] == [[1, "[1]"], [None, '{"c": null}']]
    assert [row.values for row in file.rows(["integer", "json"], "postgresql")] == [[1, [1]], [None, {"c": None}]]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "-5", ""], "integer"),
        (["1", "2.5", "3"], "number"),
        (["1.0", "2.5"], "real"),
        (["1", "007"], "text"),
        (["1", '"2"'], "text"),
        (["9223372036854775808"], "text"),
        (["X'00'"], "blob"),
        (["true", "false"], "boolean"),
        (["true", "1"], "text"),
        (["2026-11-26"], "text"),
    ],
)
def test_the_type_of_a_new_column_fits_all_its_values(cells: list[str], kind: Kind) -> None:
    file = CsvFile(io.BytesIO(("a,b\n" + "".join(f"{cell},1\n" for cell in cells)).encode()), ",")
    assert file.kinds == [kind, "integer"]


@pytest.mark.parametrize(
    ("dialect", "declared", "kind"),
    [
        *(("sqlite", "VARCHAR(10)", "text"), ("sqlite", "bigint", "integer"), ("sqlite", "", "any")),
        *(("sqlite", "DECIMAL(10,2)", "real"), ("sqlite", "blob", "any"), ("sqlite", "DATE", "real")),
        *(("postgresql", "numeric(10,2)", "text"), ("postgresql", "bytea", "blob"), ("postgresql", "int[]", "json")),
        *(("postgresql", "timestamp(3) with time zone", "text"), ("postgresql", "double precision", "real")),
    ],
)
def test_a_declared_type_says_what_its_column_takes(dialect: str, declared: str, kind: Kind) -> None:
    assert kind_of(dialect, declared) == kind


def test_json_lines_keep_integers_exactly() -> None:
    raw = json.dumps({"a": 2**63 - 1, "b": BLOB}).encode()
    assert [row.values for row in JsonLinesFile(io.BytesIO(raw)).rows(["integer", "any"], "sqlite")] == [
        [2**63 - 1, BLOB]
    ]


def test_many_small_rows_need_several_transactions_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_, "MOST_ROWS", 2)
    file = CsvFile(io.BytesIO(b"a,b\n1,2\n3,4\n5,6\n"), ",")
    kinds: Sequence[Kind] = ["integer", "integer"]
    with pytest.raises(UsageError, match="too much for one transaction"):
        list(import_._transactions(file, kinds, "sqlite", batches=False))
    assert [len(rows) for rows in import_._transactions(file, kinds, "sqlite", batches=True)] == [2, 1]
