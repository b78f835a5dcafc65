"""`python -m runtime.generate.command_parameters` writes `parameters.json`: the parameters of tools and operations.

Commands make their options from it, without loading the tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runtime.api.admin.operations import OPERATIONS
from runtime.cli.tool_command import FILE
from runtime.tools import TOOLS
from runtime.tools.tool import Tool

_COPIED = ("minimum", "maximum", "default", "description", "type", "enum")


def render() -> str:
    """Return the content of the committed file."""
    rows: Mapping[str, Tool] = {**TOOLS, **OPERATIONS}
    found = {
        name: {"doc": _paragraph(row), "parameters": _parameters(row.schema_of_full_names)}
        for name, row in rows.items()
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _paragraph(row: Tool) -> str:
    return " ".join(row.doc.partition("\n\n")[0].split())


def _parameters(schema: Mapping[str, Any]) -> dict[str, Any]:
    needed = schema.get("required", ())
    return {name: {**_parameter(part), "required": name in needed} for name, part in schema["properties"].items()}


def _parameter(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return what decides an option: its type, bounds, choices and description. `several`: it is given repeatedly."""
    for each in part.get("anyOf", ()):
        if each.get("type") != "null":
            part = {**each, **part}
            break
    if part.get("type") == "array":
        part = {**part.get("items", {}), **{name: part[name] for name in ("default", "description") if name in part}}
        return {**_parameter(part), "several": True}
    return {name: part[name] for name in _COPIED if name in part}


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")
