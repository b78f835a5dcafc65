"""The description of `/v1` (OpenAPI 3.1), built from the same table that serves it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from dslc.version import version
from runtime.api.rest.agent_streams import follow_run
from runtime.api.rest.endpoints import ENDPOINTS, TOOLS_PATH, VERSION, Endpoint
from runtime.api.rest.event_stream import CONTENT_TYPE as EVENTS
from runtime.api.rest.problem import CONTENT_TYPE, SCHEMA, TITLES
from runtime.tool_groups import GROUPS
from runtime.tools import TOOLS
from runtime.tools.resources import GROUP, RESOURCES, Resource

_JSON = "application/json"
_SCHEMAS: Final = "#/components/schemas/"
_EVENTS = {
    "schema": {
        "type": "string",
        "description": "With `Accept: text/event-stream`: events `progress` (`what`, `done`, `total`), then one event "
        "`result` with the JSON answer, or `error` with a problem. A client that disconnects cancels the call.",
    }
}

_FOLLOWED_EVENTS = {
    "schema": {
        "type": "string",
        "description": "With `Accept: text/event-stream`: the events of the run until it ends, or of all runs. Each "
        "has an `id`, and JSON with `run`, `agent` and `thread`: `agent.typing` (`step`), `agent.message` (`step`, "
        "`messages`), `agent.tool` (`step`, `call`, `name`, `state`: `started`, with `arguments`, `ok`, or `error` or "
        "`unknown`, with `detail`), `agent.confirm` (`call`, `approval`, `name`, `state`: `awaiting` with `arguments`, "
        "`deadline`, `server`, `kind`, `subject`, `webhook`, `delivery_id` and `message`, or what was decided, with "
        "`reason` and `via`), and last `agent.done` (`total_steps`, `total_messages`, `usage`, `ended`) or "
        "`agent.error` (`problem`). Without an `id` are `agent.delta` (`step`, `message`, `text`) and `agent.note` "
        "(`detail`: why events may be missing, or what the run waits for). `error` with a problem ends the stream and "
        "not the run. A client that disconnects cancels nothing.",
    }
}
_SERVERS: Final = [
    {"url": "/", "description": "The operators' listener that serves this document."},
    {
        "url": "http://{address}",
        "description": "A daemon's operators' listener.",
        "variables": {"address": {"default": "127.0.0.1:8081", "description": "HOST:PORT of `--admin-listen`."}},
    },
]
_BY_NAME: Final = "tools"
"""The tag of the operation that calls a tool by its name; every other one has its tool's group."""
_TAGS: Final = [
    *({"name": group, "description": f"Paths of the group `{group}`."} for group in GROUPS),
    {"name": _BY_NAME, "description": "Every tool by its name."},
]
_DEFAULT: Final = re.compile(r"; the default is [^.]*")
_FOLLOW_PARAMETERS = [
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
_ABOUT: Final = """\
Permissions of the bearer of a token. `symbi token create` creates tokens; one with `--tools` is limited to groups of \
tools.

The paths below `/v1/agents/{agent}` exist below `/v1/agent` too, for the main agent; `/v1/agent/events` has all agents.
"""
_PROBLEMS: Final = {
    status: " ".join(f"{title}." for number, title in TITLES.values() if number == status)
    for status in sorted({status for status, _ in TITLES.values()} - {405})
}
"""Titles of the problems of each status."""
_OF_BODIES: Final = {413, 415}
_CALL_TOOL: Final = f"{TOOLS_PATH}{{name}}"
"""The path of every tool by its name: one operation for all of them."""


@cache
def describe() -> bytes:
    """Return the OpenAPI document of all endpoints and resources, as JSON."""
    endpoints = [row for row in ENDPOINTS if not row.path.startswith(TOOLS_PATH)]
    results = dict.fromkeys(row.tool.result for row in endpoints if row.status != 204)
    results |= dict.fromkeys(each.result for each in RESOURCES.values())
    _, shared = models_json_schema([(model, "serialization") for model in results], ref_template=f"{_SCHEMAS}{{model}}")
    paths: dict[str, Any] = {f"{VERSION}{each.path}": {"get": _resource_operation(each)} for each in RESOURCES.values()}
    for row in endpoints:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row)
    paths[_CALL_TOOL] = {"post": _call_tool()}
    problem = {CONTENT_TYPE: {"schema": {"$ref": f"{_SCHEMAS}Problem"}}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Symbiont", "version": version(), "description": _ABOUT},
        "servers": _SERVERS,
        "tags": _TAGS,
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "symbi_…"}},
            "responses": {str(status): {"description": what, "content": problem} for status, what in _PROBLEMS.items()},
            "schemas": {**shared["$defs"], "Problem": dict(SCHEMA)},
        },
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _resource_operation(row: Resource) -> dict[str, Any]:
    return {
        "operationId": "read_" + re.sub(r"\W+", "_", row.path).strip("_"),
        "tags": [GROUP],
        "summary": row.title,
        "description": f"{row.doc}\n\nNeeds the scope `read`; group `{GROUP}`.",
        "responses": _success(row.result) | _problems(body=False),
    } | ({"parameters": [_in_path(name, {"type": "string"}) for name in row.parameters]} if row.parameters else {})


