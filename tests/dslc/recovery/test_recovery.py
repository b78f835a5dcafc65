"""After a mistake the rest is read as intended: every mistake is reported once, and its neighbours are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from lark import Token

from dslc.catalog import Catalog
from dslc.compiler import Compilation, analyse
from dslc.diagnostics.diagnostic import Diagnostic, Severity, is_error
from dslc.editing.format import canonical
from dslc.program import BLOCK_FIELDS
from dslc.source import Source
from dslc.syntax.lark_parser import tokens
from dslc.vocabulary import Vocabulary
from dslc.workspace import Workspace
from tests.dslc.catalogs import CATALOG
from tests.dslc.programs import BOM, write
from tests.lanes import first_of

_SEEDS = range(8)
_ANSWERS = Path(__file__).parents[2] / "golden" / "recovery.txt"
_USUAL = '''# GitHub tells us about pull requests.
memory "agent-memory" {
    store     records { gates [tdd_proof, review] segment 10KB }
    path      "data/agents"
    search {
        vector_weight  0.7
        keyword_weight 0.3
    }
}

memory logs { path "data/logs" retention 1y6months }

webhook "github-events" {
    path     "/hooks/github"
    provider custom {
        header "X-Sig"
        encoding base64
    }
    secret   ["secret://vault/github", "secret://env/OLD"]
    agent    code-review-agent
    memory   agent-memory
    filter {
        json_path "$.action"
        equals    "opened"
    }
    filter { json_path "$.n" equals 7 }
    limits { body 1.5MB per_minute 10_000 }
}

webhook stripe {
    path "/hooks/stripe", provider stripe
    secret "secret://env/STRIPE"
    agent code-review-agent
    memory logs
}

agent code-review-agent {
    memory      agent-memory
    instruction """
        You review.
        """
    tools [search remember]
    max_steps 5
}
'''


def _program(seed: int, *, comments: bool = False) -> str:
    return write(seed, comments=comments).removeprefix(BOM)


def _compiled(text: str) -> Compilation:
    return analyse([Source("a", text)], CATALOG)


def _blocks(done: Compilation) -> dict[tuple[str, str], object]:
    return {
        (kind, name): block
        for field, kind in BLOCK_FIELDS.items()
        for name, block in getattr(done.program, field).items()
    }


def _lines(done: Compilation, diagnostic: Diagnostic) -> tuple[int, str]:
    """Return the line of a diagnostic, and the text that it marks."""
    source = done.sources[0]
    span = diagnostic.span
    return source.position(span.start).line, source.data[span.start : span.end].decode()


@dataclass
class _Deletion:
    token: Token
    line: int
    before: Compilation
    after: Compilation

    @property
    def new(self) -> list[Diagnostic]:
        """Return the errors of the program without the token; with it there are none."""
        return [found for found in self.after.diagnostics if is_error(found)]

    @property
    def is_named(self) -> bool:
        """Return whether an error is on the token's line or at a brace."""
        places = [_lines(self.after, found) for found in self.new]
        return any(line == self.line or at in {"{", "["} for line, at in places)


def _deletions(text: str) -> Iterator[_Deletion]:
    """Yield the program without each of its necessary tokens: a token is skipped if the rest is still a program, or the
    same one with one list item less."""
    before = _compiled(text)
    assert not any(map(is_error, before.diagnostics)), before.diagnostics
    depth = 0
    for token in tokens(text):
        depth += (token.type == "LSQB") - (token.type == "RSQB")
        item = depth > 0 and token.type != "LSQB"
        if token.type in {"_NL", "_COMMA"} or item:
            continue
        start, end = token.start_pos or 0, token.end_pos or 0
        after = _compiled(text[:start] + text[end:])
        yield _Deletion(token, text.count("\n", 0, start) + 1, before, after)


@cache
def _canonical_deletions(seed: int) -> Sequence[_Deletion]:
    return tuple(_deletions(canonical(_program(seed))))


