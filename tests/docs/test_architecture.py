"""The page on architecture names existing files, in the words of the code."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.cases import each_case

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CODE = [path for top in ("runtime", "dslc") for path in sorted((ROOT / top).rglob("*.py"))]
NAMES = [path.relative_to(ROOT).parts for path in CODE]
PACKAGES = sorted({"/".join(parts[:2]) for parts in NAMES if len(parts) > 2})
GLOSSARY = re.findall(r"^\| \*\*(.+?)\*\* \|", PAGE, re.MULTILINE)


@each_case("package", PACKAGES)
def test_each_package_is_on_the_page(package: str) -> None:
    assert f"`{package}`" in PAGE


@each_case("path", sorted(set(re.findall(r"`((?:runtime|dslc|tests|grammar)/[\w/.]+)`", PAGE))))
def test_each_path_on_the_page_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_glossary_has_about_twenty_terms() -> None:
    assert 18 <= len(GLOSSARY) <= 26
    assert sorted(GLOSSARY) == GLOSSARY


@each_case("term", GLOSSARY)
def test_the_code_uses_each_term_of_the_glossary(term: str) -> None:
    """The word is in at least three source files."""
    pattern = re.compile(rf"(?<![a-z]){'[ _]?'.join(term.split())}", re.IGNORECASE)
    assert sum(1 for text in _texts() if pattern.search(text)) >= 3


@cache
def _texts() -> list[str]:
    return [f"{path.name}\n{path.read_text(encoding='utf-8')}" for path in CODE]
