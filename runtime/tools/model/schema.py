"""Schemas of tools for language models: short, and without what models or their services misread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from runtime.models.request import ToolSchema
from runtime.tools.tool import Tool

# Other keywords are left out. Services refuse some of them (`examples`), and a grammar for the parameters gets too
# large with others (`maxLength`, `maxItems`, `pattern`). The tool checks its parameters anyway.
_KEPT: Final = ("type", "description", "enum", "minimum", "maximum", "items", "properties", "required", "anyOf")


def model_schema(tool: Tool, name: str) -> ToolSchema:
    """Return the schema of a tool with this name: the first paragraph of its description, and its parameters by their
    full names, without null for optional ones."""
    parameters = _plain(tool.schema_of_full_names)
    return ToolSchema(name, first_paragraph(tool.doc), parameters | {"additionalProperties": False})


def first_paragraph(text: str) -> str:
    """Return the first paragraph in one line."""
    return " ".join(text.strip().partition("\n\n")[0].split())


def _plain(schema: Mapping[str, Any], *, nullable: bool = False) -> dict[str, Any]:
    found = {key: schema[key] for key in _KEPT if key in schema}
    if schema.get("default") not in (None, [], {}):
        found["default"] = schema["default"]
    if "const" in schema:
        found["enum"] = [schema["const"]]
    if "items" in found:
        found["items"] = _plain(found["items"])
    if "properties" in found:
        required = found.get("required", ())
        found["properties"] = {
            name: _plain(part, nullable=name in required) for name, part in found["properties"].items()
        }
    if "anyOf" in found:
        kinds = [_plain(each) for each in found.pop("anyOf") if nullable or each.get("type") != "null"]
        found = {**kinds[0], **found} if len(kinds) == 1 else {**found, "anyOf": kinds}
    return found
