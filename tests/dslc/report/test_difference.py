"""The effects of a reload: every difference of two programs once, in the daemon's terms, without secrets."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from dslc.catalog import Catalog
from dslc.comparison.difference import Difference, difference
from dslc.comparison.report import render, render_json
from dslc.compiler import analyse
from dslc.diagnostics.diagnostic import is_error
from dslc.program import Program
from dslc.source import Source
from dslc.vocabulary import Vocabulary
from runtime.daemon.opening.resource_pool import Lease
from runtime.daemon.opening.secrets import Resolution
from runtime.daemon.program.generation import Generation, fallback_of
from runtime.memory import identity_of
from runtime.memory.memories import Memories
from runtime.secrets.secret import Secret
from runtime.webhooks.routing.route import RouteTable, build_route
from tests.cases import each_case
from tests.dslc.catalogs import CATALOG
from tests.dslc.test_cli import dslc

VOCABULARY = Vocabulary(CATALOG)

_OLD = """
memory agent-memory { retention 90d }
webhook github-events {
    path "/hooks/github"
    provider github
    secret "secret://env/GITHUB"
    agent reviewer
    filter { json_path "$.action" equals "opened" }
}
agent reviewer { memory agent-memory instruction "Review." }
agent old {}
"""


def program(text: str) -> Program:
    done = analyse([Source("main.symbiont", text)], CATALOG)
    assert not list(filter(is_error, done.diagnostics)), done.diagnostics
    return done.program


def between(old: str, new: str) -> Difference:
    return difference(program(old), program(new), VOCABULARY)


def lines(old: str, new: str) -> list[str]:
    """Return the text report without its summary."""
    return render(between(old, new), VOCABULARY, colour=False).splitlines()[:-1]


def changed(before: str, after: str, text: str = _OLD) -> list[str]:
    """Return the report if `before` in a program becomes `after`."""
    assert before in text
    return lines(text, text.replace(before, after))


def test_a_program_is_the_same_as_itself_whatever_its_layout() -> None:
    blocks = _OLD.strip().split("\n", 1)
    found = between(_OLD, f"# moved\n{blocks[1]}\n{blocks[0]} // at the end\n")
    assert found.same
    assert render(found, VOCABULARY, colour=False) == "no changes\n"


def test_what_is_added_changed_and_removed_has_a_line_each_with_its_place() -> None:
    new = _OLD.replace("90d", "30d").replace("agent old {}\n", "")
    new += 'webhook slack { path "/hooks/slack" provider stripe secret "secret://env/GITHUB" agent reviewer }\n'
    assert lines(_OLD, new) == [
        "+ webhook slack  /hooks/slack (main.symbiont:11)",
        "~ memory agent-memory: retention 90d → 30d",
        "    logs of days older than 30d are deleted within a day",
        "- agent old (main.symbiont:11)",
        "waiting deliveries for the agent `old` are stored as agent_gone and can be redelivered",
    ]
    assert render(between(_OLD, new), VOCABULARY, colour=False).endswith("\n1 added, 1 changed, 1 removed\n")


@each_case(
    ("before", "after", "said"),
    [
        ('"Review."', '"Review it."', 'agent reviewer: instruction "Review." → "Review it."'),
        ('instruction "Review."', "max_steps 3", 'agent reviewer: instruction "Review." → ""'),
        ('"opened"', '"closed"', 'webhook github-events: filter[0].equals "opened" → "closed"'),
        ('"opened"', "true", 'webhook github-events: filter[0].equals "opened" → true'),
        ("retention 90d", "search { vector_weight 0.5 }", "memory agent-memory: search.vector_weight 0.7 → 0.5"),
        ("retention 90d", "retention 1y", "memory agent-memory: retention 90d → 365d6h"),
        ("provider github", "provider stripe", "webhook github-events: provider github → stripe"),
        (
            "provider github",
            'provider custom { header "X" }',
            'webhook github-events: provider github → custom { header "X" }',
        ),
        ("agent reviewer\n", "agent reviewer\n limits { body 1MB }", "webhook github-events: limits.body unset → 1MB"),
        (
            'filter { json_path "$.action" equals "opened" }',
            "",
            'webhook github-events: filter[0] { json_path "$.action" equals "opened" } → unset',
        ),
        (
            'filter { json_path "$.action" equals "opened" }',
            'filter { json_path "$.action" equals "opened" } filter { json_path "$.a" contains "b" }',
            'webhook github-events: filter[1] unset → { json_path "$.a" contains "b" }',
        ),
    ],
)
def test_a_setting_that_changed_is_named_with_both_values(before: str, after: str, said: str) -> None:
    assert f"~ {said}" in changed(before, after)


def test_options_of_a_variant_are_compared_one_by_one() -> None:
    text = 'webhook w { path "/w" provider custom { header "X" } secret "secret://env/A" }'
    assert changed('header "X"', "tolerance 1m", text) == [
        '~ webhook w: provider.header "X" → "X-Signature" (default)',
        "~ webhook w: provider.tolerance 5m (default) → 1m",
    ]


def test_groups_with_a_name_are_compared_by_it() -> None:
    text = 'agent a { block persona { value "x" } block human {} }'
    assert changed('persona { value "x" } block human {}', 'human {} block persona { value "y" }', text) == [
        '~ agent a: block.persona.value "x" → "y"'
    ]
    assert changed("block human {}", "block notes { shared true }", text) == [
        '~ agent a: block unset → notes { description "" value "" char_limit 20_000 read_only false shared true }',
        '~ agent a: block human { description "" value "" char_limit 20_000 read_only false shared false } → unset',
    ]


def test_groups_with_a_name_in_another_order_are_one_change() -> None:
    text = "agent a { block persona {} block notes {} }"
    assert changed("persona {} block notes", "notes {} block persona", text) == [
        "~ agent a: block: only the order changed"
    ]


def test_a_map_is_compared_key_by_key() -> None:
    text = 'model m { service openai { headers { X-A "1" X-B "2" X-Api-Key "hunter2" } } }'
    assert changed('"1" X-B "2" X-Api-Key "hunter2"', '"3" X-C "4" X-Api-Key "hunter3"', text) == [
        '~ model m: service.headers.X-A "1" → "3"',
        '~ model m: service.headers.X-C unset → "4"',
        "~ model m: service.headers.X-Api-Key: a literal changed",
        '~ model m: service.headers.X-B "2" → unset',
    ]


def test_a_key_and_a_name_that_are_no_words_are_shown_in_quotes() -> None:
    text = 'model m { service openai { headers { "X.A" "1" } } }\nagent a { model m block "a.b" { value "x" } }'
    assert changed('"X.A" "1"', '"X.A" "2"', text) == ['~ model m: service.headers."X.A" "1" → "2"']
    assert changed('"x"', '"y"', text) == ['~ agent a: block."a.b".value "x" → "y"']


def test_another_service_of_a_model_is_that_of_the_next_summaries() -> None:
    text = "model m { service ollama }\nmemory a { summarize { model m } }\n"
    assert lines(text, text.replace("ollama", "openai"))[:2] == [
        "~ model m: service ollama → openai",
        "    the next summaries of `a` use this service",
    ]


def test_filters_in_another_order_are_one_change() -> None:
    filters = ['filter { json_path "$.a" equals 1 }', 'filter { json_path "$.b" equals 2 }']
    text = f'webhook w {{ path "/w" secret "secret://env/A" {" ".join(filters)} }}'
    assert changed(" ".join(filters), " ".join(reversed(filters)), text) == [
        "~ webhook w: filter: only the order changed"
    ]


@pytest.mark.parametrize("value", ["true", '"1"', "2"])
def test_one_is_not_true(value: str) -> None:
    text = 'webhook w { path "/w" secret "secret://env/A" filter { json_path "$.a" equals 1 } }'
    shown = f"~ webhook w: filter[0].equals 1 → {value}"
    assert changed("equals 1", f"equals {value}", text) == [shown]


def test_of_long_texts_the_part_that_differs_is_shown() -> None:
    text = f'agent a {{ instruction "{"very " * 50}old{" end" * 50}" }}'
    (line,) = changed("old", "new\\nline", text)
    assert "old end" in line
    assert "new\\nline end" in line
    assert len(line) < 240


_EMBEDDED_AGAIN = "    all items are embedded again in the background; until then they are found only by keyword"
_LITERALS = """
memory m { embedding remote { url "https://example.org" api_key "hunter2" } }
webhook w { path "/w" secret "correct horse" }
webhook v { path "/v" secret ["battery staple", "secret://env/B"] }
"""


def test_a_literal_secret_is_compared_and_never_shown() -> None:
    new = _LITERALS.replace("hunter2", "hunter3").replace("correct horse", "other horse")
    new = new.replace('["battery staple", "secret://env/B"]', '"new staple"')
    found = between(_LITERALS, new)
    said = render(found, VOCABULARY, colour=False)
    assert said.splitlines()[:-1] == [
        "~ memory m: embedding.api_key: a literal changed",
        "~ webhook w: secret: a literal changed",
        '~ webhook v: secret [a literal, "secret://env/B"] → a literal',
    ]
    for shown in (said, render_json(found), repr(found)):
        assert not any(word in shown for word in ("hunter", "horse", "staple"))


def test_a_literal_in_a_variant_that_came_or_went_is_not_shown() -> None:
    bare = "memory m {}"
    with_key = 'memory m { embedding remote { url "https://example.org" api_key "hunter2" } }'
    assert lines(bare, with_key) == [
        '~ memory m: embedding unset → remote { url "https://example.org" api_key a literal }',
        _EMBEDDED_AGAIN,
    ]
    for old, new in ((bare, with_key), (with_key, bare)):
        assert "hunter2" not in render_json(between(old, new))


def test_json_has_every_difference() -> None:
    new = _OLD.replace("90d", "30d").replace("agent old {}", 'webhook x { path "/x" secret "secret://env/X" }')
    found = json.loads(render_json(between(_OLD, new)))
    assert (found["version"], found["same"]) == (1, False)
    assert found["added"] == [
        {
            "kind": "webhook",
            "name": "x",
            "origin": "main.symbiont:11",
            "effects": ["mounted only if `secret://env/X` resolves"],
        }
    ]
    assert found["changed"] == [
        {
            "kind": "memory",
            "name": "agent-memory",
            "origin": "main.symbiont:2",
            "changes": [{"setting": "retention", "old": "90d", "new": "30d"}],
            "effects": ["logs of days older than 30d are deleted within a day"],
        }
    ]
    assert found["removed"] == [{"kind": "agent", "name": "old", "origin": "main.symbiont:11", "effects": []}]
    assert found["effects"] == [
        "waiting deliveries for the agent `old` are stored as agent_gone and can be redelivered"
    ]


# Effects of a reload


def test_a_changed_path_unmounts_one_route_and_mounts_another() -> None:
    assert changed('"/hooks/github"', '"/hooks/gh"') == [
        '~ webhook github-events: path "/hooks/github" → "/hooks/gh"',
        "    `/hooks/github` answers 404",
        "    `/hooks/gh` is mounted",
    ]


def test_a_renamed_webhook_keeps_its_path_mounted() -> None:
    said = changed("webhook github-events", "webhook gh")
    assert said[0].startswith("+ webhook gh  /hooks/github")
    assert said[1].startswith("- webhook github-events  /hooks/github")
    assert said[2:] == ["    `/hooks/github` is answered by the webhook `gh`"]


def test_a_secret_that_was_not_there_before_has_to_resolve() -> None:
    assert changed('"secret://env/GITHUB"', '["secret://env/GITHUB", "vault://new"]') == [
        '~ webhook github-events: secret "secret://env/GITHUB" → ["secret://env/GITHUB", "secret://vault/new"]',
        "    mounted only if `secret://vault/new` resolves",
    ]


def test_giving_up_verification_is_said() -> None:
    said = changed('secret "secret://env/GITHUB"', "insecure_allow_unverified true")
    assert "    unsigned requests are accepted" in said


@each_case(
    ("old", "new", "again"),
    [
        ('ollama { model "a" }', 'ollama { model "b" }', True),
        ("hashing { dimension 64 }", "hashing { dimension 65 }", True),
        ("hashing", "local", True),
        ('openai { api_key "secret://env/A" }', 'openai { api_key "secret://env/B" }', False),
    ],
)
def test_another_model_embeds_everything_again(old: str, new: str, again: bool) -> None:
    effects = _effects(f"memory m {{ embedding {old} }}", f"memory m {{ embedding {new} }}")
    assert effects == ((_EMBEDDED_AGAIN.strip(),) if again else ())


def _effects(old: str, new: str) -> tuple[str, ...]:
    """Return the effects of a reload on the only block that differs between two programs with the installed rows."""
    catalog = Catalog.installed()
    before, after = (analyse([Source("main.symbiont", text)], catalog).program for text in (old, new))
    found = difference(before, after, Vocabulary(catalog))
    (entry,) = (*found.added, *found.changed, *found.removed)
    return entry.effects


_SERVER = 'command ["server"] env { TOKEN "secret://env/A" }'
_AGAIN = "nothing starts it until `symbi mcp-server approve s` approves it again"


@each_case(
    ("old", "new", "effects"),
    [
        (None, _SERVER, ("nothing starts it until `symbi mcp-server approve s` approves it",)),
        (None, 'url "https://a.example"', ("nothing connects to it until `symbi mcp-server approve s` approves it",)),
        (_SERVER, 'command ["other"] env { TOKEN "secret://env/A" }', (_AGAIN,)),
        (_SERVER, 'command ["server"] env { TOKEN "secret://env/B" }', (_AGAIN,)),
        (_SERVER, f"{_SERVER} timeout 5s trust_hints true", ()),
        (_SERVER, None, ("agents have none of its tools any more (`s.*`)",)),
    ],
)
def test_a_server_waits_for_a_person(old: str | None, new: str | None, effects: tuple[str, ...]) -> None:
    assert _effects(*("" if each is None else f"mcp s {{ {each} }}" for each in (old, new))) == effects


_URL = 'url "secret://env/A"'


@each_case(
    ("old", "new", "again"),
    [
        ("", f"index postgres {{ {_URL} }}", True),
        (f"index postgres {{ {_URL} }}", 'index qdrant { url "http://127.0.0.1:6333" }', True),
        (f"index postgres {{ {_URL} }}", 'index postgres { url "secret://env/B" }', True),
        (f"index postgres {{ {_URL} }}", f'index postgres {{ {_URL} schema "other" }}', True),
        (f"index postgres {{ {_URL} }}", f"index postgres {{ {_URL} pool 2 exact true }}", False),
        ("index embedded", "", False),
    ],
)
def test_another_index_is_built_again(old: str, new: str, again: bool) -> None:
    effects = _effects(f"memory m {{ {old} }}", f"memory m {{ {new} }}")
    assert effects == (("the index is rebuilt from the store in the background",) if again else ())


@each_case(
    ("before", "after", "deleted"),
    [
        ("retention 90d", "retention 30d", True),
        ("retention 90d", "retention 1y", False),
        ("retention 90d", "retention 2160h", False),
        ("retention 90d", "store markdown", False),
        ('path "a"', 'path "a" retention 30d', True),
        ("store collection", "store collection retention 30d", True),
        ("store collection retention 30d", "store collection retention 60d", False),
        ("store collection retention 30d", "store collection", False),
        ('path "a" retention 90d', 'path "b" retention 30d', False),
    ],
)
def test_a_shorter_retention_says_that_logs_are_deleted(before: str, after: str, deleted: bool) -> None:
    found = between(f"memory m {{ {before} }}", f"memory m {{ {after} }}")
    said = [effect for entry in found.changed for effect in entry.effects if "deleted" in effect]
    what = "episodic items" if "collection" in after else "logs of days"
    assert said == ([f"{what} older than 30d are deleted within a day"] if deleted else [])


def test_what_waits_stays_with_its_agent() -> None:
    said = changed("agent reviewer\n", "agent old\n")
    assert said[1:] == ["    new deliveries go to `old`; waiting deliveries stay with `reviewer`"]


def test_an_agent_that_is_only_named_still_records() -> None:
    removed = _OLD.replace('agent reviewer { memory agent-memory instruction "Review." }', "")
    assert lines(_OLD, removed) == [
        "- agent reviewer (main.symbiont:10)",
        "    a webhook still names it: it records with the default settings",
    ]


def test_what_arrives_for_a_disabled_agent_waits() -> None:
    said = changed('instruction "Review."', 'instruction "Review." enabled false')
    assert said[1:] == ["    deliveries for it are stored as agent_gone and can be redelivered"]


def test_a_changed_folder_leaves_the_old_one_alone() -> None:
    assert changed("retention 90d", 'path "elsewhere"') == [
        '~ memory agent-memory: path "data/agents" → "elsewhere"',
        "    opens the store at `elsewhere`",
        "    the data of the markdown store at `data/agents` stays there",
    ]


def test_a_renamed_memory_keeps_what_it_has() -> None:
    old, new = 'memory a { path "p" }', 'memory b { path "./p" }'
    assert lines(old, new)[-1] == "    the data of the markdown store at `p` is now used by the memory `b`"


def test_a_second_memory_changes_which_one_is_implied() -> None:
    text = 'memory one { path "one" }\nwebhook w { path "/w" secret "secret://env/A" agent a }\n'
    said = lines(text, text + 'memory two { path "two" }\n')
    assert said[1:] == ["`a` names no memory: `default` is used instead of `one`"]


def test_a_webhook_that_wakes_nobody_any_more_only_keeps() -> None:
    head = 'path "/hooks/github" secret "secret://env/A"'
    keeps, wakes = f"webhook w {{ {head} }}", f"webhook w {{ {head} agent reviewer }}"
    assert lines(keeps, wakes)[-1] == "    new deliveries go to `reviewer`"
    said = lines(wakes, keeps)
    assert "    new deliveries are only stored; waiting deliveries stay with `reviewer`" in said
    assert said[-1] == "waiting deliveries for the agent `reviewer` are stored as agent_gone and can be redelivered"


_PROGRAMS = [
    _OLD,
    _LITERALS,
    "",
    'webhook a { path "/hooks/github" secret "x" }',
    'webhook a { path "/a" secret "x" agent n memory m }\nmemory m { path "./data//agents" }',
    'memory m { path "other" }\nmemory default { path "d" }\nwebhook w { path "/v" secret "x" agent reviewer }',
    'webhook w { path "/w" secret "x" memory d }\nmemory d {}\nwebhook v { path "/v" secret "x" agent old }',
    'memory m { path "other" }\nmemory n { path "data/agents/" }\nwebhook w { path "/v" secret "x" agent reviewer }',
]
_PAIRS = [(old, new) for old in _PROGRAMS for new in _PROGRAMS]


def _generation(of: Program) -> Generation:
    secret = Secret(b"0123456789abcdef", "test")
    mounts = {
        name: build_route(webhook, origin="", secrets=[secret], problem=None) for name, webhook in of.webhooks.items()
    }
    opened: Any = dict.fromkeys(of.memories)
    found = opened if len(opened) == 1 else opened | {"default": None}
    unused: Any = None
    fallback = fallback_of(of, Path("/"))
    woken = (webhook.wakes for webhook in of.webhooks.values())
    return Generation(
        number=1,
        program=of,
        mounts=MappingProxyType(mounts),
        table=RouteTable.of(mounts.values()),
        memories=Memories(of, found, fallback=fallback, open_collection=unused, lock=asyncio.Lock()),
        models=unused,
        servers=unused,
        recall=unused,
        tasks=unused,
        folders=(),
        agents=frozenset((*of.agents, *filter(None, woken))),
        resolution=Resolution(),
        concurrency={},
        warnings=(),
        _lease=Lease(),
    )


@each_case("pair", _PAIRS)
def test_what_is_said_of_paths_agents_and_memories_is_what_the_daemon_does(pair: tuple[str, str]) -> None:
    old, new = pair
    before, after = _generation(program(old)), _generation(program(new))
    found = difference(before.program, after.program, VOCABULARY)
    said = [effect for entry in (*found.added, *found.changed, *found.removed) for effect in entry.effects]
    gone = {path for path in before.table.by_path if path not in after.table.by_path}
    assert {line.split("`")[1] for line in said if line.endswith("answers 404")} == gone
    heirs = {line.split("`")[1]: line.split("`")[3] for line in said if "is answered by" in line}
    assert all(after.table.by_path[path].name == heir for path, heir in heirs.items())
    names = {*before.program.agents, *(route.agent for route in before.table.by_path.values() if route.agent)}
    lost = {name for name in names if before.agent(name) and not after.agent(name)}
    assert {line.split("`")[1] for line in found.effects if "agent_gone" in line} == lost
    moved = {
        name
        for name in names - lost
        if (agent := before.agent(name)) and agent.memory is None
        if (agent := after.agent(name)) and agent.memory is None
        if all(_wakes_without_memory(name, each) for each in (before, after))
        if before.memories.name_of(name) != after.memories.name_of(name)
    }
    lines_of_memory = [line for line in found.effects if "no memory" in line]
    assert {part for line in lines_of_memory for part in line.partition(" no memory")[0].split("`")[1::2]} == moved


def _wakes_without_memory(agent: str, generation: Generation) -> bool:
    webhooks = generation.program.webhooks
    return any(entry.agent == agent and webhooks[name].memory is None for name, entry in generation.mounts.items())


@each_case(("old", "new"), _PAIRS)
def test_a_store_that_stays_behind_is_none_that_the_new_program_opens(old: str, new: str, tmp_path: Path) -> None:
    opened = {identity_of(memory, tmp_path) for memory in program(new).memories.values()}
    for entry in (*between(old, new).changed, *between(old, new).removed):
        if entry.kind == "memory" and any(effect.endswith("stays there") for effect in entry.effects):
            assert identity_of(program(old).memories[entry.name], tmp_path) not in opened


@each_case("pair", _PAIRS)
def test_programs_that_are_equal_do_not_differ_and_others_do(pair: tuple[str, str]) -> None:
    old, new = pair
    assert between(old, new).same is (program(old) == program(new))


# The command

_FILE = 'webhook w {\n    path   "/w"\n    secret "secret://env/A"\n}\n'


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a.symbiont").write_text(_FILE)
    (tmp_path / "new.symbiont").write_text(_FILE.replace('"/w"', '"/v"'))
    return tmp_path


def test_the_same_exits_0_and_a_difference_3(files: Path) -> None:
    done = dslc("diff", "old", "old/a.symbiont", cwd=files)
    assert (done.returncode, done.stdout, done.stderr) == (0, "no changes\n", "")
    done = dslc("diff", "old", "new.symbiont", cwd=files)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith('~ webhook w: path "/w" → "/v"\n')


@pytest.mark.parametrize("arguments", [["old", "-"], ["-", "old"]])
def test_one_side_may_be_standard_input(arguments: list[str], files: Path) -> None:
    assert dslc("diff", *arguments, cwd=files, stdin=_FILE).returncode == 0
    assert dslc("diff", *arguments, "--json", cwd=files, stdin="").returncode == 3


@pytest.mark.parametrize("arguments", [["old", "nowhere"], ["-", "-"], ["old"], ["old", "old", "--frobnicate"]])
def test_what_cannot_run_exits_2_and_is_one_object_all_the_same(arguments: list[str], files: Path) -> None:
    done = dslc("diff", *arguments, cwd=files)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("dslc: ")
    found = dslc("diff", *arguments, "--json", cwd=files)
    assert found.returncode == 2
    assert set(json.loads(found.stdout)) == {"version", "same", "added", "changed", "removed", "effects", "failure"}


def test_errors_are_reported_apart_and_exit_1(files: Path) -> None:
    (files / "bad.symbiont").write_text("memory m { retention 90 }\n")
    done = dslc("diff", "old", "bad.symbiont", cwd=files)
    assert (done.returncode, done.stdout) == (1, "")
    assert "T401" in done.stderr
    found = dslc("diff", "bad.symbiont", "bad.symbiont", "--json", cwd=files)
    assert found.returncode == 1
    assert json.loads(found.stdout)["failure"] == "OLD and NEW have errors"


def test_no_literal_secret_leaves_the_command(files: Path) -> None:
    (files / "literal.symbiont").write_text(_FILE.replace("secret://env/A", "hunter2"))
    for arguments in (["old", "literal.symbiont"], ["literal.symbiont", "new.symbiont", "--json"]):
        done = dslc("diff", *arguments, cwd=files)
        assert done.returncode == 3
        assert "hunter2" not in done.stdout + done.stderr


def test_a_source_cannot_send_escapes_to_the_terminal(files: Path) -> None:
    text = 'agent a { instruction "a\\u001bb\\u202ec" }\n'
    (files / "odd.symbiont").write_text(text)
    (files / "even.symbiont").write_text(text.replace("b", "d"))
    done = dslc("diff", "odd.symbiont", "even.symbiont", cwd=files)
    assert done.returncode == 3
    assert not {"\x1b", "\u202e"} & set(done.stdout)


def test_colour_is_for_terminals(files: Path) -> None:
    command = [sys.executable, "-c", "from dslc.cli import main; main()", "diff", "old", "new.symbiont"]
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    for more, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        ours, theirs = pty.openpty()
        done = subprocess.run(command, cwd=files, stdout=theirs, env=environment | more, timeout=60, check=False)
        os.close(theirs)
        shown = os.read(ours, 10_000)
        os.close(ours)
        assert done.returncode == 3
        assert (b"\x1b[33m~" in shown) is coloured
