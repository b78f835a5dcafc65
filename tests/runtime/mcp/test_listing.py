"""The listing that is served before anything is loaded agrees with the tables that it is generated from."""

from __future__ import annotations

import subprocess
import sys

import pytest
from jsonschema import Draft202012Validator

from runtime.generate.mcp_listing import render
from runtime.identity.caller import SCOPES, Caller, Scope
from runtime.mcp import listing
from runtime.tool_groups import EVERYTHING, GROUPS, USUAL, WORDS, ToolChoice
from runtime.tools import TOOLS
from runtime.tools.resources import RESOURCES
from runtime.tools.tool import Tool

EVERY_GROUP = ToolChoice(frozenset(GROUPS))
ROWS = pytest.mark.parametrize("tool", [pytest.param(tool, id=name) for name, tool in TOOLS.items()])


def everything(_scope: Scope) -> bool:
    return True


def test_the_committed_listing_is_what_the_tables_say() -> None:
    assert listing.FILE.read_text(encoding="utf-8") == render(), "run `make docs`"


@pytest.mark.parametrize("scope", SCOPES)
def test_a_caller_is_told_of_what_its_scope_may_call_and_of_nothing_else(scope: Scope) -> None:
    may = Caller("ada", frozenset({scope})).may
    allowed = {name for name, tool in TOOLS.items() if may(tool.scope)}
    assert {tool["name"] for tool in listing.tools(may, EVERY_GROUP)} == allowed
    assert {name for name in TOOLS if listing.tool(name, may)} == allowed
    assert len(listing.resources(may)) == len(RESOURCES)


def test_a_caller_without_a_scope_is_told_of_nothing() -> None:
    may = Caller("ada", frozenset()).may
    assert (list(listing.tools(may, EVERYTHING)), list(listing.resources(may))) == ([], [])
    assert listing.tool("search", may) is None


@pytest.mark.parametrize("word", WORDS)
def test_a_choice_lists_its_groups_alone_and_read_only_what_changes_nothing(word: str) -> None:
    groups = {word} & {*GROUPS} or USUAL
    for text, reads in ((word, word == "read-only"), (f"{word},read-only", True)):
        listed = {tool["name"] for tool in listing.tools(everything, ToolChoice.read(text))}
        rows = TOOLS.items()
        assert listed == {
            name for name, row in rows if row.group in groups and (row.read_only or row.may_read or not reads)
        }


@ROWS
def test_a_listed_schema_takes_the_example_and_closes_only_where_every_name_is_listed(tool: Tool) -> None:
    listed = listing.tool(tool.name, everything)
    assert listed is not None
    schema = listed.definition["inputSchema"]
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(dict(tool.example or {}))
    assert schema["properties"].keys() == tool.parameters.model_fields.keys()
    assert schema.get("required", []) == tool.schema.get("required", [])
    # Other names of parameters are accepted, so a schema without them must not refuse them.
    assert ("additionalProperties" in schema) == (not tool.aliases)


def test_a_result_has_no_schema_unless_it_is_asked_for() -> None:
    assert not any("outputSchema" in tool for tool in listing.tools(everything, EVERY_GROUP))
    listed = {tool["name"]: tool for tool in listing.tools(everything, EVERY_GROUP, output_schemas=True)}
    for name, tool in TOOLS.items():
        schema = listed[name]["outputSchema"]
        assert schema["properties"].keys() >= tool.result_schema["properties"].keys()
        # Clients in TypeScript validate errors against it, and would show the model their own error instead of ours.
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert Draft202012Validator(schema).is_valid({"error": {"code": "invalid_params", "message": "it is wrong"}})
        assert not Draft202012Validator(schema).is_valid({})


def test_there_is_no_tool_of_another_name() -> None:
    assert listing.tool("resource_read", everything) is None


def test_the_lists_load_neither_the_tables_nor_a_database() -> None:
    listed = (
        "import sys, runtime.cli.mcp, runtime.cli.mcp_backend, runtime.mcp.server; from runtime.mcp import listing; "
        "from runtime.tool_groups import EVERYTHING; "
        "assert listing.tools(lambda _: True, EVERYTHING) and listing.resources(lambda _: True); "
        "loaded = {'runtime.tools', 'runtime.identity', 'runtime.daemon.program.app', 'sqlalchemy', 'numpy'}; "
        "print(loaded & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
