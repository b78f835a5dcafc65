"""Strict parsing of HTTP input: a JSON object, or a query."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin
from urllib.parse import parse_qsl

from pydantic import BaseModel

from runtime import json_text
from runtime.api.rest.problem import Problem
from runtime.json_bounds import OFF_THE_LOOP, excess
from runtime.tools.tool import aliases_of

_JSON = frozenset({"application/json", "application/merge-patch+json"})
_INTEGER = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?", re.ASCII)
_MOST_FIELDS = 50


async def read_object(body: bytes, content_type: str | None) -> dict[str, Any]:
    """Return the JSON object that is the whole body; an empty body is an empty object. A large one is read in a thread.

    Raises Problem for another content type, for a body that is not JSON in UTF-8 (RFC 8259) or has too many parts, and
    for a duplicate key.
    """
    if not body:
        return {}
    if (content_type or "").partition(";")[0].strip().lower() not in _JSON:
        raise Problem(
            "unsupported_media_type",
            "the body is not sent as application/json",
            hint="send the header Content-Type: application/json (`curl --json` does)",
        )
    return await asyncio.to_thread(_object, body) if len(body) > OFF_THE_LOOP else _object(body)


def _object(body: bytes) -> dict[str, Any]:
    if (what := excess(body)) is not None:
        raise Problem("malformed", f"the body is not accepted as JSON: {what}")
    try:
        value = json_text.decode(body)
    except json_text.DecodeError as error:
        raise Problem("malformed", f"the body {error}") from None
    if not isinstance(value, dict):
        raise Problem("malformed", "the body is not a JSON object")
    return value


def read_query(query: str, model: type[BaseModel]) -> dict[str, Any]:
    """Return the parameters of a query, by the names that it uses, with the types of `model`: numbers, `true` and
    `false`, and lists for repeated names. Raises Problem."""
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query), errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        raise Problem("malformed", "the query cannot be read") from None
    found: dict[str, Any] = {}
    aliases = aliases_of(model)
    for name, text in pairs:
        kinds = _kinds(aliases.get(name, name), model)
        if list in kinds:
            found.setdefault(name, []).append(text)
        elif name in found:
            raise Problem("malformed", f"the query names {name[:40]!r} twice")
        else:
            found[name] = _value(text, kinds)
    return found


def take_flag(query: str, name: str) -> tuple[str, bool]:
    """Return a query without the parameter `name`, and whether that is `true`. Raises Problem."""
    if not query:
        return query, False
    parts = query.split("&")
    values = [part.partition("=")[2] for part in parts if part.partition("=")[0] == name]
    if values and values not in (["true"], ["false"]):
        raise Problem("malformed", f"{name} is not one of true and false")
    return "&".join(part for part in parts if part.partition("=")[0] != name), values == ["true"]


def _kinds(name: str, model: type[BaseModel]) -> frozenset[Any]:
    """Return the types of the parameter."""
    field = model.model_fields.get(name)
    return frozenset() if field is None else frozenset(_types(field.annotation))


def _types(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _types(get_args(annotation)[0])
    elif origin in {Union, UnionType}:
        for each in get_args(annotation):
            yield from _types(each)
    else:
        yield origin or annotation


def _value(text: str, kinds: frozenset[Any]) -> str | int | float | bool:
    if int in kinds and _INTEGER.fullmatch(text):
        return int(text)
    if float in kinds and _NUMBER.fullmatch(text):
        return float(text)
    if bool in kinds and text in {"true", "false"}:
        return text == "true"
    return text