@first_of("seed", _SEEDS, 2)
def test_one_missing_token_gives_an_error_at_its_place_and_few_others(seed: int) -> None:
    tried = _canonical_deletions(seed)
    assert [(str(each.token), each.line) for each in tried if not each.is_named] == []
    few = sum(len(each.new) <= 3 for each in tried)
    assert few >= 0.95 * len(tried), [
        (str(each.token), each.line, len(each.new)) for each in tried if len(each.new) > 3
    ]
    assert sum(len(each.new) == 1 for each in tried) >= 0.9 * len(tried)


def test_one_missing_token_of_a_usual_program_gives_one_error() -> None:
    tried = list(_deletions(_USUAL))
    assert [(str(each.token), each.line) for each in tried if not each.is_named] == []
    assert [(str(each.token), each.line, len(each.new)) for each in tried if len(each.new) > 2] == []
    assert sum(len(each.new) == 1 for each in tried) >= 0.97 * len(tried)


@first_of("seed", _SEEDS, 2)
def test_whatever_the_layout_one_missing_token_is_noticed(seed: int) -> None:
    """Without indentation, a missing brace may cause more than three errors."""
    tried = list(_deletions(_program(seed + 100, comments=True)))
    assert [str(each.token) for each in tried if not each.new] == []
    others = [each for each in tried if each.token not in {"{", "}"}]
    assert sum(len(each.new) <= 3 for each in others) >= 0.95 * len(others)


@first_of("seed", _SEEDS, 2)
def test_blocks_beside_a_broken_one_are_kept(seed: int) -> None:
    text = canonical(_program(seed))
    heads = [at for at, line in _line_starts(text) if line[:1].isalpha()]
    for each in _canonical_deletions(seed):
        at = each.token.start_pos or 0
        broken = sum(head <= at for head in heads) - 1
        kept, now = _blocks(each.before), _blocks(each.after)
        names = [name for head in heads for name in kept if _is_head(text, head, name)]
        lost = [name for number, name in enumerate(names) if number != broken and now.get(name) != kept[name]]
        assert lost == [], (str(each.token), each.line)


def _line_starts(text: str) -> Iterator[tuple[int, str]]:
    at = 0
    for line in text.splitlines(keepends=True):
        yield at, line
        at += len(line)


def _is_head(text: str, at: int, name: tuple[str, str]) -> bool:
    head = text[at : text.index("{", at)].split()
    return head == [name[0], name[1]] or head == [name[0], f'"{name[1]}"']


def test_six_mistakes_are_six_diagnostics_each_at_its_place() -> None:
    text = (
        "memory m { retention 90d }\n"
        "webhook w {\n"
        '    path "/x\n'
        '    secret = "secret://env/A"\n'
        "    agent: foo\n"
        '    filter { json_path equals "opened" }\n'
        "}\n"
        "}\n"
        "agent foo { instruction 'x' }\n"
    )
    done = _compiled(text)
    found = [(diagnostic.code, _lines(done, diagnostic)[0]) for diagnostic in done.diagnostics]
    assert found == [("S102", 3), ("S105", 4), ("S105", 5), ("S101", 6), ("S104", 8), ("S106", 9)]


_WEBHOOK = 'webhook w {\n    path "/w"\n    secret "secret://env/A"\n'
_V = _WEBHOOK.replace("w {", "v {").replace("/w", "/v")
_X = "agent x {}\n"


