"""Definitions extracted from a tree-sitter tree equal those of the compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tree_sitter import Tree

from dslc.blocks.block import Block
from dslc.catalog import Catalog
from dslc.compiler import analyse
from dslc.extract import extract_memory_definitions, extract_webhook_definitions
from dslc.source import Source
from grammar.language import parse

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.symbiont"))

OF_THE_DESIGN = """
memory "agent-memory" {
    store    markdown
    path     "data/agents"
    retention 90d
    search {
        vector_weight  0.7
        keyword_weight 0.3
    }
}

webhook "github-events" {
    path     "/hooks/github"
    provider github
    secret   "secret://vault/github-webhook-secret"
    agent    code-review-agent
    filter {
        json_path "$.action"
        equals    "opened"
    }
}
"""

Extract = Callable[[Tree, str | bytes], Sequence[Block]]
EITHER: list[Extract] = [extract_memory_definitions, extract_webhook_definitions]


def _same_as_compiled(text: str | bytes) -> None:
    program = analyse([Source("file", text)], Catalog.installed()).program
    tree = parse(text)
    assert extract_memory_definitions(tree, text) == list(program.memories.values())
    assert extract_webhook_definitions(tree, text) == list(program.webhooks.values())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_give_what_the_compiler_makes_of_them(path: Path) -> None:
    _same_as_compiled(path.read_bytes())


@pytest.mark.parametrize(
    "text",
    [
        "",
        OF_THE_DESIGN,
        OF_THE_DESIGN.encode(),
        OF_THE_DESIGN.replace("\n", "\r\n"),
        b"\xef\xbb\xbf" + OF_THE_DESIGN.encode(),
        'memory m { path "é😀" } # é😀\nwebhook w { path "/w" secret ["secret://env/É" "secret://env/X"] }',
        f"policy p {{ if x then {{ 1 }} }}\nagent a(b: T) -> R {{ memory }}\n{OF_THE_DESIGN}",
    ],
)
def test_any_text_gives_what_the_compiler_makes_of_it(text: str | bytes) -> None:
    _same_as_compiled(text)


def test_the_designs_memory_and_webhook_are_read() -> None:
    [memory] = extract_memory_definitions(parse(OF_THE_DESIGN), OF_THE_DESIGN)
    [webhook] = extract_webhook_definitions(parse(OF_THE_DESIGN), OF_THE_DESIGN)
    assert (memory.name, memory.retention.days, memory.search.vector_weight) == ("agent-memory", 90, 0.7)
    assert (webhook.name, webhook.path, webhook.agent) == ("github-events", "/hooks/github", "code-review-agent")
    assert webhook.filter[0].equals == "opened"


@pytest.mark.parametrize("extract", EITHER)
@pytest.mark.parametrize(
    ("text", "place", "code"),
    [
        ('memory é {}\nmemory m {\n    path "a\n}', "line 1, column 8", "N206"),
        ("memory m {\n    path\n}", "line 2, column 9", "S101"),
        ("memory m {\n    a b\rc\n}", "line 2, column 8", "S115"),
        ("memory m {}\0", "line 1, column 12", "S115"),
        ("memory m {" + "a {" * 64 + "}" * 65, "line 1, column 202", "S108"),
        (b'memory m { a "\xff" }', "line 1, column 15", "S108"),
        ("memry m {}", "line 1, column 1", "N201"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_with_its_place(
    extract: Extract, text: str | bytes, place: str, code: str
) -> None:
    with pytest.raises(ValueError, match=rf"^{place}: .*\({code}\)$"):
        extract(parse(text), text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory m {\n    retention 90\n}", r"^line 2, column 15: .*90d.*\(T401\)$"),
        ("memory m { x 1 }", r"^line 1, column 12: .*\(N202\)$"),
        ('memory m {}\nmemory m { path "b" }', r"^line 2, column 8: .*\(N204\)$"),
        ("memory m {}\nmemory n {}", r"^line 2, column 8: .*\(N208\)$"),
    ],
)
def test_a_wrong_memory_is_refused_when_memories_are_asked_for(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        extract_memory_definitions(parse(text), text)
    assert extract_webhook_definitions(parse(text), text) == []


def test_a_wrong_webhook_is_refused_when_webhooks_are_asked_for() -> None:
    text = "memory m {}\nwebhook w { provider github }"
    with pytest.raises(ValueError, match=r"^line 2, column 1: .*`path`.*\(T404\)$"):
        extract_webhook_definitions(parse(text), text)
    assert [memory.name for memory in extract_memory_definitions(parse(text), text)] == ["m"]


def test_what_another_file_may_declare_is_not_missed() -> None:
    text = 'webhook w { path "/w" provider github secret "secret://env/W" memory elsewhere }'
    assert [webhook.memory for webhook in extract_webhook_definitions(parse(text), text)] == ["elsewhere"]


def test_a_secret_in_the_file_is_not_repeated() -> None:
    for text in ('webhook w { secret "hunter2', 'webhook w { path "/w" secret "hunter2" secret "hunter2" }'):
        with pytest.raises(ValueError, match="line 1") as caught:
            extract_webhook_definitions(parse(text), text)
        assert "hunter2" not in str(caught.value)


def test_a_tree_of_another_text_is_refused() -> None:
    tree = parse("memory a { path 1 } # and more")
    with pytest.raises(ValueError, match="parse it again"):
        extract_memory_definitions(tree, "memory a {}")
    with pytest.raises(ValueError, match="parse it again"):
        extract_memory_definitions(parse("memory b {}"), "memory a {}")
    tree.edit(0, 0, 1, (0, 0), (0, 0), (0, 1))
    with pytest.raises(ValueError, match="parse it again"):
        extract_memory_definitions(tree, " memory a { path 1 } # and more")
