"""Values of a file as parameters of a statement, and the columns that take them."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from runtime.cli.table.csv_text import BLOB, Cell, is_blob
from runtime.cli.table.target import Kind

_INTEGER: Final = re.compile(r"-?(?:0|[1-9]\d*)", re.ASCII)
_REAL: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_LARGEST: Final = 2**63
_BOOLEANS: Final[Mapping[str, bool]] = {"true": True, "false": False}


def cell_kind(cell: Cell) -> Kind | None:
    """Return what a column must take for this cell; None for NULL."""
    if cell.quoted:
        return "text"
    if not cell.text:
        return None
    if BLOB.fullmatch(cell.text):
        return "blob"
    if cell.text in _BOOLEANS:
        return "boolean"
    value = _number(cell.text)
    return "text" if value is None else "integer" if isinstance(value, int) else "real"


def json_kind(value: Any) -> Kind | None:
    """Return what a column must take for this value of JSON; None for null."""
    match value:
        case None:
            return None
        case bool():
            return "boolean"
        case int():
            return "integer" if -_LARGEST <= value < _LARGEST else "text"
        case float():
            return "real"
        case str():
            return "text"
    return "blob" if is_blob(value) else "json"


def common_kind(one: Kind | None, other: Kind | None) -> Kind | None:
    """Return what a column takes that takes both."""
    if one == other or other is None:
        return one
    if one is None:
        return other
    return "number" if {one, other} <= {"integer", "real", "number"} else "text"


def cell_value(cell: Cell, kind: Kind) -> Any:
    """Return a cell as the value for a column. Raises ValueError."""
    text = cell.text
    if not cell.quoted:
        if not text:
            return None
        if (blob := BLOB.fullmatch(text)) is not None and kind in {"blob", "any", "text", "integer", "real", "number"}:
            return {"base64": base64.b64encode(bytes.fromhex(blob[1])).decode()}
    if kind == "json":
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("it is not JSON") from None
    if cell.quoted or kind in {"text", "blob"}:
        return text
    if kind == "boolean":
        return _BOOLEANS.get(text.lower(), text)
    value = _number(text)
    return text if value is None or (kind == "integer" and isinstance(value, float)) else value


def json_value(value: Any, kind: Kind, dialect: str) -> Any:
    """Return a value of JSON as the value for a column."""
    if value is None or isinstance(value, str) or is_blob(value):
        return value
    if isinstance(value, list | dict):
        return value if dialect == "postgresql" and kind == "json" else json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if kind == "text" and dialect == "postgresql" else value


def _number(text: str) -> int | float | None:
    """Return the number that is written so that reading and writing it changes nothing of its value; None for another
    text, such as 007."""
    if _INTEGER.fullmatch(text):
        value = int(text) if len(text) <= 20 else _LARGEST
        return value if -_LARGEST <= value < _LARGEST and text != "-0" else None
    return number if _REAL.fullmatch(text) and math.isfinite(number := float(text)) else None
