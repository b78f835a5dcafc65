"""The page about tools agrees with the table."""

from __future__ import annotations

import re

from runtime.generate.tool_docs import PAGE, render
from runtime.tools import TOOLS
from runtime.tools.resources import RESOURCES

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_is_what_the_table_says() -> None:
    assert render() == TEXT, "run `make docs`"


def test_every_tool_and_every_readable_stands_on_it() -> None:
    assert re.findall(r"^## ([a-z_-]+)$", TEXT, re.MULTILINE) == list(TOOLS)
    for path in RESOURCES:
        assert f"`symbiont://{path}`" in TEXT