CASES: list[tuple[str, int]] = [
    ("memory m\n{\n}\n", 1),
    ("memory m {\n    path\n        \"/x\"\n}\n", 1),
    (f"{_WEBHOOK}}}\n}}\n}}\n", 2),
    (f"{_WEBHOOK}    }}\n    keep_body true\n}}\n", 1),
    (f'{_WEBHOOK}    filter {{\n        json_path "$.a"\n        equals 1\n    agent x\n}}\n{_X}', 1),
    (f'{_WEBHOOK}    filter {{ json_path "$.a" equals 1\n    agent x\n}}\n{_X}', 1),
    (f"{_WEBHOOK}\nmemory m {{}}\n{_X}{_V}    agent x\n}}\n", 1),
    ('memory m {\n    path "a }\nmemory n { path "b" }\n', 1),
    ('webhook w { path "/w" secret "secret://env/A }\nmemory m {}\n', 1),
    (f'{_WEBHOOK}    agent a\n}}\nagent a {{\n    instruction """\n    Be kind.\n}}\nmemory m {{}}\n', 1),
    ("agent a {\n    tools [search, remember\n    max_steps 1\n}\n" + f"{_WEBHOOK}    agent a\n}}\n", 1),
    (f'{_WEBHOOK}    "keep_body": true\n}}\n', 1),
    (f"{_WEBHOOK}    agent team/reviewer\n}}\n", 1),
    ('webhook w {\n    path "/w"\n    secret secret://env/A\n}\n', 1),
    ("memory = m {\n}\n", 1),
    ("memory m {\n    search = { vector_weight = 0.7 keyword_weight: 0.3 }\n}\n", 3),
    ("memry m {\n    retension 90d\n}\n" + f"{_WEBHOOK}    memory m\n}}\n", 2),
    ("pipeline p(x: T) -> U {\n    stages = [a, b]\n    'c' {\n}}\n", 1),
    ("webhook w {\n    pth \"/w\"\n    secret \"secret://env/A\"\n}\n", 1),
    ("memory m {\n    serch { vector_weight 7 }\n}\n", 2),
    ("memory {\n}\n" + f"{_WEBHOOK}    memory m\n}}\n", 1),
    ("agent\n", 1),
    ("policy p(\n", 1),
    ("policy p { allow: x\n", 1),
    ("memory m {}\nretention 90d\n", 1),
    ("{\n    path \"/x\"\n}\nmemory m {}\n", 1),
    ("memory m { retention 90 days }\n", 1),
    ("memory m { retention 1h 30m path \"x\" }\n", 1),
    ("memory m {\n    retention 1 year 6 months\n}\n", 1),
    (f"{_WEBHOOK}    limits {{ body 1 MB }}\n}}\n", 1),
    ("memory m { search { vector_weight 70% keyword_weight 0,3 } }\n", 2),
    ("agent a {\n    tools search, remember\n}\n", 1),
    ("agent a {\n    tools search remember\n}\n", 1),
    ("agent a {\n    tools memory recall\n}\n", 1),
    ("agent a {\n    tools (search remember)\n}\n", 1),
    ("agent a {\n    instruction You review pull requests\n}\n", 1),
    ("agent a {\n    instruction You review (path \"x\"), don't you?\n    max_steps 3\n}\n", 1),
    ("agent a {\n    instruction \'\'\'\n        You review.\n        Be kind.\n        \'\'\'\n}\n", 1),
    ("agent a {\n    instruction 'Don't shout.'\n}\n", 1),
    ("agent a {\n    instruction `Be kind.`\n}\n", 1),
    ("agent a { instruction “be kind and good” model «ollama» }\n", 2),
    (f"{_WEBHOOK}    filter {{ json_path '$.a' equals 'b' }}\n}}\n", 2),
    *((f"memory m {{ path {sign} \"x\" }}\n", 1) for sign in ("->", "=>", ":=", "==", ";", ",,")),
    *((f"memory m {{ path {sign} \"x\" }}\n", 1) for sign in ("-", "—", "is")),
    ("webhook w {\n\nagent a {}\n", 1),
    (f"{_WEBHOOK}    filter {{\n}}\nagent a {{}}\n", 1),
    (f"{_WEBHOOK}    agent a {{\n        max_steps 3\n    }}\n}}\n", 1),
    *((f"memory m {{\n    path{glued}\n}}\n", 1) for glued in ("(\"x\")", " (\"x\")")),
    ("memory m {\n    path \"x\";\n    retention 90d;\n    search {};\n};\n", 4),
    (f"{_WEBHOOK}    filter {{ json_path $.a[0].b equals \"b\" }}\n}}\n", 1),
    *((f'webhook w {{\n    path "/w"\n    secret {it}\n}}\n', 1) for it in ('env("A")', "${A}", "a b")),
    ('webhook w {\n    path "/w"\n    secret a b c\n}\n', 1),
    ("agent a {\n    instruction You review code\n    max_steps 3\n}\n", 1),
    (f"{_WEBHOOK}    agent code reviewer\n}}\nagent code {{}}\n", 1),
    ("agent a {\n    instruction \"You review.\n        Be kind.\"\n    max_steps 3\n}\n", 1),
    ("agent a {\n    instruction \"You.\n   Don't {x}\n    Say: no\n    \"\n    max_steps 3\n}\n", 1),
    ("agent a {\n    instruction \"You review.\n        In C:\\\\\"\n    max_steps 3\n}\n", 1),
    ("agent a {\n    instruction \"You review.\n        Say \\\"hi\\\".\"\n    max_steps 3\n}\n", 1),
    (f'{_WEBHOOK}    public_url "http://x\n    agent a\n}}\nagent a {{ instruction "y" }}\n', 1),
    ('webhook w {\n    path "/w"\n    secret "-----A B\n    b = c d\n    E"\n}\n', 1),
    ('webhook w {\n    path "/w"\n    secret\n    hunter2 = x\n}\n', 1),
    ('webhook w {\n    path "/w"\n    secret\n    hunter2 { x y }\n    keep_body true\n}\n', 1),
    ('webhook w { path "/w"\n  secret [\n    "secret://env/A,\n    "secret://env/B"\n  ]\n}\n', 1),
    (f"{_WEBHOOK}    filter [\n        {{ json_path \"$.a\" equals 1 }},\n        {{}}\n    ]\n}}\n", 1),
    (f"{_WEBHOOK}    agent\n        a\n    keep_body true\n}}\nagent a {{}}\n", 1),
    ("memory m {\n    path path \"x\"\n}\n", 1),
    (f"{_WEBHOOK}    agent agent a\n}}\nagent a {{}}\n", 1),
    ("memory m { {\n    path \"x\"\n}\n", 1),
    ("memory m {\n    {\n    path \"x\"\n}\n", 1),
    ("memory m {\n    path \"x\"\n)\n", 1),
    ("memory m {\n    path \"x\"\nend\n", 1),
    ("memory m {\n    search {\n    }\n        vector_weight 0.7 keyword_weight 0.3\n    }\n}\n", 1),
    *((f"memory {name} {{\n    path \"x\"\n}}\n{_WEBHOOK}    memory team-mem\n}}\n", 1)
      for name in ("team/mem", "team mem", "gedächtnis", "m@x")),
    *((f"agent {name} {{}}\n{_WEBHOOK}    agent \"{name}\"\n}}\n", 1) for name in ("a.b", "2nd")),
    ("/* our\n  hooks { */\nmemory m {}\n", 1),
    (f"{_WEBHOOK}    /* a\n    b c */\n    -- d e\n}}\n", 2),
    (f"{_WEBHOOK}<<<<<<< a\n    agent a\n=======\n    agent b\n>>>>>>> b\n}}\n", 1),
    ("<<<<<<< a\nmemory m {}\n=======\nmemory m {}\n>>>>>>> b\nmemory n {}\n", 1),
    ("version = 1\n", 1),
    ("TODO: fix this\nmemory m {}\n", 1),
    ("path \"/x\"\nsecret = \"secret://env/A\"\nagent: a\nmemory m {}\n", 1),
    ("memory m\n    path \"x\"\n    retention 90d\n\nagent a {}\n", 1),
    (f"{_WEBHOOK}    AKIAX==\n}}\n", 1),
    # Quotes inside of prose, around words and signs that have a meaning outside of it.
    *((f"agent a {{\n    instruction \"{prose}\"\n    max_steps 3\n}}\n", 1)
      for prose in ('Use the "memory" well', 'Look for "$.a" in it', 'Say "max_steps 5" to him',
                    '"a", "b" or "memory".', 'It is {"model": "x"}', 'See "http://x/y#z" there')),
    *((f"{_WEBHOOK}    {line}\n}}\n", 1) for line in ("; a b", "% a b", "<!-- a -->")),
    (f"{_WEBHOOK}    foo: bar\n}}\n", 2),
    ("memry m {\n    path= \"x\"\n}\n", 2),
    (f"{_WEBHOOK}    if true {{\n    keep_body true\n}}\n", 1),
    (f"{_WEBHOOK}    keep_body true {{\n    limits {{}}\n}}\n", 1),
    # Values in brackets and quotes, and after words, of other languages.
    *((f"memory m {{\n    path {it}\n}}\n", 1)
      for it in ('{ "x" }', '<"x">', '{"x"}', '""data/x""', 'data/x"')),
    ("agent a {\n    tools { search, remember }\n}\n", 1),
    (f"{_WEBHOOK}    provider is github\n    keep_body\n    true\n}}\n", 2),
    # Groups with a name, maps, and a model that is a setting or a block.
    ("agent a {\n    block persona\n    {\n        value \"x\"\n    }\n    max_steps 3\n}\n", 1),
    ("agent a {\n    block persona = {\n        value \"x\"\n    }\n    max_steps 3\n}\n", 1),
    ("agent a {\n    block persona\n        value \"x\"\n    max_steps 3\n}\n", 2),
    ("agent a {\n    block context { value = \"x\" }\n    block value {}\n}\n", 1),
    ("agent a {\n    blok persona { value \"x\" }\n    max_steps 3\n}\n", 1),
    ("agent a {\n    block persona {\n        value \"x\"\n\nagent b {}\n", 2),
    ("agent a {\nmodel openai {\nurl \"https://x.org\"\n}\nmax_steps 3\n\nagent b {}\n", 1),
    ("agent a {\n    max_steps 3\n\nmodel fast {\n    service ollama\n}\n", 1),
    *((f"model m {{\n    service openai {{\n        headers{sign} {{ X-Team {value} }}\n    }}\n}}\n", 1)
      for sign, value in (("", "= \"x\""), ("", "core"), (" =", "\"x\""), ("", "'x'"), ("", "a b"))),
    *((f"model m {{\n    service openai {{\n        headers {{\n{inner}\n        }}\n    }}\n}}\n", 1)
      for inner in ("\"X.A\" \"1\" \"X-B\" \"2\"\nX-C = \"3\"", "\"X-A\": \"1\"", "'X-A' \"1\"", "\"X-A\" \"1",
                    "\"X-A\"\nX-B \"2\"", "\"X-A\" core",
                    "X-A \"1\" X-B \"2\"\nX-C = \"3\"", "X-A\nX-B \"2\"", "X-A \"1\" ]\nX-B \"2\"", "X-A \"1\" \"2\"")),
    ("model m {\n    service openai { heders { \"X.A\" \"1\" } }\n}\n", 1),
    ("agent a {\n    context { \"max_tokens\" 9000 }\n    \"max_steps\" 3\n}\n", 2),
    ("agent a {\n    contxt { \"max_tokens\" 9000 }\n}\n", 2),
    # Bodies in other brackets.
    *((f"{_WEBHOOK}    limits {opened}\n        per_minute 6\n    {closed}\n    keep_body true\n}}\n", 1)
      for opened, closed in (("do", "end"), ("begin", "end"), ("(", ")"), ("<", ">"), ("then", "fi"))),
    (f"{_WEBHOOK}    limits [\n        per_minute 6\n    ]\n    keep_body true\n}}\n", 1),
    *((f"memory m {opened}\npath \"x\"\nretention 90d\n{closed}\n{_WEBHOOK}}}\n", 1)
      for opened, closed in (("do", "end"), ("(", ")"), ("[", "]"))),
    *((f"{_WEBHOOK}limits {sign}\nper_minute 6\n}}\n}}\n", 1) for sign in (":", "=>", "->")),
    *((f"memory m {sign} {{\n    path \"x\"\n}}\n", 1) for sign in ("=", ":", "=>")),
    (f"{_WEBHOOK}    limits => {{ per_minute 6 }}\n}}\n", 1),
    # Heads that are repeated or have an extra word.
    *((f"{head} {{\n    path \"x\"\n}}\n", 1) for head in ("new memory m", 'resource "memory" "m"')),
    *((f"{head} {{\n    path \"x\"\n}}\n", 1) for head in ('memory "m', 'memory m"', "memory 'm\"")),
    ('agent "say "x" now" {}\n', 1),
    ('memory name="m" {\n    path "x"\n}\n', 1),
    ("memory m {\nmemory m {\n    path \"x\"\n}\n", 1),
    (f"{_WEBHOOK}    limits {{\n    limits {{\n        per_minute 6\n    }}\n}}\n", 1),
    ("memory {\n    name m\n    path \"x\"\n}\n", 1),
    ("memory {\n    m {\n        path \"x\"\n    }\n}\n", 1),
    # Blocks of other languages.
    *((f"{head}\npath = \"x\"\nretention = 90d\n\n[memory.m.search]\nvector_weight = 1\n{_X}", 1)
      for head in ("[memory.m]", '[memory."m"]', "[memory m]", "[[memory]]")),
    *((f"{head}\n    path: \"x\"\n    search:\n      vector_weight: 1\n\nagent a {{}}\n", 1)
      for head in ("memory:\n  m:", "memories:\n  - name: m", "- memory: m", "m:")),
    *((f"{head} {{\n    x\n}}\n{_X}", 1)
      for head in ("agent y(a,\n b) -> T", "agent y(\n a\n) -> T", "function f(a,\n b)")),
    *((f"{head} {{\n    x\n}}\n{_X}", 1)
      for head in ("agent y(a)\n -> T", "agent y(a)\n", "function f(a)\n  -> T\n", "policy p\n", "agent y<T>(a)")),
    ("agent y(a: T -> V {\n    return a\n}\n", 1),
    # Levels.
    *((f"{_WEBHOOK}" + f"{opened} " * 70 + f"{closed}" * 70 + f"\n}}\n{_X}", 1)
      for opened, closed in (("x {", "}"), ("limits {", "}"), ("x {", ""))),
    *((f"{_WEBHOOK}" + "".join(f"{' ' * n * step}x {{\n" for n in range(70)) + f"\n}}\n{_X}", 1)
      for step in (0, 2)),
    (f'{_WEBHOOK}    filter {{ json_path equals "opened" }}\n}}\n', 1),
    ("agent a {\n    tools search, remember]\n}\n" + f"{_WEBHOOK}    agent a\n}}\n", 1),
    # Brackets in comments and strings.
    (f'{_WEBHOOK}    concurrency 4 # [\n    filter [ {{ json_path "$.a" equals 1 }}, {{ json_path "$.b" }} ]\n}}\n', 1),
    # Layouts without indentation.
    ("memory m {\npath \"x\"\nsearch {\nvector_weight 0.7\nkeyword_weight 0.3\n}\n" + _X, 1),
]  # fmt: skip
"""Texts, with the number of mistakes in each."""
_IN_GENERAL_WORDS = [
    "agent a {\n    model openai\n    thread keyed \"$.customer\"\n}\n",
    "agent a {\n    tools\n      - search\n      - remember\n    max_steps 3\n}\n",
    f"{_WEBHOOK}    limits:\n        per_minute 6\n        body 1MB\n    keep_body true\n}}\n",
    "agent a:\n    max_steps: 3\n    context:\n      max_tokens: 9000\nagent b:\n    max_steps: 3",
    "agent a {\n    instruction <<EOF\nYou review.\nBe kind.\nEOF\n    max_steps 3\n}\n",
    "agent a {\n    instruction |\n      You review.\n\n      Be kind.\n    max_steps 3\n}\n",
    f"{_WEBHOOK}    limits per_minute 60\n}}\n",
    *(f"{_WEBHOOK}    {line}\n}}\n" for line in ("TODO write this", "keep body true", "let keep_body true")),
    "memory\nm {\n    path \"x\"\n}\n",
    f'{_WEBHOOK}    filter {{ json_path "$.a equals "opened" }}\n}}\n',
    f'memory "team-\n    mem" {{\n    path "x"\n}}\n{_WEBHOOK}    memory team-mem\n}}\n',
]  # fmt: skip
"""Texts with a mistake that is rare: a few diagnostics may report it, the first one at its place."""


