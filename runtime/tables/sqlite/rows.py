"""Rows of a result, up to their limits."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from runtime.tables.sql_database import MOST_BYTES, MOST_ROWS
from runtime.tables.sqlite.messages import Blob, Scalar
from runtime.tables.sqlite.statement import refused

_json: Final = msgspec.json.Encoder()


class ResultRows:
    """The first rows of a result. `truncated`: there were more."""

    def __init__(self, limit: int = MOST_ROWS, *, blobs: bool = False) -> None:
        """`blobs`: keep them as they are, instead of their base64."""
        self.rows: list[list[Scalar]] = []
        self.truncated = False
        self._blobs = blobs
        self._limit = min(limit, MOST_ROWS)
        self._bytes = 2

    def add(self, row: Sequence[Any]) -> bool:
        """Add a row; False if it does not fit any more. Raises Refused if it does not fit alone."""
        if self.truncated or len(self.rows) == self._limit:
            self.truncated = True
            return False
        self._bytes += len(_json.encode(values := [json_value(each) for each in row])) + 1
        if self._blobs:
            values = [Blob(each) if isinstance(each, bytes) else value for each, value in zip(row, values, strict=True)]
        if self._bytes > MOST_BYTES:
            if not self.rows:
                raise refused(f"one row has more than {MOST_BYTES:,} bytes", "select fewer columns")
            self.truncated = True
            return False
        self.rows.append(values)
        return True


def json_value(value: Any) -> Scalar:
    """Return a value of SQLite as JSON has it: blobs in base64, and infinities as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and value - value != 0:
        return "Infinity" if value > 0 else "-Infinity"
    assert value is None or isinstance(value, str | int | float)
    return value
