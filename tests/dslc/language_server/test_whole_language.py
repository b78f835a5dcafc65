"""A real session with requests about every setting, group and value of the language."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dslc.catalog import Catalog
from dslc.setting import Setting
from dslc.vocabulary import Settings, Vocabulary, by_name
from tests.dslc.language_server.client import Client, Json

_TEXT = """\
memory notes {
    path "data/notes"
}

webhook w {
    path     "/w"
    provider meta { verify_token "secret://env/T" }
    secret   ["secret://env/A", "secret://file/b"]
    agent    helper
    memory   notes
    event    ["push", "pull_request"]
    filter {
        any {
            filter { json_path "$.a" equals 1 }
            filter { header "X-A" exists true }
        }
        not { json_path "$.b" one_of ["a", 3] }
    }
    filter { json_path "$.ref" matches "^refs/" contains "heads" }
    limits { body 1MB per_minute 60 }
    allow_from  ["192.0.2.0/24", "::1"]
    concurrency 1
}

agent helper {
    memory notes
}
"""


def _bodies(settings: Settings, vocabulary: Vocabulary, way: str = "") -> Iterator[tuple[str, Settings]]:
    """Return every kind of body in the language, with the text before it."""
    yield way, settings
    for setting in settings.values():
        if setting.type == "group":
            yield from _bodies(by_name(setting.settings), vocabulary, f"{way} {setting.name} {{")
        elif setting.type == "variant":
            for row in vocabulary.rows(setting.family or "").values():
                if row.options:
                    yield f"{way} {setting.name} {row.name} {{", by_name(row.options)


def _cases() -> list[tuple[str, Settings]]:
    vocabulary = Vocabulary(Catalog.installed())
    kinds: Mapping[str, Settings] = vocabulary.kinds
    return [
        (f"{kind} x {{{way}", settings) for kind, known in kinds.items() for way, settings in _bodies(known, vocabulary)
    ]


def _offered(editor: Client, text: str) -> list[str]:
    editor.open("untitled:a", text)
    items = editor.at("completion", "untitled:a", 0, len(text))
    editor.close("untitled:a")
    return [item["label"] for item in (items["items"] if isinstance(items, dict) else items or [])]


def _said(editor: Client, text: str, at: int) -> str:
    editor.open("untitled:a", text)
    hover: Json | None = editor.at("hover", "untitled:a", 0, at)
    editor.close("untitled:a")
    return hover["contents"]["value"] if hover else ""


@pytest.mark.parametrize(("way", "settings"), [pytest.param(way, of, id=way) for way, of in _cases()])
def test_every_setting_is_offered_and_explained_where_it_may_stand(
    editor: Client, way: str, settings: Settings
) -> None:
    assert set(_offered(editor, f"{way} ")) == set(settings)
    for name, setting in settings.items():
        said = _said(editor, f"{way} {name} ", len(way) + 2)
        assert said.startswith(f"**{name}**"), name
        assert _first_sentence(setting) in said


def _first_sentence(setting: Setting) -> str:
    return re.split(r"(?<=\.)\s", setting.doc)[0]


def test_a_program_that_says_everything_is_understood(editor: Client, folder: Path) -> None:
    path = folder / "all.symbiont"
    path.write_text(_TEXT)
    uri = path.as_uri()
    editor.open(uri, _TEXT)
    symbols = editor.about("documentSymbol", uri)
    webhook = next(symbol for symbol in symbols if symbol["name"] == "w")
    names = [child["name"] for child in webhook["children"]]
    assert names == re.findall(r"^    (\w+)", _TEXT.split("\n\n")[1], re.MULTILINE)
    condition = webhook["children"][names.index("filter")]
    assert [part["name"] for part in condition["children"]] == ["any", "not"]
    assert [part["name"] for part in condition["children"][0]["children"]] == ["filter", "filter"]
    for line, word, target in [(8, "helper", 24), (9, "notes", 0), (25, "notes", 0)]:
        at = _TEXT.splitlines()[line].index(word) + 1
        assert [place["range"]["start"]["line"] for place in editor.at("definition", uri, line, at)] == [target]
    editor.diagnostics(uri, "P504")  # the only diagnostic: the sender signs no header