def _said(text: str) -> list[str]:
    """Return the report of a text and its mistakes: the position, the message and the hint of each."""
    done = _compiled(text)
    said = []
    for found in done.diagnostics:
        idle = found.code == "R303"  # not a mistake: a setting for a model, which the agent lacks
        if not idle and (found.severity is not Severity.NOTE or found.code == "N207"):
            (line, at), start = _lines(done, found), done.sources[0].position(found.span.start)
            said.append(f"{line}:{start.column} {found.code} at {at[:40]!r}: {found.message} | {found.hint}")
    return said


def test_one_mistake_gives_one_diagnostic() -> None:
    assert [(text, _said(text)) for text, mistakes in CASES if len(_said(text)) != mistakes] == []


def test_a_rare_mistake_gives_few_diagnostics() -> None:
    assert [(text, _said(text)) for text in _IN_GENERAL_WORDS if not 0 < len(_said(text)) < 8] == []


@pytest.mark.parametrize("text", ['"v0:{timestamp}.{body}', 'v0:{timestamp}.{body}"', '{timestamp}.{body}"'])
def test_a_template_without_one_of_its_quotes_is_one_mistake(text: str) -> None:
    provider = f'provider custom {{\n        timestamp_header "X-T"\n        payload {text}\n    }}'
    program = f'webhook w {{\n    path "/w"\n    {provider}\n    secret "secret://env/S"\n    agent x\n}}\n{_X}'
    (found,) = analyse([Source("program.symbiont", program)], Catalog.installed()).diagnostics
    assert found.code in {"S102", "S110"}


