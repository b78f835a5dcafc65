"""The extension for VS Code agrees with the language's tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dslc.catalog import Catalog
from dslc.language_server.textmate import GRAMMAR, SCOPE, SNIPPETS, files, grammar, main
from dslc.vocabulary import Vocabulary

_FOLDER = Path(__file__).parents[3] / "editors" / "vscode"
_VOCABULARY = Vocabulary(Catalog.installed())


@pytest.mark.parametrize("path", [GRAMMAR, SNIPPETS])
def test_the_committed_file_is_the_one_that_is_made(path: str) -> None:
    made = files(_VOCABULARY)[path]
    assert (_FOLDER / path).read_text(encoding="utf-8") == made, "run `make editors` and look at what changed"


def test_making_them_writes_them(tmp_path: Path) -> None:
    main(tmp_path)
    assert {path: (tmp_path / path).read_text(encoding="utf-8") for path in (GRAMMAR, SNIPPETS)} == files(_VOCABULARY)


def test_the_manifest_names_files_that_exist() -> None:
    manifest = json.loads((_FOLDER / "package.json").read_text(encoding="utf-8"))
    contributed = manifest["contributes"]
    paths = [manifest["main"], *(entry["path"] for entry in (*contributed["grammars"], *contributed["snippets"]))]
    paths += [entry["configuration"] for entry in contributed["languages"]]
    assert [path for path in paths if not (_FOLDER / path).is_file()] == []
    assert contributed["grammars"][0]["scopeName"] == SCOPE


def test_rules_that_are_included_exist() -> None:
    made = grammar(_VOCABULARY)
    included = {value[1:] for key, value in _pairs(made) if key == "include"}
    assert included == set(made["repository"])


def test_patterns_are_regular_expressions_and_each_setting_is_known() -> None:
    made = grammar(_VOCABULARY)
    for key, value in _pairs(made):
        if key in {"match", "begin", "end"}:
            re.compile(value)
    known = made["repository"]["key"]["patterns"][0]["match"]
    assert all(re.search(known, name) for settings in _VOCABULARY.kinds.values() for name in settings)


@pytest.mark.parametrize("scheme", ["secret", "vault", "file"])
def test_a_reference_to_a_secret_is_shown_as_a_link(scheme: str) -> None:
    link = next(rule for rule in grammar(_VOCABULARY)["repository"]["inside"]["patterns"] if "link" in rule["name"])
    assert re.search(link["match"], f'"{scheme}://a/b"')


def _pairs(data: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield key, value
            yield from _pairs(value)
    elif isinstance(data, list):
        for value in data:
            yield from _pairs(value)
