"""Names of blocks and folders of memories: diagnostics, and the names that hints propose."""

from __future__ import annotations

import re

import pytest

from dslc.compiler import analyse
from dslc.diagnostics.diagnostic import Diagnostic
from dslc.source import Source
from dslc.vocabulary import Vocabulary
from dslc.workspace import Workspace
from tests.dslc.catalogs import CATALOG

_WEBHOOK = 'webhook w { path "/w" secret "secret://env/A" agent %s }\n'


def _found(text: str) -> list[Diagnostic]:
    return list(analyse([Source("a", text)], CATALOG).diagnostics)


@pytest.mark.parametrize(
    "text",
    [
        'memory notes { path "data" }\nmemory other { path "data/other" }\n',
        'memory a {}\nmemory agents { path "data/agents" }\n',
        'memory a { path "x" }\nmemory b { path "x" }\n',
        'memory a { path "data/b" }\nmemory b { path "data/b" }\n',
        'memory a { path "." }\nmemory b { path "data/b" }\n',
        'memory a { path "/" }\nmemory b { path "/b" }\n',
    ],
)
def test_the_folder_that_a_hint_proposes_is_free(text: str) -> None:
    [found] = [each for each in _found(text) if each.code == "N208"]
    proposed = re.search(r"`path (\"[^`]*\")`", found.hint or "")
    if proposed is not None:
        value = re.compile(r'path "[^"]*" }\s*\Z')
        assert "N208" not in {each.code for each in _found(value.sub(f"path {proposed[1]} }}", text))}


def test_of_two_nearly_equal_names_one_is_said_to_be_missing_and_none_to_be_unused() -> None:
    [found] = _found(_WEBHOOK % "reviewer" + "agent reviwer {}\n")
    assert (found.code, found.hint) == ("R301", "`agent reviwer` is declared: use the same name for both")
    assert [label.message for label in found.labels] == ["declared here"]


def test_the_place_of_the_declaration_follows_an_edit_of_another_file() -> None:
    workspace = Workspace(Vocabulary(CATALOG))
    workspace.put(Source("a", _WEBHOOK % "reviewer"))
    workspace.put(Source("b", "agent reviwer {}\n"))
    assert [each.labels[0].span.start for each in workspace.diagnostics("a")] == [6]
    workspace.put(Source("b", "# New.\nagent reviwer {}\n"))
    assert workspace.take_changed() >= {"a", "b"}
    assert [each.labels[0].span.start for each in workspace.diagnostics("a")] == [13]
    assert workspace.diagnostics("b") == []
    workspace.put(Source("a", _WEBHOOK % "reviwer"))
    assert workspace.diagnostics("a") == workspace.diagnostics("b") == []
    workspace.drop("a")
    assert [each.code for each in workspace.diagnostics("b")] == ["R302"]


def test_of_many_names_that_are_missing_none_is_compared_with_all() -> None:
    text = "".join(f'webhook w{n} {{ path "/{n}" secret "secret://env/A" agent agent{n} }}\n' for n in range(300))
    found = [
        each for each in _found(text + "".join(f"agent agemt{n} {{}}\n" for n in range(300))) if each.code == "R301"
    ]
    assert len(found) == 300
    assert {each.hint for each in found} == {None}


@pytest.mark.parametrize(
    ("name", "example"),
    [
        ("Ünïcode", "Unicode"),
        ("gedächtnis", "gedachtnis"),
        ("m@x", "m-x"),
        ("`m`", "m"),
        ("Größe", None),
        ("記憶", None),
    ],
)
def test_a_name_with_other_letters_is_shown_without_accents_or_not_at_all(name: str, example: str | None) -> None:
    [found] = [each for each in _found(f"memory {name} {{}}\n") if each.code == "N206"]
    assert found.hint == (
        f"such as `memory {example} {{`" if example else "a name has 1 to 64 letters, digits, `_`, `-` or `.`"
    )


def test_what_a_line_names_that_begins_as_a_comment_elsewhere_is_not_said_to_be_unused() -> None:
    blocks = 'memory m {}\nmemory n { path "n" }\nagent a { memory n }\n'
    assert [each.code for each in _found(blocks + _WEBHOOK.replace("agent", "\n; memory m\n agent") % "a")] == ["S114"]


def test_a_longer_key_that_has_a_setting_in_it_is_that_setting_misspelt() -> None:
    [found] = _found('webhook w {\n    path "/w"\n    webhook_secret "secret://env/A"\n}\n')
    assert (found.code, found.hint) == ("N202", "did you mean `secret`?")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('webhook w {\n    path "/w"\n    token "x"\n}\n', "token"),
        ('webhook w {\n    path "/w"\n    keys ["secret://env/A", "secret://env/B"]\n}\n', "keys"),
        ('webhook w {\n    url "/w"\n    secret "secret://env/A"\n}\n', "url"),
    ],
)
def test_an_unknown_setting_whose_value_suits_a_missing_one_is_the_only_mistake(text: str, key: str) -> None:
    [found] = _found(text)
    assert (found.code, found.message) == ("N202", f"`webhook w` has no setting `{key}`")


def test_a_missing_setting_is_reported_beside_an_unknown_one_that_cannot_stand_for_it() -> None:
    found = _found('webhook w {\n    path "/w"\n    colour 3\n}\n')
    assert [each.code for each in found] == ["T404", "N202"]


def test_a_list_of_settings_is_shown_whole() -> None:
    [found] = [each for each in _found(_WEBHOOK.replace("agent %s", "zzz 1")) if each.code == "N202"]
    assert "more" not in (found.hint or "")
    assert all(f"`{setting.name}`" in (found.hint or "") for setting in CATALOG.kinds["webhook"])
    assert "`insecure_allow_unverified`" in (found.hint or "")