def test_every_mistake_is_named_at_its_place_with_a_way_out() -> None:
    """The expected reports are in a file: `UPDATE_GOLDEN=1` rewrites it; read it before it is committed."""
    parts = [
        f"{text.rstrip()}\n" + "".join(f"    = {line}\n" for line in _said(text))
        for text in (*(text for text, _ in CASES), *_IN_GENERAL_WORDS)
        if len(text) < 400
    ]
    said = f"\n{'-' * 40}\n".join(parts)
    if os.environ.get("UPDATE_GOLDEN"):
        _ANSWERS.write_text(said, encoding="utf-8")
    assert said == _ANSWERS.read_text(encoding="utf-8")


def test_nobody_is_said_to_be_missing_who_may_stand_in_what_was_not_understood() -> None:
    text = _WEBHOOK + "    agent reviewer\n}\nagnt reviewer = x {\n}\n"
    assert "R301" not in {found.code for found in _compiled(text).diagnostics}


@pytest.mark.parametrize("head", ["agent a(x: T) -> U", 'agent "a" (x: Map<K,\n  V>)'])
def test_an_agent_of_the_wider_language_counts_as_declared(head: str) -> None:
    done = _compiled(f'{head} {{ with memory = "}}" {{ /* ' + "' */ }\n}\n" + f"{_WEBHOOK}    agent a\n}}\n")
    assert [found.code for found in done.diagnostics] == ["N207"]


