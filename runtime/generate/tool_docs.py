"""`python -m runtime.generate.tool_docs` writes docs/tools.md from the tables of tools and resources."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from runtime.tools import TOOLS
from runtime.tools.failure import CODES
from runtime.tools.resources import RESOURCES, SCHEMES
from runtime.tools.tool import Tool

PAGE: Final = Path(__file__).parents[2] / "docs" / "tools.md"

_HEAD: Final = """# Tools

Agents, clients of the Model Context Protocol, HTTP and commands use the same tools. This page is generated from the
table of tools by `python -m runtime.generate.tool_docs`.

- MCP: each is a tool with its name ([mcp.md](mcp.md)).
- HTTP: `POST /v1/tools/NAME` with its parameters as a JSON object ([http.md](http.md)).
- The caller is the user of the token, or `owner` on the machine itself; no parameter sets it. With the scope `admin` a
  caller sees the data of all users, otherwise its own.
- The group is what a client of MCP [chooses](mcp.md#which-tools), and what a [token](http.md#users-and-tokens) can be
  limited to.

An unknown parameter is refused, and so is a value of a wrong type.
"""

_FAILURES: Final = """## When a call fails

There are several kinds of failures. The message names the wrong parameter and shows a correct value. The model gets it
unchanged, for instance `invalid_params: limit: input should be greater than or equal to 1. For example:
{"limit": 5}`.

| kind | |
|---|---|
"""

_RESOURCES_HEAD: Final = """## Resources

Information that a client can read before it calls a tool: as MCP resources, and by `GET /v1/PATH`. It needs the scope
`read`, and the group `collections`.

| path | addresses | |
|---|---|---|
"""


def render() -> str:
    """Return the page."""
    return "\n".join((_HEAD, _summary(), *map(_section, TOOLS.values()), _readables(), _failures()))


def _summary() -> str:
    rows = (
        f"| [`{tool.name}`](#{tool.name}) | {tool.group} | {tool.scope} | {_does(tool)} | {_first(tool)} |"
        for tool in TOOLS.values()
    )
    return "\n".join(("| tool | group | scope | changes | |", "|---|---|---|---|---|", *rows, ""))


def _does(tool: Tool) -> str:
    if tool.read_only:
        return "nothing"
    words = ["deletes or overwrites" if tool.destructive else "adds"]
    if tool.idempotent:
        words.append("idempotent")
    return ", ".join(words)


def _first(tool: Tool) -> str:
    return tool.doc.partition("\n")[0]


def _section(tool: Tool) -> str:
    lines = [f"## {tool.name}", "", tool.doc, "", f"Needs the scope `{tool.scope}`; group `{tool.group}`.", ""]
    if tool.parameters.model_fields:
        lines += ["| parameter | | |", "|---|---|---|", *_parameters(tool), ""]
    lines += ["For example:", "", "```json", json.dumps(tool.example or {}, indent=2, ensure_ascii=False), "```", ""]
    answers = ", ".join(f"`{name}`" for name in tool.result_schema.get("properties", {}))
    lines += [f"Returns {answers}.", ""]
    return "\n".join(lines)


def _parameters(tool: Tool) -> Iterator[str]:
    schema = tool.schema
    required = schema.get("required", ())
    for name in tool.parameters.model_fields:
        part = schema["properties"][name]
        others = [alias for alias, full in tool.aliases.items() if full == name]
        called = " or ".join(f"`{each}`" for each in (name, *others))
        need = "required" if name in required else _default(part)
        none = " or null" if name in required and _may_be_null(part) else ""
        yield f"| {called} | {_kind(part)}{none}{need and f', {need}'} | {_cell(part.get('description', ''))} |"


def _may_be_null(part: Mapping[str, Any]) -> bool:
    return any(each.get("type") == "null" for each in part.get("anyOf", ()))


def _default(part: Mapping[str, Any]) -> str:
    value = part.get("default")
    return "" if value in (None, [], {}) else f"default `{json.dumps(value, ensure_ascii=False)}`"


def _kind(part: Mapping[str, Any]) -> str:
    """Return the accepted values in words, without null."""
    if "anyOf" in part:
        kinds = [_kind(each) for each in part["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in part:
        return ", ".join(f"`{each}`" for each in part["enum"])
    kind = str(part.get("type", "anything"))
    if kind == "array":
        return f"list of {_kind(part.get('items', {}))}"
    bounds = [f"{word} {part[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in part]
    kind = {"string": "text", "integer": "number", "boolean": "`true` or `false`"}.get(kind, kind)
    return " ".join((kind, *bounds))


def _cell(text: str) -> str:
    return text.replace("|", "&#124;").replace("\n", " ")


def _readables() -> str:
    rows = (
        f"| `{row.path}` | {', '.join(f'`{scheme}{row.path}`' for scheme in SCHEMES)} | {row.doc} |"
        for row in RESOURCES.values()
    )
    return "\n".join((f"{_RESOURCES_HEAD}{next(rows)}", *rows, ""))


def _failures() -> str:
    return _FAILURES + "\n".join(f"| `{code}` | {what} |" for code, what in CODES.items()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
