"""The schema of a compiled program accepts the output of `dslc compile`, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.diagnostics.diagnostic import is_error
from dslc.json_schema import schema
from dslc.program import BLOCK_FIELDS
from dslc.report.program import render
from dslc.source import Source
from dslc.vocabulary import Vocabulary
from tests.cases import each_case
from tests.dslc.catalogs import BLOCKS, CATALOG
from tests.dslc.test_cli import dslc
from tests.dslc.test_reference import CATALOGS, EVERY_SETTING, INSTALLED, SettingExample
from tests.lanes import first_of

ROOT = Path(__file__).parents[2]
GOLDEN = sorted((ROOT / "tests" / "golden" / "dslc").glob("*/program.json"))
TESTS = Vocabulary(CATALOG)
SCHEMAS = {which: schema(vocabulary) for which, vocabulary in CATALOGS.items()}
VALIDATORS = {which: Draft202012Validator(found) for which, found in SCHEMAS.items()}

_EVERYTHING = """
memory m {
    store records { gates [tdd_proof review] segment 5KB }
    path "data/m"
    search { vector_weight 0.25 keyword_weight 0.75 }
    embedding remote { url "https://example.org" api_key "kept here" }
}
memory logs { path "data/logs" retention 1y2h30m }
webhook w {
    path "/hooks/w"
    provider custom { encoding base64 timestamp_header "X-Time" event_header "X-Event" max_age 1h30m }
    secret ["vault://a/b#c", "secret://env/B"]
    agent a
    memory m
    filter { json_path "$.a" equals 1.5 }
    filter { json_path "$.b" equals true contains "x" }
    filter {
        any { filter { header "X-A" one_of ["a", 1] } }
        not { json_path "$.c" exists true not { json_path "$.d" matches "e" } }
    }
    limits { body 1MiB per_minute 60 }
    event ["a", "b.c"]
    allow_from ["192.0.2.0/24", "2001:db8::1"]
    concurrency 4
    public_url "https://example.org/w"
    keep_body false
}
webhook unverified { path "/open" provider github insecure_allow_unverified true }
agent a { memory m model ollama instruction "Do." tools [search "local.*" "service.a"] context { max_tokens 8000 }
    enabled false thread keyed { json_path "$.a" }
    block persona { value "Brief." } block human {} summarizer { model fast }
}
model fast { service openai { headers { X-Team "core" } } fallback [slow] window 8192 }
model slow { service ollama input_price 0.5 }
mcp local { command ["server" "-v"] env { A_TOKEN "kept here" MODE "quiet" } timeout 5s }
mcp service { url "https://example.org/mcp" token "secret://env/T" headers { X-Team "core" } }
"""


def printed(text: str, vocabulary: Vocabulary = TESTS) -> Any:
    """Return the output of `dslc compile` for a program."""
    done = analyse([Source("program", text)], vocabulary.catalog)
    assert not list(filter(is_error, done.diagnostics)), done.diagnostics
    return json.loads(render(done.program, vocabulary))


def problems(document: Any, which: str = "tests") -> list[str]:
    """Return the schema's errors for a document."""
    return [each.message for each in VALIDATORS[which].iter_errors(document)]


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMAS["installed"])


@each_case("path", GOLDEN)
def test_it_takes_every_golden_program(path: Path) -> None:
    assert problems(json.loads(path.read_text(encoding="utf-8"))) == []


def test_it_takes_what_compile_prints_of_the_examples(tmp_path: Path) -> None:
    done = dslc("compile", str(ROOT / "examples"), cwd=tmp_path)
    assert problems(json.loads(done.stdout), "installed") == []


@each_case("example", EVERY_SETTING)
def test_it_takes_every_setting(example: SettingExample) -> None:
    assert problems(printed(example.text, CATALOGS[example.catalog]), example.catalog) == []


def test_it_takes_a_program_that_says_everything() -> None:
    assert problems(printed(_EVERYTHING)) == []


def test_it_takes_a_template_that_signs_only_values_of_the_body() -> None:
    text = 'webhook w { path "/w" secret "secret://env/S" provider custom { payload "{json:$.data.id}" } }'
    assert problems(printed(text, CATALOGS["installed"]), "installed") == []


def test_a_catalogue_without_rows_leaves_the_defaults() -> None:
    bare = Draft202012Validator(schema(Vocabulary(Catalog({}, BLOCKS))))
    document = printed("memory m {} agent a {}", Vocabulary(Catalog({}, BLOCKS)))
    assert bare.is_valid(document)
    document["memories"]["m"]["index"] = {"name": "qdrant", "options": {}}
    assert not bare.is_valid(document)


def _nodes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _nodes(inner, (*path, key))


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def _alone(path: tuple[Any, ...]) -> Any:
    """Return a copy of the program that says everything with no other block than the one that `path` leads into."""
    if len(path) < 2 or path[0] not in BLOCK_FIELDS:
        return copy.deepcopy(_WHOLE)
    empty: dict[str, Any] = {name: {} for name in BLOCK_FIELDS}
    found = {**_WHOLE, **empty, path[0]: {path[1]: _WHOLE[path[0]][path[1]]} if path[1] in _WHOLE[path[0]] else {}}
    return copy.deepcopy(found)


def _takes(path: tuple[Any, ...], value: Any) -> bool:
    """True if the schema takes a program with another value at a path."""
    changed = _alone(path)
    if path:
        _at(changed, path[:-1])[path[-1]] = value
    return VALIDATORS["tests"].is_valid(changed if path else value)


_WHOLE = printed(_EVERYTHING)
_PATHS = list(_nodes(_WHOLE))
_OBJECTS = [path for path in _PATHS if isinstance(_at(_WHOLE, path), dict)]


