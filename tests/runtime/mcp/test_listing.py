"""The listing that is served before anything is loaded agrees with the tables that it is generated from."""

from __future__ import annotations

import subprocess
import sys

import pytest

from runtime.generate.mcp_listing import render
from runtime.identity.caller import SCOPES, Caller, Scope
from runtime.mcp import listing
from runtime.tools import TOOLS
from runtime.tools.resources import RESOURCES


def test_the_committed_listing_is_what_the_tables_say() -> None:
    assert listing.FILE.read_text(encoding="utf-8") == render(), "run `make docs`"


@pytest.mark.parametrize("scope", SCOPES)
def test_a_caller_is_told_of_what_its_scope_may_call_and_of_nothing_else(scope: Scope) -> None:
    may = Caller("ada", frozenset({scope})).may
    allowed = {name for name, tool in TOOLS.items() if may(tool.scope)}
    assert {tool["name"] for tool in listing.tools(may)} == allowed
    assert {name for name in TOOLS if listing.tool(name, may)} == allowed
    assert len(listing.resources(may)) == sum(len(row.uris) for row in RESOURCES.values())


def test_a_caller_without_a_scope_is_told_of_nothing() -> None:
    may = Caller("ada", frozenset()).may
    assert (list(listing.tools(may)), list(listing.resources(may))) == ([], [])
    assert listing.tool("search", may) is None


def test_there_is_no_tool_of_another_name() -> None:
    assert listing.tool("resource_read", lambda _: True) is None


def test_the_lists_load_neither_the_tables_nor_a_database() -> None:
    listed = (
        "import sys, runtime.cli.mcp, runtime.cli.mcp_backend, runtime.mcp.server; from runtime.mcp import listing; "
        "assert listing.tools(lambda _: True) and listing.resources(lambda _: True); "
        "loaded = {'runtime.tools', 'runtime.identity', 'runtime.daemon.program.app', 'sqlalchemy', 'numpy'}; "
        "print(loaded & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
