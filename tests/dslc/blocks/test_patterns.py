"""Python before 3.11.5 misreads possessive groups of alternatives (CPython issue 106052); atomic ones say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_POSSESSIVE = re.compile(r"(?<![\\(])\)(?:[*+?]|\{[\d,]+\})\+")


@pytest.mark.parametrize("package", ["dslc", "grammar", "runtime"])
def test_no_pattern_has_a_possessive_group(package: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in sorted((ROOT / package).rglob("*"))
        if file.suffix in {".py", ".lark"}
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if _POSSESSIVE.search(line)
    ]
    assert found == []
