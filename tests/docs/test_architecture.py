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


@pytest.mark.parametrize("folder", [str(folder) for folder in FOLDERS])
def test_each_folder_is_in_the_map_of_contributing(folder: str) -> None:
    assert re.search(rf"(?<![\w/]){re.escape(Path(folder).name)}/", MAP)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:runtime|dslc|tests|grammar)/[\w/.]+)`", PAGE))))
def test_each_path_on_the_page_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_glossary_has_about_twenty_terms() -> None:
    assert 18 <= len(GLOSSARY) <= 26
    assert sorted(GLOSSARY) == GLOSSARY


@pytest.mark.parametrize("term", GLOSSARY)
def test_the_code_uses_each_term_of_the_glossary(term: str) -> None:
    """Return whether the word is in the name of a file, class or function, or in a docstring."""
    pattern = re.compile(rf"(?<![a-z]){'[ _]?'.join(term.split())}", re.IGNORECASE)
    assert sum(1 for text in _texts() if pattern.search(text)) >= 3


@cache
def _texts() -> list[str]:
    return [f"{path.name}\n{path.read_text(encoding='utf-8')}" for path in CODE]
