"""References to secrets: how they may be spelt, where they may stand, and what is said of one that is none."""

from __future__ import annotations

import pytest

from dslc.blocks.values.invalid import Invalid
from dslc.blocks.values.secret import backend_of, is_reference, valid_secret
from dslc.catalog import Catalog
from dslc.compiler import Compilation, analyse
from dslc.editing.format import canonical
from dslc.report import FORMATS
from dslc.source import Source

SPELLINGS = [
    ("secret://vault/hooks/slack#secret", "secret://vault/hooks/slack#secret", "vault"),
    ("vault://hooks/slack#secret", "secret://vault/hooks/slack#secret", "vault"),
    ("file://run/key", "secret://file/run/key", "file"),
    ("file:///run/secrets/key", "secret://file//run/secrets/key", "file"),
    ("secret://keyring/symbiont/github", "secret://keyring/symbiont/github", "keyring"),
]


def compiled(body: str) -> Compilation:
    return analyse([Source("main.symbiont", f'webhook w {{\n    path "/w"\n{body}}}\n')], Catalog.installed())


def codes(found: Compilation) -> list[str]:
    return [each.code for each in found.diagnostics]


@pytest.mark.parametrize(("written", "meant", "backend"), SPELLINGS)
def test_older_spellings_mean_the_same_and_are_no_literal(written: str, meant: str, backend: str) -> None:
    assert is_reference(written)
    assert valid_secret(written) == meant
    assert valid_secret(meant) == meant
    assert backend_of(written) == backend
    found = compiled(f'    secret "{written}"\n')
    assert codes(found) == []
    assert found.program.webhooks["w"].secret == (meant,)


@pytest.mark.parametrize("written", ["file://", "vault://", "file:// ", "vault://a\\u0001b"])
def test_a_reference_without_a_path_is_an_error(written: str) -> None:
    assert codes(compiled(f'    secret "{written}"\n'))[0].startswith("T4")
    if "\\" not in written:
        with pytest.raises(Invalid):
            valid_secret(written)


def test_a_file_is_laid_out_without_a_change_to_its_references() -> None:
    text = 'webhook w {\n    path   "/w"\n    secret ["vault://a#b", "file:///run/key", "secret://env/A"]\n}\n'
    assert canonical(text) == text


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ('"secret://env/TOKEN"', []),
        ('"file://token"', []),
        ('"hunter2"', ["P501"]),
        ('"secret://nowhere/TOKEN"', ["P503"]),
        ("hunter2", ["T401"]),
    ],
)
def test_a_providers_option_that_is_a_secret_is_held_to_the_same(value: str, code: list[str]) -> None:
    found = compiled(f'    provider meta {{ verify_token {value} }}\n    secret "secret://env/A"\n')
    assert codes(found) == code
    for render in FORMATS.values():
        assert "hunter2" not in render.render(found)


def test_a_reference_is_shown_in_a_report_and_a_literal_is_not() -> None:
    shown = FORMATS["text"].render(compiled('    secret "file://run/key" x "file://run/key"\n'))
    assert "file://run/key" in shown
    assert "hunter2" not in FORMATS["text"].render(compiled('    secret "hunter2" x 1\n'))
