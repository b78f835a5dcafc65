"""The page on architecture and the map of CONTRIBUTING name existing files, in the words of the code."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MAP = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("```text\n")[2].partition("```")[0]
CODE = [path for top in ("runtime", "dslc") for path in sorted((ROOT / top).rglob("*.py"))]
FOLDERS = sorted({path.parent.relative_to(ROOT) for path in CODE})
PACKAGES = [str(folder) for folder in FOLDERS if len(folder.parts) == 2]
GLOSSARY = re.findall(r"^\| \*\*(.+?)\*\* \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_is_on_the_page(package: str) -> None:
    assert f"`{package}`" in PAGE


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_each_folder_is_in_the_map_of_contributing(folder: Path) -> None:
    """A package has a line, which names its folders."""
    *above, name = folder.parts
    lines = re.split(r"\n(?=(?:  )?\S)", MAP)
    found = [line for line in lines if not above or re.search(rf"(?<![\w/]){folder.parts[1]}/", line)]
    assert any(re.search(rf"(?<![\w/]){re.escape(name)}/", line) for line in found)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:runtime|dslc|tests|grammar)/[\w/.]+)`", PAGE))))
def test_each_path_on_the_page_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_glossary_has_about_twenty_terms() -> None:
    assert 18 <= len(GLOSSARY) <= 26
    assert sorted(GLOSSARY) == GLOSSARY


@pytest.mark.parametrize("term", GLOSSARY)
def test_the_code_uses_each_term_of_the_glossary(term: str) -> None:
    """The word is in at least three source files."""
    pattern = re.compile(rf"(?<![a-z]){'[ _]?'.join(term.split())}", re.IGNORECASE)
    assert sum(1 for text in _texts() if pattern.search(text)) >= 3


@cache
def _texts() -> list[str]:
    return [f"{path.name}\n{path.read_text(encoding='utf-8')}" for path in CODE]