_MEMBERS = {
    "policy": "policy P {\n        allow: read(x)\n        deny: delete(y)\n    }",
    "function": 'function f(a: String) -> Result<String> {\n        if a { return "}"; } else { return b; }\n    }',
    "both": "policy x { allow: read; } function f(a: String) -> String { model a; }",
    "sandbox": 'with sandbox = "docker", timeout = "10.seconds" {\n    }',
    "capabilities": "capabilities :  [hello,wave  ]",
}


@pytest.mark.parametrize("above", ["", "capabilities: [read, write]\n    ", "// memory m {\n    "])
@pytest.mark.parametrize("member", _MEMBERS)
def test_an_agent_of_the_wider_language_without_arguments_is_one_note(member: str, above: str) -> None:
    done = _compiled(f"agent a {{\n    {above}{_MEMBERS[member]}\n}}\n{_WEBHOOK}    agent a\n}}\n")
    assert [found.code for found in done.diagnostics] == ["N207"]
    assert list(done.program.webhooks) == ["w"]


@pytest.mark.parametrize("member", _MEMBERS)
@pytest.mark.parametrize("setting", ['instruction "Remember."', 'instruction: "Remember."', "model = ollama"])
def test_an_agent_with_a_setting_of_this_language_is_never_skipped(member: str, setting: str) -> None:
    for body in (f"{setting}\n    {_MEMBERS[member]}", f"{_MEMBERS[member]}\n    {setting}"):
        done = _compiled(f"agent a {{\n    {body}\n}}\n")
        assert "N207" not in {found.code for found in done.diagnostics}
        assert any(map(is_error, done.diagnostics))


