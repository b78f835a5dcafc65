"""Hover texts for the word under the cursor."""

from __future__ import annotations

import pytest

from dslc.language_server.markdown import of_setting, plain
from dslc.setting import Setting
from tests.dslc.language_server.programs import said

_SECRET = "hunter2Zq"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("web|hook w {}", ["verifies requests"]),
        ("memory m { ret|ention 90d }", ["**retention**", "duration", "How long", "Default: `90d`"]),
        ("memory m { search { vector_weight| 0.7 } }", ["number", "at least `0`, at most `1`", "Default: `0.7`"]),
        ("memory m { retention 1|y }", ["`1y` is 365d6h", "How long"]),
        ("webhook w { limits { body 25|6KiB } }", ["262,144 bytes"]),
        ("webhook w { provider str|ipe }", ["**stripe**", "Signs timestamp, body"]),
        ("webhook w { provider custom { encoding| hex } }", ["Choices: `hex` or `base64`", "Default: `hex`"]),
        ("webhook w { provider custom { max_age| 5m } }", ["Needs: `timestamp_header`", "Excludes: `tolerance`"]),
        ("webhook w { filter { eq|uals 1 } }", ["Needs: one of `json_path` or `header`"]),
        ('webhook w { secret "secret://va|ult/x" }', ["**vault**"]),
        ('webhook w { secret "va|ult://x" }', ["**vault**"]),
        ("memory m { store records { gates| [] } }", ["list: word", "1 to 2 items"]),
        ("agent a { tools [sea|rch] }", ["**search**"]),
        ("memory m { summarize { max_|words 5 } }", ["**max_words**", "at least `1`, at most `5000`", "250"]),
        ("memory m { summarize { model ol|lama } }", ["**ollama**"]),
        ("memory m { summari|ze { max_words 5 } }", ["summarized"]),
        ("agent a { model ol|lama }", ["**ollama**"]),
        ("agent a { mod|el ollama }", ["variant with options, or name of model"]),
        ("agent a { block| persona {} }", ["**block**: groups, each with a name"]),
        ("agent a { block persona { char_|limit 5 } }", ["Default: `20_000`", "at least `1`, at most `1000000`"]),
        ("agent a { block per|sona {} }", ["**block**"]),
        ("agent a { thread key|ed { } }", ["**keyed**"]),
        ("model m { service openai { head|ers { } } }", ["map: header to string or secret"]),
        ("model m { service openai { headers { X-|Team } } }", ["**X-Team**"]),
        ('model m { service openai { headers { X-Key "secret://va|ult/x" } } }', ["**vault**"]),
        ('model m { service openai { headers { "X.T|eam" "core" } } }', ["**X.Team**"]),
        ('model m { service openai { headers { "X.Key" "secret://va|ult/x" } } }', ["**vault**"]),
        ('model m { service openai { headers { "X.Key" "hun|ter2" } } }', ["A secret that is written in the file"]),
        ("policy p { pa|th 1 }", []),
        ("unknown u { pa|th 1 }", []),
        ("# web|hook", []),
        ("webhook w { keep_body true | }", []),
    ],
)
def test_a_word_is_explained(text: str, expected: list[str]) -> None:
    markdown = said(text)
    assert bool(markdown) == bool(expected)
    assert [part for part in expected if part not in markdown] == []


@pytest.mark.parametrize(
    ("setting", "default"),
    [
        (Setting("max_characters", "integer", default=24_000), "24_000"),
        (Setting("headers", "string", default=["a", "b"], many=True), '["a", "b"]'),
        (Setting("model", "name", default="a.b"), '"a.b"'),
    ],
)
def test_a_default_is_shown_as_the_language_writes_it(setting: Setting, default: str) -> None:
    assert f"Default: `{default}`" in of_setting(setting)


def test_a_model_by_its_name_says_where_its_block_is() -> None:
    markdown = said("agent a { model fa|st }", other="model fast { service ollama }\n")
    assert "`model fast`, declared in untitled:other:1, used 1 time" in markdown


def test_a_reference_says_where_the_block_is_and_what_it_says() -> None:
    declared = f'# notes\nmemory notes {{\n    path "data/notes"\n    embedding remote {{ api_key "{_SECRET}" }}\n}}\n'
    markdown = said("agent a { memory no|tes }\nagent b { memory notes }", other=declared)
    assert "`memory notes`, declared in untitled:other:2, used 2 times" in markdown
    assert 'path "data/notes"' in markdown
    assert _SECRET not in markdown


def test_the_name_of_a_block_says_the_same() -> None:
    assert "used 1 time\n" in said("agent a { memory notes }\nmemory no|tes {}")
    assert "webhook w" in said('webhook "|w" {}')


@pytest.mark.parametrize(
    "text",
    [
        'secret "hunter|2Zq"',
        'secret ["hunter|2Zq"]',
        "secret 'hunter|2Zq'",
        "secret hunter|2Zq",
        'secret """hunter|2Zq"""',
    ],
)
def test_a_secret_in_the_file_is_not_shown(text: str) -> None:
    markdown = said(f"webhook w {{\n    {text}\n}}")
    assert _SECRET not in markdown
    assert "secret://" in markdown


def test_plain_text_has_no_marks_of_markdown() -> None:
    assert plain("**a** `b`  \n<https://c>\n```symbiont\nd\n```") == "a b\nhttps://c\nd\n"
