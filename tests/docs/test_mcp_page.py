"""`docs/mcp.md` agrees with the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

from runtime.daemon.listeners import mcp_endpoint as over
from runtime.mcp import stdio
from runtime.mcp.server import INSTRUCTIONS
from runtime.tools import TOOLS
from runtime.tools.resources import RESOURCES, SCHEMES

PAGE = Path("docs/mcp.md").read_text()


def test_every_configuration_on_the_page_is_json_that_starts_symbi_mcp() -> None:
    blocks = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        (servers,) = json.loads(block).values()
        assert (servers["symbiont"]["command"], servers["symbiont"]["args"][0]) == ("symbi", "mcp")


def test_the_bounds_on_the_page_are_those_of_the_code() -> None:
    said = " ".join(PAGE.split())
    assert f"at most {over.LARGEST >> 20} MB and {over.BODY_SECONDS} seconds" in said
    assert f"At most {over.AT_A_TIME} requests run at the same time" in said
    assert f"at most {over.SESSIONS} sessions" in said
    assert over.IDLE_SECONDS == 30 * 60
    assert "after half an hour" in said
    assert f"a line has at most {stdio.LONGEST_LINE >> 20} MB" in said


def test_every_resource_stands_on_the_page_with_both_schemes() -> None:
    assert all(f"`{scheme}`" in PAGE for scheme in SCHEMES)
    assert all(f"| `{path}` |" in PAGE for path in RESOURCES)


def test_what_the_instructions_name_is_there() -> None:
    named = set(re.findall(r"`([a-z-]+)`", INSTRUCTIONS))
    assert named <= TOOLS.keys()
    assert "push" in named