@pytest.mark.parametrize(
    "text",
    [
        "agent a {\n    block b {\n        policy p {\n        }\n    }\n}\n",
        'agent a {\n    instruction "\n    policy p {"\n}\n',
        "agent a {\n    function f\n    policy p [\n    ]\n}\n",
        "agent a {\n    thread main\n\npolicy p {\n    allow: x\n}\n",
    ],
)
def test_an_agent_with_mistakes_is_not_one_of_the_wider_language(text: str) -> None:
    done = _compiled(text)
    assert not any(found.code == "N207" and "agent" in found.message for found in done.diagnostics)
    assert any(map(is_error, done.diagnostics))


def test_an_unclosed_block_of_the_wider_language_is_one_error_that_points_at_the_next_block() -> None:
    done = _compiled("policy open {\n    allow: x\nmemory m {}\n")
    (found,) = (each for each in done.diagnostics if is_error(each))
    assert (found.code, found.hint, [label.message for label in found.labels]) == (
        "S103",
        "add `}` before line 3",
        ["the next block begins here"],
    )
    assert list(done.program.memories) == ["m"]


def test_the_line_of_a_missing_brace_is_right_if_another_brace_is_in_a_string() -> None:
    block = 'webhook w {\n    path "/w"\n    secret "secret://env/A"\n    filter { equals "x "a} b"\n}\n'
    workspace = Workspace(Vocabulary(CATALOG))
    for above in range(3):
        workspace.put(Source("a", "\n" * above + block))
        (hint,) = (found.hint for found in workspace.diagnostics("a") if found.code == "S103")
        assert hint == f"add `}}` before line {5 + above}"


