"""The rows of a file that is imported."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final, NamedTuple, Protocol

from runtime.cli.table.csv_text import LONGEST_RECORD, BadLine, Cell, CsvRecord, csv_records, decoded
from runtime.cli.table.target import Kind
from runtime.cli.table.values import cell_kind, cell_value, common_kind, json_kind, json_value


class Row(NamedTuple):
    """Values for the columns, the number of the line, and how many bytes of the file were read with it."""

    line: int
    values: Sequence[Any]
    read: int


class Records(Protocol):
    """A file. `columns`: their names in order. `kinds`: what each column must take; None if it is NULL in every row."""

    columns: Sequence[str]
    kinds: Sequence[Kind | None]

    @abstractmethod
    def rows(self, kinds: Sequence[Kind], dialect: str) -> Iterator[Row]:
        """Yield the rows, from the beginning, for columns that take these. Raises BadLine."""


class CsvFile:
    """CSV with the names of the columns in its first record."""

    def __init__(self, file: BinaryIO, delimiter: str) -> None:
        """Read the whole file. Raises BadLine."""
        self._file = file
        self._delimiter = delimiter
        found: list[Kind | None] | None = None
        for record in self._records():
            if found is None:
                self.columns: Sequence[str] = [cell.text.strip() for cell in record.cells]
                _check_names(self.columns, record.line, self._delimiter)
                found = [None] * len(self.columns)
                continue
            self._check(record)
            found = [common_kind(kind, cell_kind(cell)) for kind, cell in zip(found, record.cells, strict=True)]
        if found is None:
            raise BadLine(1, "the file is empty", hint="its first line has the names of the columns")
        self.kinds: Sequence[Kind | None] = found

    def rows(self, kinds: Sequence[Kind], dialect: str) -> Iterator[Row]:
        """See `Records`."""
        records = self._records()
        next(records, None)
        for record in records:
            self._check(record)
            values = [_value(cell, kind, record.line) for cell, kind in zip(record.cells, kinds, strict=True)]
            yield Row(record.line, values, record.read)

    def _records(self) -> Iterator[CsvRecord]:
        self._file.seek(0)
        return csv_records(self._file, self._delimiter)

    def _check(self, record: CsvRecord) -> None:
        if len(record.cells) != len(self.columns):
            raise BadLine(record.line, f"{len(record.cells)} cells, but there are {len(self.columns)} columns")


def _value(cell: Cell, kind: Kind, line: int) -> Any:
    try:
        return cell_value(cell, kind)
    except ValueError as error:
        raise BadLine(line, f"{cell.text[:60]}: {error}") from None


class JsonLinesFile:
    """An object on each line. A column that an object does not have is NULL in its row."""

    def __init__(self, file: BinaryIO) -> None:
        """Read the whole file. Raises BadLine."""
        self._file = file
        found: dict[str, Kind | None] = {}
        for line, there, _ in self._objects():
            for name, value in there.items():
                found[name] = common_kind(found.get(name), json_kind(value))
                if len(found) > MOST_COLUMNS:
                    raise BadLine(line, f"there are more than {MOST_COLUMNS:,} columns")
        self.columns: Sequence[str] = list(found)
        self.kinds: Sequence[Kind | None] = list(found.values())
        if not self.columns:
            raise BadLine(1, "the file is empty", hint="each line is an object with the values by column")
        _check_names(self.columns, 1, "")

    def rows(self, kinds: Sequence[Kind], dialect: str) -> Iterator[Row]:
        """See `Records`."""
        for line, there, read in self._objects():
            values = [
                json_value(there.get(name), kind, dialect) for name, kind in zip(self.columns, kinds, strict=True)
            ]
            yield Row(line, values, read)

    def _objects(self) -> Iterator[tuple[int, Mapping[str, Any], int]]:
        self._file.seek(0)
        read = 0
        for number, raw in enumerate(iter(lambda: self._file.readline(LONGEST_RECORD + 1), b""), 1):
            read += len(raw)
            if len(raw) > LONGEST_RECORD:
                raise BadLine(number, f"the line has more than {LONGEST_RECORD:,} bytes")
            text = decoded(raw, number)
            if text.strip():
                yield number, _object(text, number), read


MOST_COLUMNS: Final = 2000
"""Maximum number of columns of a file."""


def _object(text: str, line: int) -> Mapping[str, Any]:
    try:
        read = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise BadLine(line, f"it is not JSON: {error.msg.lower()} (column {error.colno})") from None
    except (ValueError, RecursionError):
        raise BadLine(line, "it is not readable JSON: a number is too large, or it is nested too deep") from None
    if not isinstance(read, dict):
        raise BadLine(line, "it is not a JSON object")
    return read


def _no_number(_: str) -> float:
    raise ValueError


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def _check_names(names: Sequence[str], line: int, delimiter: str) -> None:
    if len(names) > MOST_COLUMNS:
        raise BadLine(line, f"there are more than {MOST_COLUMNS:,} columns")
    if "" in names:
        raise BadLine(line, f"column {names.index('') + 1} has no name", hint="the first line has the names")
    known: set[str] = set()
    for name in names:
        if name.casefold() in known:
            raise BadLine(line, f"two columns are called {name!r}")
        known.add(name.casefold())
    other = next((each for each in ";\t|" if each != delimiter and each in names[0]), None)
    if delimiter and len(names) == 1 and other is not None:
        written = "TAB" if other == "\t" else f"'{other}'"
        raise BadLine(line, f"there is one column, {names[0][:60]!r}", hint=f"give --delimiter {written}")
