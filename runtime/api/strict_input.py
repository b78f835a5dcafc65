"""What HTTP hands in, read without a guess: a JSON object, or a query."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any
from urllib.parse import parse_qsl

from pydantic import BaseModel

from runtime.api.problem import Problem

LARGEST_BODY = 64 * 1024
"""Bytes."""

_JSON = frozenset({"application/json", "application/merge-patch+json"})
_INTEGER = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_MOST_FIELDS = 50


def read_object(body: bytes, content_type: str | None) -> dict[str, Any]:
    """The JSON object that is the whole body; an empty body is an empty one.

    Raises Problem: for another content type, for what is not JSON in UTF-8 (RFC 8259), for a key that stands twice.
    """
    if not body:
        return {}
    if (content_type or "").partition(";")[0].strip().lower() not in _JSON:
        raise Problem("unsupported_media_type", "the body is not sent as application/json")
    try:
        value = json.loads(body.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise Problem("malformed", "the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Problem("malformed", f"the body is not JSON: {error.msg.lower()} ({where})") from None
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Problem("malformed", f"the body is not JSON that is read here: {why}") from None
    if not isinstance(value, dict):
        raise Problem("malformed", "the body is not a JSON object")
    return value


def read_query(query: str, model: type[BaseModel]) -> dict[str, Any]:
    """The query's parameters; whole numbers where `model` has them. Raises Problem."""
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query), errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        raise Problem("malformed", "the query cannot be read") from None
    for name, count in Counter(name for name, _ in pairs).items():
        if count > 1:
            raise Problem("malformed", f"the query names {name[:40]!r} twice")
    return {name: _number(value, name, model) for name, value in pairs}


def _number(text: str, name: str, model: type[BaseModel]) -> str | int:
    field = model.model_fields.get(name)
    wanted = field is not None and field.annotation is int
    return int(text) if wanted and _INTEGER.fullmatch(text) else text


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands in it twice")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
