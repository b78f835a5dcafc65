"""Converts JSON values to parameters of PostgreSQL, and its results to JSON values."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from runtime.tables.errors import StatementError
from runtime.tables.sql_database import MOST_ROW_BYTES, Value

AS_TEXT: Final = (
    "date",
    "time",
    "timetz",
    "timestamp",
    "timestamptz",
    "interval",
    "numeric",
    "uuid",
    "json",
    "jsonb",
)
"""Types that are exchanged in PostgreSQL's own text: Python has no year 10000 and no infinite date."""
LARGEST_EXPONENT: Final = 131_072
_EXPONENT: Final = re.compile(r"\d[eE][+-]?(\d+)", re.ASCII)
_WITH_NUMBERS: Final = frozenset({"numeric", "json", "jsonb"})
"""Types whose numbers PostgreSQL writes without exponents."""
_INTEGERS: Final[Mapping[str, int]] = MappingProxyType({"int2": 15, "int4": 31, "int8": 63})
_NUMERIC: Final = re.compile(r"[+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,3})?|NaN", re.ASCII)
_WHOLE: Final = re.compile(r"\s*[+-]?\d{1,19}\s*", re.ASCII)
_TEXTS: Final = frozenset({"text", "varchar", "bpchar", "unknown"})
_ZONE: Final = re.compile(r"[+-]\d\d$", re.ASCII)


def to_postgres(value: Value, kind: str, number: int) -> Any:
    """Return a value for a parameter of the type `kind`, such as `int4` or `text[]`; `number` is its place in messages.

    Raises StatementError.
    """
    if value is None:
        return None
    if kind.endswith("[]"):
        if not isinstance(value, list):
            raise _wrong(number, kind, "a list")
        several = [None if each is None else _convert(each, kind[:-2], number) for each in value]
        _check_size(sum(_size(each, kind[:-2], number) + 4 for each in several), number)
        return several
    converted = _convert(value, kind, number)
    _check_size(_size(converted, kind, number), number)
    return converted


def _size(converted: Any, kind: str, number: int) -> int:
    if isinstance(converted, bytes):
        return len(converted)
    size = _utf8(converted, number)
    return expanded_bytes(converted) if kind in _WITH_NUMBERS else size


def expanded_bytes(text: str) -> int:
    """Return the bound of the bytes of a text whose numbers are written without exponents, as JSONB is."""
    exponents = (min(int(digits[:9]), LARGEST_EXPONENT) for digits in _EXPONENT.findall(text))
    return len(text.encode(errors="replace")) + sum(exponents)


def _check_size(size: int, number: int) -> None:
    if size > MOST_ROW_BYTES:
        raise StatementError(
            f"parameter {number} has {size:,} bytes", hint=f"a value has at most {MOST_ROW_BYTES:,}; divide it"
        )


def _convert(value: Any, kind: str, number: int) -> Any:
    if kind in _INTEGERS:
        return _integer(value, kind, number)
    convert = _CONVERSIONS.get(kind)
    if convert is None:
        raise StatementError(f"parameter {number} has the type {kind}, which is not possible", hint="write ?::text")
    return convert(value, kind, number)


def _float(value: Any, kind: str, number: int) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise _wrong(number, kind, "a number") from None


def _document_of(value: Any, _kind: str, _number: int) -> str:
    return value if isinstance(value, str) and _is_document(value) else _json(value)


def _text(value: Any, _kind: str, _number: int) -> str:
    return value if isinstance(value, str) else _json(value)


def _numeric(value: Any, kind: str, number: int) -> str:
    text = value.strip() if isinstance(value, str) else "" if isinstance(value, bool) else str(value)
    if not _NUMERIC.fullmatch(text):
        raise _wrong(number, kind, "a number of at most 400 digits")
    return text


def _bytes(value: Any, kind: str, number: int) -> bytes:
    if isinstance(value, dict) and value.keys() == {"base64"}:
        value = value["base64"]
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise _wrong(number, kind, "base64") from None


def _moment(value: Any, kind: str, number: int) -> str:
    if not isinstance(value, str):
        raise _wrong(number, kind, "a text such as 2026-01-31T10:00:00Z")
    return value


def _integer(value: Any, kind: str, number: int) -> int:
    whole = value
    if (isinstance(value, float) and value.is_integer()) or (isinstance(value, str) and _WHOLE.fullmatch(value)):
        whole = int(value)
    if not isinstance(whole, int) or not -(1 << _INTEGERS[kind]) <= whole < 1 << _INTEGERS[kind]:
        raise _wrong(number, kind, f"a whole number of at most {_INTEGERS[kind] + 1} bits")
    return int(whole)


def _truth(value: Any, _kind: str, number: int) -> bool:
    known = {"true": True, "false": False, "1": True, "0": False, "t": True, "f": False}
    truth = known.get(str(value).lower()) if isinstance(value, (str, int, bool)) else None
    if truth is None:
        raise _wrong(number, "bool", "true or false")
    return truth


_CONVERSIONS: Final[Mapping[str, Callable[[Any, str, int], Any]]] = MappingProxyType(
    {
        **dict.fromkeys(AS_TEXT, _moment),
        **dict.fromkeys(("float4", "float8"), _float),
        **dict.fromkeys(("json", "jsonb"), _document_of),
        **dict.fromkeys(_TEXTS, _text),
        "bool": _truth,
        "numeric": _numeric,
        "bytea": _bytes,
    }
)


def _is_document(text: str) -> bool:
    """True for the text of a JSON object or list; other texts become JSON strings."""
    return text.lstrip()[:1] in ("{", "[") and text.rstrip()[-1:] in ("}", "]")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _utf8(value: Any, number: int) -> int:
    if not isinstance(value, str):
        return 8
    if "\0" in value:
        raise StatementError(f"parameter {number} contains a zero byte, which a text cannot")
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        raise StatementError(f"parameter {number} is not valid Unicode") from None


def _wrong(number: int, kind: str, expected: str) -> StatementError:
    return StatementError(f"parameter {number} has the type {kind}, and its value is not {expected}")


def from_postgres(value: Any, kind: str) -> Value:
    """Return a value of a result as JSON: a blob as base64."""
    if value is None:
        return None
    if isinstance(value, list):
        return [from_postgres(each, kind.removesuffix("[]")) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if kind in ("json", "jsonb"):
        return _document(value)
    if kind in ("timestamp", "timestamptz"):
        text = str(value).replace(" ", "T", 1)
        return f"{text}:00" if kind == "timestamptz" and _ZONE.search(text) else text
    return value  # type: ignore[no-any-return]  # a number, a truth value or a text


def _document(text: str) -> Value:
    try:
        return json.loads(text, parse_float=_finite)  # type: ignore[no-any-return]
    except (ValueError, RecursionError):
        return text


def _finite(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text
