"""Patterns over tools select what an agent gets from them."""

from __future__ import annotations

import pytest

from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.source import Source


def _said(tool: str) -> list[tuple[str, str, str | None]]:
    program = f"agent a {{ model ollama tools [{tool}] }}"
    return [
        (found.code, found.message, found.hint)
        for found in analyse([Source("page", program)], Catalog.installed()).diagnostics
    ]


@pytest.mark.parametrize("tool", ["memory_purge", '"memory_purge"', '"memory_*"', '"*"'])
def test_a_tool_that_deletes_is_named_in_full_or_stays_out_of_a_pattern(tool: str) -> None:
    assert _said(tool) == []


def test_a_pattern_that_only_tools_match_that_no_pattern_selects_is_an_error() -> None:
    message = "`memory_purg*` matches only tools that must be named in full"
    assert _said('"memory_purg*"') == [("N209", message, "write `memory_purge`")]
    assert Catalog.installed().rows("tool")["memory_purge"].destructive
