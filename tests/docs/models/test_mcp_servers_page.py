"""The page on MCP servers has the states, the limits and the commands that the code has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from runtime.cli.mcp_server import mcp_server
from runtime.tool_servers import child, connection, definition, session, stdio
from runtime.tool_servers.server import State

HOUSE = Path(__file__).parents[3]
PAGE = (HOUSE / "docs/mcp-servers.md").read_text(encoding="utf-8")


def test_every_state_is_on_the_page() -> None:
    assert [state for state in get_args(State) if f"`{state}`" not in PAGE] == []


@pytest.mark.parametrize(
    "said",
    [
        f"{stdio.LARGEST_MESSAGE // 1024 // 1024} MiB; a larger one ends the connection",
        f"{stdio.LINES_PER_SECOND} a second, and 500 at once",
        f"{session.MOST_TOOLS}; the schema of one has at most {definition.LARGEST_SCHEMA // 1024} KiB",
        f"{definition.LONGEST_DESCRIPTION:,} characters",
        f"{child.LINES_PER_MINUTE} lines a minute of {child.LONGEST_LINE} characters",
        f"at most {('one', 'two', 'three', 'four', 'five')[int(connection.LONGEST_WAIT_SECONDS // 60) - 1]} minutes",
    ],
)
def test_the_limits_are_those_of_the_code(said: str) -> None:
    assert said in " ".join(PAGE.split())


def test_every_command_is_on_the_page_and_no_other() -> None:
    assert set(re.findall(r"symbi mcp-server ([a-z]+)", PAGE)) == set(mcp_server.commands)


def test_what_a_program_inherits_is_named() -> None:
    assert all(f"`{name}`" in PAGE for name in child.INHERITED)


def test_the_drop_in_is_there_and_says_how_to_install_it() -> None:
    text = (HOUSE / "deploy/mcp-servers.conf").read_text(encoding="utf-8")
    assert "install -D -m 644 deploy/mcp-servers.conf /etc/systemd/system/symbiont.service.d/mcp-servers.conf" in text
