"""The description of `/v1` (OpenAPI 3.1), made of the same table that serves it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from runtime.api.problem import CONTENT_TYPE, SCHEMA, TITLES
from runtime.api.resources import Resource

_ALWAYS = (
    *("malformed", "unauthorized", "forbidden", "wrong_parameters"),
    *("too_many_failures", "internal", "unavailable"),
)
_JSON = "application/json"


@cache
def describe(resources: Sequence[Resource]) -> bytes:
    """The OpenAPI document of `resources`, as JSON."""
    results = list(dict.fromkeys(row.tool.result for row in resources if row.status != 204))
    _, shared = models_json_schema(
        [(model, "serialization") for model in results], ref_template="#/components/schemas/{model}"
    )
    paths: dict[str, Any] = {}
    for row in resources:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Symbiont",
            "version": metadata.version("symbiont"),
            "description": "What the bearer of a token may do. Tokens are made with `symbi token create`.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "symbi_…"}},
            "schemas": {**shared["$defs"], "Problem": dict(SCHEMA)},
        },
    }
    return json.dumps(document, ensure_ascii=False).encode()


def _operation(row: Resource) -> dict[str, Any]:
    summary, _, rest = row.tool.doc.partition("\n")
    schema = row.tool.parameters.model_json_schema()
    required = set(schema.get("required", ()))
    parameters = [
        {"name": name, "in": "path" if name in row.in_path else "query", "required": name in required}
        | ({"description": part.pop("description")} if "description" in part else {})
        | {"schema": part}
        for name, part in schema["properties"].items()
        if name in row.in_path or not row.body
    ]
    operation: dict[str, Any] = {
        "operationId": row.name,
        "summary": summary.rstrip("."),
        "description": f"{rest.strip()}\n\nNeeds the scope `{row.tool.scope}`.".strip(),
        "responses": _responses(row),
    }
    if parameters:
        operation["parameters"] = parameters
    if row.body:
        operation["requestBody"] = _body(row, schema)
    return operation


def _body(row: Resource, schema: dict[str, Any]) -> dict[str, Any]:
    required = [name for name in schema.get("required", ()) if name not in row.in_path]
    content = {
        "type": "object",
        "properties": {name: schema["properties"][name] for name in row.others},
        "additionalProperties": False,
    } | ({"required": required} if required else {})
    if row.method == "PATCH":
        content["minProperties"] = 1
    return {"required": bool(required) or row.method == "PATCH", "content": {_JSON: {"schema": content}}}


def _responses(row: Resource) -> dict[str, Any]:
    good: dict[str, Any] = {"description": "Done."}
    if row.status != 204:
        good["content"] = {_JSON: {"schema": {"$ref": f"#/components/schemas/{_name(row.tool.result)}"}}}
    if row.location:
        good["headers"] = {"Location": {"schema": {"type": "string"}, "description": "Where it is now."}}
    kinds = {*_ALWAYS, *(("not_found",) if row.in_path else ()), *row.more}
    if row.body:
        kinds |= {"conflict", "too_large", "unsupported_media_type"}
    problems = {
        str(TITLES[kind][0]): {
            "description": f"{TITLES[kind][1]}.",
            "content": {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for kind in sorted(kinds, key=lambda kind: TITLES[kind][0])
    }
    return {str(row.status): good, **problems}


def _name(model: type[BaseModel]) -> str:
    return re.sub(r"\W", "_", model.__name__)