def _call_tool() -> dict[str, Any]:
    """Return the operation of a tool by its name."""
    content = {_JSON: {"schema": {"type": "object"}}}
    good = {"description": "What the tool returns.", "content": content | {EVENTS: dict(_EVENTS)}}
    return {
        "operationId": "call_tool",
        "tags": [_BY_NAME],
        "summary": "Call a tool by its name",
        "description": "Parameters and results are those of the page on tools (docs/tools.md), and of `tools/list` "
        "over MCP at `/mcp`. Needs the scope of the tool.",
        "parameters": [_in_path("name", {"type": "string", "enum": list(TOOLS)})],
        "requestBody": {"content": content},
        "responses": {"200": good} | _problems(body=True),
    }


def _in_path(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": "Percent-encoded.", "schema": schema}


def _operation(row: Endpoint) -> dict[str, Any]:
    summary, _, rest = row.tool.doc.partition("\n")
    schema = row.tool.schema_of_full_names
    required, example = {*schema.get("required", ()), *row.needs}, row.tool.example or {}
    parameters = [
        {
            "name": name,
            "in": "path" if name in row.in_path else "query",
            "required": name in required or name in row.in_path,
            "description": part["description"],
            "schema": {key: value for key, value in part.items() if key != "description"},
        }
        | ({"example": example[name]} if name in example else {})
        for name, part in _parts(row, schema["properties"])
        if name in row.in_path or (name in row.others and not row.body)
    ]
    if row.follow is not None:
        parameters += _FOLLOW_PARAMETERS
    operation: dict[str, Any] = {
        "operationId": row.name,
        "tags": [row.tool.group],
        "summary": summary.rstrip("."),
        "description": f"{rest.strip()}\n\nNeeds the scope `{row.tool.scope}`; group `{row.tool.group}`.".strip(),
        "responses": _responses(row),
    }
    if parameters:
        operation["parameters"] = parameters
    if row.body:
        operation["requestBody"] = _body(row, schema)
    return operation


def _parts(row: Endpoint, properties: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the schemas of a tool's parameters; of one in the path, which is never absent, without null or default."""
    for name, part in properties.items():
        if name not in row.in_path:
            yield name, part
            continue
        kept = {key: value for key, value in part.items() if key not in {"anyOf", "default"}}
        kept["description"] = _DEFAULT.sub("", part["description"])
        kinds = [each for each in part.get("anyOf", ()) if each != {"type": "null"}]
        yield name, kept | (kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {})


def _body(row: Endpoint, schema: Mapping[str, Any]) -> dict[str, Any]:
    required = [name for name in (*schema.get("required", ()), *row.needs) if name in row.others]
    content = {
        "type": "object",
        "properties": {name: part for name, part in schema["properties"].items() if name in row.others},
        "additionalProperties": False,
    } | ({"required": required} if required else {})
    if row.method == "PATCH":
        content["minProperties"] = 1
    media = {"schema": content} | ({"example": dict(row.example)} if row.example else {})
    return {"required": bool(required) or row.method == "PATCH", "content": {_JSON: media}}


def _responses(row: Endpoint) -> dict[str, Any]:
    good = _success(None if row.status == 204 else row.tool.result, row.status)
    if row.unfinished:
        good["202"] = {**good["200"], "description": "The run goes on; `ended` is null."}
    if row.follow is not None:
        good[str(row.status)]["content"][EVENTS] = dict(_FOLLOWED_EVENTS)
    elif row.tool.long:
        good[str(row.status)]["content"][EVENTS] = dict(_EVENTS)
    if row.follow is follow_run:
        good["204"] = {"description": "A stream was asked for after the last event of a run that is over."}
    if row.location:
        header = {"schema": {"type": "string"}, "description": "The URL of the created resource."}
        for status in good:
            good[status]["headers"] = {"Location": header}
    return good | _problems(body=row.body)


def _success(result: type[BaseModel] | None, status: int = 200) -> dict[str, Any]:
    if result is None:
        return {str(status): {"description": "Done."}}
    schema = {"$ref": f"{_SCHEMAS}{_name(result)}"}
    return {str(status): {"description": "Done.", "content": {_JSON: {"schema": schema}}}}


def _problems(*, body: bool) -> dict[str, Any]:
    """Return the problem answers by status, each described once for all operations."""
    statuses = _PROBLEMS.keys() - (set() if body else _OF_BODIES)
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)}


def _name(model: type[BaseModel]) -> str:
    return re.sub(r"\W", "_", model.__name__)
