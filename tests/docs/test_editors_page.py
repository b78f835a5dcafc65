"""The configurations on the page about editors are valid for those editors."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs" / "editors.md").read_text(encoding="utf-8")


def _block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", _PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_settings_for_helix_name_what_they_use() -> None:
    settings = tomllib.loads(_block("toml"))
    server = settings["language-server"]["dslc"]
    assert [server["command"], *server["args"]] == ["dslc", "lsp"]
    [language], [grammar] = settings["language"], settings["grammar"]
    assert language["language-servers"] == ["dslc"]
    assert language["name"] == grammar["name"] == "symbiont"


def test_the_settings_for_vs_code_are_those_of_the_extension() -> None:
    manifest = json.loads((_ROOT / "editors" / "vscode" / "package.json").read_text(encoding="utf-8"))
    known = manifest["contributes"]["configuration"]["properties"]
    settings = json.loads(_block("json"))
    assert [name for name in settings if name not in known and name != "[symbiont]"] == []


def test_files_that_the_page_names_exist() -> None:
    assert (_ROOT / "grammar" / "src" / "parser.c").is_file()
    assert list((_ROOT / "grammar" / "queries").glob("*.scm")) != []
