"""Completions in texts that are being typed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dslc.language_server.completion import FIRST, block_snippet, setting_snippet, words_of
from dslc.parse import parse
from dslc.source import Source
from dslc.vocabulary import Vocabulary
from tests.dslc.catalogs import CATALOG
from tests.dslc.language_server.programs import accepted, items, labels

KINDS = ["memory", "webhook", "agent", "model", "mcp"]
WEBHOOK = ["path", "provider", "secret", "agent", "memory", "subject", "event", "filter", "limits", "allow_from",
           "concurrency", "public_url", "keep_body", "insecure_allow_unverified"]  # fmt: skip
TESTS = ["equals", "contains", "one_of", "exists", "matches"]
BACKENDS = [f"secret://{name}/" for name in ("credential", "env", "file", "generated", "vault")]


def _without(*names: str) -> list[str]:
    return [name for name in WEBHOOK if name not in names]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("|", KINDS),
        ("we|", KINDS),
        ("memory a {}\n|\nmemory b {}", KINDS),
        ("memory a {} |", KINDS),
        ("# a comment\n|", KINDS),
        ("policy p { allow 1 }\n|", KINDS),
        ("web|\nagent a {\n}\n", KINDS),
        ("webhook w |", []),
        ("webhook |", []),
    ],
)
def test_kinds_stand_at_the_top(text: str, expected: list[str]) -> None:
    assert labels(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("webhook w { | }", WEBHOOK),
        ("webhook w {\n    |\n}\n", WEBHOOK),
        ("webhook w {\n    |", WEBHOOK),
        ("webhook w {\n    |\nagent a {}\n", WEBHOOK),
        ('webhook w {\n    path "/a"\n    pro|\n}\n', _without("path")),
        ('webhook w {\n    |\n    path "/a"\n    agent x\n}\n', _without("path", "agent")),
        ('webhook w {\n    path "/a|b"\n}\n', []),
        ('webhook w {\n    path "/a", |\n}\n', _without("path")),
        ("webhook w {\n    filter { }\n    |\n}\n", WEBHOOK),  # it may be repeated
        ("webhook w {\n    limits { | }\n}\n", ["body", "per_minute"]),
        ("webhook w {\n    limits {\n        body 1MB\n        |\n", ["per_minute"]),
        ('webhook w {\n    filter {\n    json_path "$.a"\n    |\n    }\n}\n', [*TESTS, "any", "not"]),
        ('webhook w {\n    filter { json_path "$" equals 1 | }\n}\n', [*TESTS[1:], "any", "not"]),
        ("webhook w {\n    filter { not { | } }\n}\n", ["json_path", "header", *TESTS, "any", "not"]),
        ("webhook w {\n    filter { not { not { | } } }\n}\n", ["json_path", "header", *TESTS]),
        ("webhook w {\n    filter { any { | } }\n}\n", ["filter"]),
        ("webhook w\n{\n    |\n}\n", WEBHOOK),
        ("webhook w {\n    provider custom {\n        |\n    }\n}\n",
         ["header", "encoding", "timestamp_header", "event_header", "payload", "tolerance", "max_age"]),
        ("webhook w {\n    provider custom { tolerance 5m | }\n}\n",
         ["header", "encoding", "timestamp_header", "event_header", "payload"]),
        ("webhook w {\n    provider github { | }\n}\n", []),
        ("memory m {\n    store records { | }\n}\n", ["gates", "segment"]),
        ("memory m {\n    embedding remote { u| }\n}\n", ["url", "api_key"]),
        ("memory m {\n    summarize { | }\n}\n", ["model", "max_words"]),
        ("memory m {\n    summarize { model openai { | } }\n}\n", ["url", "headers", "window"]),
        ("agent a {\n    block persona { shared true | }\n}\n",
         ["description", "value", "char_limit", "read_only", "deliveries"]),
        ("agent a {\n    thread keyed { | }\n}\n", ["json_path", "separate_memory", "shared_data", "retention"]),
        ("model m {\n    service openai { headers { | } }\n}\n", []),
        ("unknown u { | }", []),
        ("policy p { | }", []),
        ("agent a(x: T) -> R { | }", []),
    ],
)  # fmt: skip
def test_settings_that_are_free_stand_in_a_body(text: str, expected: list[str]) -> None:
    assert sorted(labels(text)) == sorted(expected)


def test_what_a_body_needs_comes_first() -> None:
    assert labels("webhook w { | }")[0] == "path"
    assert labels("webhook w { filter { | } }")[0] == "json_path"
    assert labels('webhook w { filter { header "X-A" | } }')[: len(TESTS)] == TESTS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("webhook w { keep_body | }", ["false", "true"]),  # other values than the default first
        ("webhook w { insecure_allow_unverified t|", ["true", "false"]),
        (
            "webhook w {\n    provider |\n    path 1\n}",
            ["custom", "github", "headed", "stripe", "strict", "published", "keyed", "token"],
        ),
        (
            "webhook w { provider gi|thub }",
            ["custom", "github", "headed", "stripe", "strict", "published", "keyed", "token"],
        ),
        ("webhook w { provider custom { encoding | } }", ["hex", "base64"]),
        ("memory m { store | }", ["markdown", "records", "collection"]),
        ("memory m { summarize { model | } }", ["ollama", "openai", "none"]),
        ("agent a { model | }", ["ollama", "openai", "none"]),
        ("model m { service | }", ["ollama", "openai", "none"]),
        ("agent a { thread | }", ["one", "delivery", "keyed"]),
        ("agent a { tool_calling | }", ["json", "native"]),
        ("agent a { block | }", []),
        ("memory m { store records { gates [|] } }", ["tdd_proof", "review"]),
        ("memory m { store records { gates [review |] } }", ["tdd_proof"]),
        ("memory m { store records { gates | } }", []),  # the list's bracket comes first
        ("agent a { tools [search, re|] }", ["remember", "agent_memory_sql"]),
        ("mcp git {}\nagent a { tools [search, |] }", ["remember", "agent_memory_sql", "git.*"]),
        ("agent a { tools [\n    search\n    |\n", ["remember", "agent_memory_sql"]),
        ('agent a { instruction "a | b" }', []),
        ('agent a { instruction """\n    memory |\n    """ }', []),
        ("agent a { max_steps | }", ["10"]),
        ("webhook w { unknown | }", []),
    ],
)
def test_values_stand_behind_a_key(text: str, expected: list[str]) -> None:
    assert labels(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "webhook w { secret | }",
        'webhook w { secret "|" }',
        'webhook w { secret "|\n}',
        'webhook w { secret "secret://|" }',
        'webhook w { secret ["secret://env/A" "|"] }',
        'webhook w { secret "secret://e|nv/A" }',
        'memory m { embedding remote { api_key "|" } }',
        'model m { service openai { headers { X-Key "|" } } }',
        'model m { service openai { headers { "X.Key" "|" } } }',
    ],
)
def test_backends_stand_in_a_secret(text: str) -> None:
    assert labels(text) == BACKENDS


def test_a_chosen_backend_keeps_the_path_and_the_quotes() -> None:
    assert accepted('webhook w { secret "secret://e|nv/A" }', BACKENDS[4]) == 'webhook w { secret "secret://vault/A" }'
    assert accepted("webhook w { secret | }", BACKENDS[1]) == 'webhook w { secret "secret://env/" }'
    assert accepted('webhook w { secret "hun|ter2" }', BACKENDS[1]) == 'webhook w { secret "secret://env/" }'


def test_no_offer_shows_the_secret_that_stands_there() -> None:
    assert "hunter2" not in repr(items('webhook w { secret "hun|ter2" }'))


def test_durations_and_sizes_have_examples_within_their_bounds() -> None:
    assert labels("memory m { retention | }")[0] == "90d"
    assert set(labels("webhook w { provider custom { tolerance | } }")) == {"5m", "1s", "1h"}
    assert "1MiB" in labels("webhook w { limits { body | } }")


def test_names_of_all_files_stand_at_references() -> None:
    others = {
        "a": 'agent one {}\nagent "two.2" {}\n',
        "b": "agent broken {\n  memory\n",
        "c": "agent old(x: T) -> R {}\n",
    }
    assert labels("webhook w { agent | }", **others) == ["broken", "old", "one", "two.2"]
    assert labels("agent a { memory | }", **others) == []


def test_models_stand_beside_the_services_and_alone_where_only_they_may_be_named() -> None:
    other = "model fast { service ollama }\nmodel strong { service ollama }\n"
    assert labels("agent a { model | }", other=other) == ["fast", "strong", "ollama", "openai", "none"]
    assert labels("agent a { model | { } }", other=other) == ["ollama", "openai", "none"]
    assert labels("model m { fallback [strong, |] }", other=other) == ["fast", "m"]
    assert labels("model |", other="agent a { model quick }\nmodel b { fallback [ollama] }\n") == ["quick"]


def test_the_snippet_of_a_setting_offers_declared_models_before_the_services() -> None:
    other = "model fast { service ollama }\nmodel strong { service ollama }\n"
    chosen = next(item for item in items("agent a { | }", other=other) if item.label == "model")
    assert chosen.snippet == "model ${1|fast,strong,ollama,openai,none|}"


def test_a_group_with_a_name_may_be_given_again() -> None:
    assert "block" in labels("agent a { block persona {} | }")
    chosen = next(item for item in items("agent a { | }") if item.label == "block")
    assert chosen.snippet is not None
    assert chosen.snippet.startswith("block ${1:name} {")


def test_a_map_comes_with_a_place_for_a_name_and_a_value() -> None:
    chosen = next(item for item in items("model m { service openai { | } }") if item.label == "headers")
    assert chosen.snippet == 'headers {\n    ${1:X-Name} "$2"\n    $0\n}'


def test_a_name_gets_quotes_where_it_needs_them() -> None:
    other = 'agent "two.2" {}\n'
    assert accepted("webhook w { agent | }", "two.2", other=other) == 'webhook w { agent "two.2" }'
    assert accepted('webhook w { agent "t|" }', "two.2", other=other) == 'webhook w { agent "two.2" }'


def test_names_that_are_missing_stand_at_heads() -> None:
    others = {"a": 'webhook w { path "/a" agent reviewer memory notes }\nagent here {}\nwebhook v { agent here }\n'}
    assert labels("agent |", **others) == ["reviewer"]
    assert labels("memory n|", **others) == ["notes"]
    assert labels("webhook |", **others) == []


@pytest.mark.parametrize(
    "text", ["# |", "webhook w { # |\n}", "webhook w { // pa|th\n", "a # b |", 'memory m { path "x" # |\n}']
)
def test_comments_offer_nothing(text: str) -> None:
    assert labels(text) == []


def test_a_word_is_replaced_whole() -> None:
    assert accepted("webhook w { pro|vi }", "provider") == "webhook w { provider }"
    assert accepted('webhook w { "pro|vi" github }', "provider") == "webhook w { provider github }"
    assert accepted("webhook w { pro|vi github }", "provider", snippet=True) == "webhook w { provider github }"
    assert accepted("webhook w { keep_body fal|", "true") == "webhook w { keep_body true"


def test_what_a_variant_needs_comes_with_it() -> None:
    chosen = next(item for item in items("webhook w { provider st| }") if item.label == "strict")
    assert chosen.snippet is not None
    assert "audience" in chosen.snippet


def test_documentation_comes_along() -> None:
    chosen = next(item for item in items("memory m { | }") if item.label == "retention")
    assert "90d" in chosen.doc
    assert "How long" in chosen.doc


def _plain(snippet: str) -> str:
    """Return a snippet with its fields filled in as proposed."""
    text = re.sub(r"\$\{\d+\|([^,|]*)[^|]*\|\}", r"\1", snippet)
    text = re.sub(r"\$\{\d+:((?:\\.|[^}\\])*)\}", lambda match: re.sub(r"\\(.)", r"\1", match[1]), text)
    return re.sub(r"\$\d", "", text)


def test_every_snippet_is_a_program_without_syntax_errors() -> None:
    vocabulary = Vocabulary(CATALOG)
    for kind, settings in vocabulary.kinds.items():
        made = [block_snippet(kind, settings, lambda setting: words_of(setting, vocabulary))]
        made += [
            f"{kind} x {{\n{setting_snippet(setting, lambda one: words_of(one, vocabulary))}\n}}"
            for setting in settings.values()
        ]
        for snippet in made:
            assert parse(Source("a", _plain(snippet)), vocabulary).readable, snippet


def test_the_first_settings_of_a_block_exist() -> None:
    kinds = Vocabulary(CATALOG).kinds
    assert all(name in kinds[kind] for kind, names in FIRST.items() for name in names)


_TEXT = """\
webhook "w" { # é😀
 path "/a" secret ["secret://env/A" \"\"\"x
\"\"\"] provider custom { header 'x' } filter { equals 1 }
}
agent a {}
"""


@given(
    st.integers(0, len(_TEXT)), st.integers(0, len(_TEXT)), st.sampled_from(["", "{", "}", '"', '"""', "[", "x", "\n"])
)
def test_any_place_of_a_broken_text_can_be_asked_about(cursor: int, at: int, junk: str) -> None:
    text = _TEXT[:at] + junk + _TEXT[at:]
    for item in items(text[:cursor] + "|" + text[cursor:]):
        assert 0 <= item.start <= cursor <= max(item.end, cursor) <= len(text)
        assert "\n" not in text[item.start : item.end]