def test_an_unknown_key_is_refused_wherever_it_stands() -> None:
    taken = [path for path in _OBJECTS if _takes((*path, "surprise"), 1)]
    assert taken == []


def test_a_missing_key_is_refused_but_for_blocks_and_options() -> None:
    free = {(field,) for field in BLOCK_FIELDS} | {
        path for path in _OBJECTS if path[-1:] in {("options",), ("headers",), ("env",)}
    }
    for path in _OBJECTS:
        for key in _at(_WHOLE, path):
            changed = _alone((*path, key))
            del _at(changed, path)[key]
            needed = path not in free or key in {"url", "timestamp_header", "json_path"}
            assert VALIDATORS["tests"].is_valid(changed) is not needed, (path, key)


@first_of("value", [{"surprise": 1}, [[]], [None]])
def test_another_type_is_refused_wherever_it_stands(value: Any) -> None:
    taken = [path for path in _PATHS if _takes(path, value)]
    assert taken == []


def test_null_stands_only_where_a_setting_has_no_value() -> None:
    free = {path for path in _PATHS if _takes(path, None)}
    taken = {".".join(map(str, path[2:])) for path in free if "filter" not in path}
    assert taken == {
        *("embedding", "agent", "memory", "public_url", "limits.body", "limits.per_minute", "model"),
        *("context.reply_tokens", "summarizer.model", "index", "concurrency"),
        *("limits.tokens_per_day", "limits.cost_per_day", "limits.runs_per_hour", "limits.at_limit"),
        *("window", "reply_tokens", "input_price", "output_price"),
        *("command", "url", "token"),
        *("summarize.model", "summarize.max_words", "block.0.deliveries", "block.1.deliveries", "subject.json_path"),
    }
    # The conditions of a filter that need a value to compare.
    said = {".".join(map(str, path[2:])) for path in free if "filter" in path and _at(_WHOLE, path) is not None}
    assert said == {"filter.1.equals", "filter.1.contains"}


_WRONG: list[tuple[str, Any]] = [
    ("version", 2),
    *(("memories.logs.retention", value) for value in ["90", "1h1d", "0d", "24h", "1.5d", "1000ms", "", "1w", 90]),
    *(("webhooks.w.path", value) for value in ["hooks", "/v1/x", "/mcp", "//a", "/a/../b", "/a b", "/a?b", "/%zz"]),
    *(("webhooks.w.secret", value) for value in [[], ["hunter2"], ["secret://nowhere/x"], ["secret://env/"], "x"]),
    ("webhooks.unverified.secret", ["secret://env/A"]),
    ("webhooks.w.provider", "custom"),
    ("webhooks.w.provider", {"name": "github", "options": {"header": "X"}}),
    ("webhooks.w.provider", {"name": "nobody", "options": {}}),
    ("webhooks.w.provider", {"name": "strict", "options": {}}),
    ("webhooks.w.provider.options.encoding", "base32"),
    ("webhooks.w.provider.options.header", ""),
    ("webhooks.w.provider.options.tolerance", "5m"),
    ("webhooks.w.limits.body", "1MiB"),
    ("webhooks.w.limits.body", 0),
    ("webhooks.w.limits.body", 2**63),
    ("webhooks.w.limits.per_minute", 1.5),
    ("webhooks.w.filter.0.json_path", "a"),
    ("webhooks.w.filter.0.equals", None),
    ("webhooks.w.public_url", "ftp://example.org"),
    ("memories.m.path", ""),
    ("memories.m.search.vector_weight", 1.1),
    ("memories.m.store.options.gates", []),
    ("memories.m.store.options.segment", 1_000_001),
    ("memories.m.name", "no name"),
    ("agents.a.memory", ".."),
    ("agents.a.max_steps", 0),
    ("agents.a.max_steps", True),
    ("agents.a.tools", ["hammer"]),
    ("agents.a.model", {"name": "any model", "options": {}}),
    ("agents.a.model", {"name": "any-model", "options": {"a": 1}}),
    ("agents.a.block.0.name", "no name"),
    ("agents.a.block.0.char_limit", 0),
    ("agents.a.thread", {"name": "many", "options": {}}),
    ("models.fast.service", {"name": "any-model", "options": {}}),
    ("models.fast.service.options.headers.X-Team", "a\nb"),
    ("models.fast.temperature", 2.1),
    ("models.fast.fallback", ["no name"]),
    ("agents.a.model", {"name": "ollama", "options": {"a": 1}}),
    ("mcp_servers.local.command", None),
    ("mcp_servers.local.url", "https://example.org/mcp"),
    ("mcp_servers.local.env.A-B", "x"),
    ("mcp_servers.local.env.MODE", "a\0b"),
    ("mcp_servers.service.env.MODE", "quiet"),
    ("mcp_servers.service.token", "hunter2"),
    ("mcp_servers.service.trust_hints", 1),
]


@each_case("case", _WRONG)
def test_what_no_program_can_say_is_refused(case: tuple[str, Any]) -> None:
    place, value = case
    path = tuple(int(key) if key.isdigit() else key for key in place.split("."))
    assert not _takes(path, value)


def test_a_name_no_block_can_have_is_refused() -> None:
    assert not _takes(("agents", "no name"), _WHOLE["agents"]["a"])


def test_every_setting_is_described() -> None:
    for kind, settings in INSTALLED.kinds.items():
        properties = SCHEMAS["installed"]["$defs"][kind]["properties"]
        assert all(setting.doc in properties[name]["description"] for name, setting in settings.items())


def test_the_command_prints_the_schema_of_this_installation(tmp_path: Path) -> None:
    done = dslc("schema", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == SCHEMAS["installed"]
