"""A name in quotes is the same name as without them."""

from __future__ import annotations

import pytest

from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.source import Source

_WEBHOOK = 'webhook w { path "/w" secret "secret://env/A" agent a }\n'
_KEYLESS = """
webhook w {
    path "/w"
    provider %s { audience "https://x.example" service_account "a@b.example" }
    agent a
}
"""


def _codes(text: str) -> list[str]:
    return [found.code for found in analyse([Source("page", text)], Catalog.installed()).diagnostics]


@pytest.mark.parametrize(
    ("text", "name", "codes"),
    [
        (f"{_WEBHOOK}agent a {{ model %s max_steps 5 }}", "none", ["R303"]),
        ("agent a { model %s }", "none", ["R302"]),
        ("memory m { store %s retention 90d }\nagent a { model ollama }", "records", ["T405"]),
        ('memory m { store %s path "m" }\nagent a { model ollama }', "collection", ["T405"]),
        (f"{_KEYLESS}agent a {{}}", "google-pubsub", []),
        (f"{_WEBHOOK}agent a {{ model ollama block %s {{}} block x {{}} }}", "x", ["N203"]),
        (f'{_WEBHOOK}agent a {{ model ollama block %s {{ char_limit 1 value "ab" }} }}', "x", ["T405"]),
        (f"{_WEBHOOK}agent a {{ model m }}\nmodel m {{ service ollama fallback [%s] }}", "m", ["T405"]),
    ],
)
def test_a_name_in_quotes_is_checked_as_the_bare_one(text: str, name: str, codes: list[str]) -> None:
    assert _codes(text % name) == codes
    assert _codes(text % f'"{name}"') == codes


def test_a_wrong_group_before_another_one_of_its_name_is_reported_too() -> None:
    text = f'{_WEBHOOK}agent a {{ model ollama block x {{ colour 1 }} block x {{ char_limit 1 value "ab" }} }}'
    assert _codes(text) == ["N202", "N203"]
