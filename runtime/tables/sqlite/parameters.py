"""Parameters of a statement as the worker takes them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

import msgspec

from runtime.tables.errors import StatementError
from runtime.tables.sql_database import Parameters, Value
from runtime.tables.sqlite.messages import Blob, Bound, Scalar

_INTEGERS: Final = range(-(2**63), 2**63)
_json: Final = msgspec.json.Encoder()


def bound(parameters: Parameters) -> Bound:
    """Return the values. True and false are 1 and 0, `{"base64": "…"}` is a blob, other arrays and objects are their
    JSON. Raises StatementError."""
    if isinstance(parameters, Mapping):
        return {
            checked_text(name, "a name in params"): _scalar(value, f":{name}") for name, value in parameters.items()
        }
    if isinstance(parameters, str | bytes):
        raise StatementError("params is a text", hint="it is a list for ?, or an object for :name")
    return [_scalar(value, f"value {number} of params") for number, value in enumerate(parameters, 1)]


def checked_text(text: str, place: str) -> str:
    """Return the text. Raises StatementError if it is no Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise StatementError(f"{place} contains half of a surrogate pair", hint="pass valid Unicode") from None
    return text


def _scalar(value: Value, place: str) -> Scalar:
    match value:
        case None:
            return None
        case bool():
            return int(value)
        case int():
            if value not in _INTEGERS:
                raise StatementError(f"{place} is an integer of more than 64 bits", hint="store it as text")
            return value
        case float():
            if value - value != 0:
                raise StatementError(f"{place} is not a finite number", hint="pass null")
            return value
        case str():
            return checked_text(value, place)
        case dict() | list():
            return _blob(value, place) or _json_text(value, place)
    raise StatementError(f"{place} is no JSON value")


def _blob(value: Value, place: str) -> Blob | None:
    """Return the blob that an object is; None for another one."""
    if not isinstance(value, dict) or value.keys() != {"base64"} or not isinstance(coded := value["base64"], str):
        return None
    try:
        return Blob(base64.b64decode(coded, validate=True))
    except ValueError:
        raise StatementError(f"{place} is not base64") from None


def _json_text(value: Value, place: str) -> str:
    try:
        return _json.encode(value).decode()
    except (UnicodeEncodeError, OverflowError, RecursionError, TypeError):
        raise StatementError(f"{place} cannot be written as JSON", hint="pass it as text") from None