def test_the_wider_language_is_skipped_whole_and_its_neighbours_compile() -> None:
    text = (
        'metadata {\n    version = "1.4.0"\n    tags = ["a", "b"]\n}\n'
        'webhook slack_alerts {\n    path     "/hooks/slack",\n    provider github,\n'
        '    secret   "vault://webhooks/slack/secret"\n    agent    handler\n'
        '    filter {\n        json_path "$.type"\n        equals    "alert"\n    }\n}\n'
        "agent handler(body: JSON) -> Maybe<Alert> {\n"
        '    policy guard {\n        allow: ["parse"] if body.source == "slack" || body.x.ends("}")\n    }\n'
        "    with\n        timeout = 5000\n    {\n        let s = vault://webhooks/slack/secret;\n"
        "        // it's {\n        return None;\n    }\n}\n"
        "type DataSource = {\n    url: String\n}\ntype UserId = String\n"
        "function f(a: int,\n    b: int) -> Result<String> { return a; }\n"
        'schedule daily { cron: "0 9 * * *" }\nchannel c { platform = "slack" }\n'
    )
    done = _compiled(text)
    assert {found.code for found in done.diagnostics} == {"N207"}
    assert len(done.diagnostics) == 7
    assert list(done.program.webhooks) == ["slack_alerts"]
    assert done.program.webhooks["slack_alerts"].secret == ("secret://vault/webhooks/slack/secret",)


def test_a_file_with_a_thousand_mistakes_is_given_up_and_nothing_is_said_to_be_missing() -> None:
    done = _compiled("x\n" * 2000 + f"{_WEBHOOK}    agent nobody\n}}\n")
    assert len(done.diagnostics) == 1000
    assert {found.code for found in done.diagnostics} == {"S111"}
