"""The description of `/v1` (OpenAPI 3.1), built from the same table that serves it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence, Set
from functools import cache
from importlib import metadata
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from runtime.api.rest.endpoints import VERSION, Endpoint
from runtime.api.rest.event_stream import CONTENT_TYPE as EVENTS
from runtime.api.rest.problem import CONTENT_TYPE, SCHEMA, TITLES
from runtime.tools.resources import GROUP, RESOURCES, Resource

_ALWAYS = (
    *("malformed", "unauthorized", "forbidden", "foreign_origin", "misdirected", "wrong_parameters"),
    *("internal", "upsert_failed", "unavailable", "provider_unavailable"),
)
_JSON = "application/json"
_EVENTS = {
    "schema": {
        "type": "string",
        "description": "With `Accept: text/event-stream`: events `progress` (`what`, `done`, `total`), then one event "
        "`result` with the JSON answer, or `error` with a problem. A client that disconnects cancels the call.",
    }
}

_WATCHED = {
    "schema": {
        "type": "string",
        "description": "With `Accept: text/event-stream`: the events of the run until it ends, or of all runs. Each "
        "has an `id`, and JSON with `run`, `agent` and `thread`: `agent.typing` (`step`), `agent.message` (`step`, "
        "`messages`), `agent.tool` (`step`, `call`, `name`, `state`: `started`, `ok`, `error` or `unknown`), "
        "`agent.confirm` (`call`, `approval`, `name`, `state`: `awaiting`, with `arguments` and `deadline`, or what "
        "was decided, with `reason`), and last `agent.done` (`total_steps`, `total_messages`, `usage`, `ended`) or "
        "`agent.error` (`problem`). Without an `id` are `agent.delta` (`step`, `message`, `text`) and `agent.note` "
        "(`detail`: why events may be missing, or what the run waits for at a limit). `error` with a problem ends the "
        "stream and not the run. A client that disconnects cancels nothing.",
    }
}
_WATCHING = [
    {
        "name": "deltas",
        "in": "query",
        "required": False,
        "description": "`true`: a stream has the parts of messages too, as they are written.",
        "schema": {"type": "boolean", "default": False},
    },
    {
        "name": "Last-Event-ID",
        "in": "header",
        "required": False,
        "description": "The id of the last event that the client has; a stream goes on after it.",
        "schema": {"type": "string"},
    },
]


@cache
def describe(endpoints: Sequence[Endpoint]) -> bytes:
    """Return the OpenAPI document of `endpoints` and of all resources, as JSON."""
    results = list(dict.fromkeys(row.tool.result for row in endpoints if row.status != 204))
    results += [each.result for each in RESOURCES.values() if each.result not in results]
    _, shared = models_json_schema(
        [(model, "serialization") for model in results], ref_template="#/components/schemas/{model}"
    )
    paths: dict[str, Any] = {}
    for resource in RESOURCES.values():
        paths[f"{VERSION}{resource.path}"] = {"get": _reading(resource)}
    for row in endpoints:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Symbiont",
            "version": metadata.version("symbiont"),
            "description": "Permissions of the bearer of a token. `symbi token create` creates tokens; one with "
            "`--tools` is limited to groups of tools.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "symbi_…"}},
            "schemas": {**shared["$defs"], "Problem": dict(SCHEMA)},
        },
    }
    return json.dumps(document, ensure_ascii=False).encode()


def _reading(row: Resource) -> dict[str, Any]:
    return {
        "operationId": "read_" + re.sub(r"\W+", "_", row.path).strip("_"),
        "summary": row.title,
        "description": f"{row.doc}\n\nNeeds the scope `read`; group `{GROUP}`.",
        "responses": _good(row.result) | _problems({*_ALWAYS, *(("not_found",) if row.parameters else ())}),
    } | (
        {
            "parameters": [
                {
                    "name": name,
                    "in": "path",
                    "required": True,
                    "description": "The value, percent-encoded.",
                    "schema": {"type": "string"},
                }
                for name in row.parameters
            ]
        }
        if row.parameters
        else {}
    )


def _operation(row: Endpoint) -> dict[str, Any]:
    summary, _, rest = row.tool.doc.partition("\n")
    schema = row.tool.schema
    required, example = {*schema.get("required", ()), *row.needs}, row.tool.example or {}
    parameters = [
        {
            "name": name,
            "in": "path" if name in row.in_path else "query",
            "required": name in required or name in row.in_path,
        }
        | ({"description": part["description"]} if "description" in part else {})
        | {"schema": {key: value for key, value in part.items() if key != "description"}}
        | ({"example": example[name]} if name in example else {})
        for name, part in schema["properties"].items()
        if name in row.in_path or (name not in row.without and not row.body)
    ]
    if row.watch is not None:
        parameters += _WATCHING
    operation: dict[str, Any] = {
        "operationId": row.name,
        "summary": summary.rstrip("."),
        "description": f"{rest.strip()}\n\nNeeds the scope `{row.tool.scope}`; group `{row.tool.group}`.".strip(),
        "responses": _responses(row),
    }
    if parameters:
        operation["parameters"] = parameters
    if row.body:
        operation["requestBody"] = _body(row, schema)
    return operation


def _body(row: Endpoint, schema: Mapping[str, Any]) -> dict[str, Any]:
    required = [name for name in (*schema.get("required", ()), *row.needs) if name not in row.in_path]
    content = {
        "type": "object",
        "properties": {
            name: part for name, part in schema["properties"].items() if name not in (*row.in_path, *row.without)
        },
        "additionalProperties": False,
    } | ({"required": required} if required else {})
    if row.method == "PATCH":
        content["minProperties"] = 1
    media = {"schema": content} | ({"example": dict(row.given)} if row.given else {})
    return {"required": bool(required) or row.method == "PATCH", "content": {_JSON: media}}


def _responses(row: Endpoint) -> dict[str, Any]:
    kinds = {*_ALWAYS, *(("not_found",) if row.in_path else ()), *row.more}
    kinds |= {"switched_off"} if row.stopped_by else set()
    if row.body:
        kinds |= {"conflict", "too_large", "unsupported_media_type"}
    good = _good(None if row.status == 204 else row.tool.result, row.status)
    if row.unfinished:
        good["202"] = {**good["200"], "description": "The run goes on; `ended` is null."}
    if row.watch is not None:
        good[str(row.status)]["content"][EVENTS] = dict(_WATCHED)
    elif row.tool.long:
        good[str(row.status)]["content"][EVENTS] = dict(_EVENTS)
    if row.location:
        header = {"schema": {"type": "string"}, "description": "The URL of the created resource."}
        for status in good:
            good[status]["headers"] = {"Location": header}
    return good | _problems(kinds)


def _good(result: type[BaseModel] | None, status: int = 200) -> dict[str, Any]:
    if result is None:
        return {str(status): {"description": "Done."}}
    schema = {"$ref": f"#/components/schemas/{_name(result)}"}
    return {str(status): {"description": "Done.", "content": {_JSON: {"schema": schema}}}}


def _problems(kinds: Set[str]) -> dict[str, Any]:
    """Return the problem answers by status; kinds with the same status share a description."""
    by_status: dict[int, list[str]] = {}
    for kind, (status, title) in TITLES.items():
        if kind in kinds:
            by_status.setdefault(status, []).append(f"{title}.")
    content = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {str(status): {"description": " ".join(titles), "content": content} for status, titles in by_status.items()}


def _name(model: type[BaseModel]) -> str:
    return re.sub(r"\W", "_", model.__name__)
