"""Tables as CSV (RFC 4180), so that a value is read as it was written: a text is in quotes, and NULL is an empty cell
without quotes, as in PostgreSQL's COPY. A blob is `X'…'` in hexadecimal without quotes, as in SQL."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, BinaryIO, Final, NamedTuple

from runtime.errors import UsageError

LONGEST_RECORD: Final = 16_000_000
"""Maximum bytes of a record."""
BLOB: Final = re.compile(r"[Xx]'((?:[0-9A-Fa-f]{2})*)'")


class BadLine(UsageError):  # noqa: N818
    """`number`: of the line, from 1. The message has no file."""

    def __init__(self, number: int, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.number = number


def decoded(raw: bytes, line: int) -> str:
    """Return a line as text, the first one without a byte order mark. Raises BadLine."""
    if line == 1:
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise BadLine(line, "it is UTF-16, not UTF-8", hint="save the file as UTF-8")
        raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        hint = "save the file as UTF-8"
        raise BadLine(line, f"it is not UTF-8: invalid byte {error.start + 1}", hint=hint) from None


class Cell(NamedTuple):
    """A cell as it is written. `quoted`: in quotes."""

    text: str
    quoted: bool


class CsvRecord(NamedTuple):
    """A record, the number of its first line, and how many bytes of the file were read with it."""

    line: int
    cells: Sequence[Cell]
    read: int


def csv_line(values: Sequence[Any], json_columns: Set[int] = frozenset()) -> bytes:
    """Return values of a table as one record. `json_columns`: positions of columns whose values are JSON, also if they
    are texts."""
    return (",".join(_csv_cell(each, as_json=at in json_columns) for at, each in enumerate(values)) + "\n").encode()


def _csv_cell(value: Any, *, as_json: bool = False) -> str:
    if value is None:
        return ""
    if as_json:
        return _csv_cell(json.dumps(value, ensure_ascii=False))
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if is_blob(value):
        return f"X'{base64.b64decode(value['base64']).hex()}'"
    return _csv_cell(json.dumps(value, ensure_ascii=False))


def is_blob(value: Any) -> bool:
    """Return True for a blob in a page or in parameters."""
    return isinstance(value, Mapping) and value.keys() == {"base64"} and isinstance(value["base64"], str)


def csv_records(file: BinaryIO, delimiter: str) -> Iterator[CsvRecord]:
    """Yield the records of a file, the head too. Raises BadLine.

    An empty line is skipped, unless the records have one cell: there it is an empty one.
    """
    pattern = re.compile(rf'(?:"((?:[^"]|"")*)"|([^"{re.escape(delimiter)}]*))({re.escape(delimiter)}|\Z)', re.DOTALL)
    single: bool | None = None
    read = 0
    first, parts, quotes = 1, list[str](), 0
    for number, raw in enumerate(iter(lambda: file.readline(LONGEST_RECORD + 1), b""), 1):
        read += len(raw)
        text = decoded(raw, number)
        if not parts:
            first = number
        parts.append(text)
        quotes += text.count('"')
        if sum(map(len, parts)) > LONGEST_RECORD:
            raise BadLine(first, f"the record has more than {LONGEST_RECORD:,} bytes; is a quote not closed?")
        if quotes % 2:
            continue
        whole = "".join(parts).removesuffix("\n").removesuffix("\r")
        parts, quotes = [], 0
        if not whole and not single:
            continue
        cells = _cells(whole, pattern, first)
        if single is None:
            single = len(cells) == 1
        yield CsvRecord(first, cells, read)
    if parts:
        raise BadLine(first, "a quote is not closed")


def _cells(text: str, pattern: re.Pattern[str], line: int) -> Sequence[Cell]:
    cells, place = list[Cell](), 0
    while True:
        found = pattern.match(text, place)
        if found is None:
            raise BadLine(line, f"cell {len(cells) + 1} has a quote in the middle", hint='write it as "…""…"')
        cells.append(
            Cell(found[2], quoted=False) if found[1] is None else Cell(found[1].replace('""', '"'), quoted=True)
        )
        if not found[3]:
            return cells
        place = found.end()
