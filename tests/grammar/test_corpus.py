"""Every case of grammar/test/corpus, in tree-sitter's format; `tree-sitter test` in grammar/ runs the same ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import grammar
from grammar.language import parse
from tests.cases import each_case

CORPUS = Path(grammar.__file__).parent / "test" / "corpus"
_CASE = re.compile(
    r"^={3,}\n(?P<title>[^\n]+)\n(?P<error>:error\n)?={3,}\n(?P<text>.*?)\n-{3,}\n(?P<tree>.*?)(?=^={3,}\n|\Z)",
    re.MULTILINE | re.DOTALL,
)


class Case(NamedTuple):
    """A case. `tree` is None if the text must not parse: the shape of an error is defined by the tree-sitter
    library."""

    title: str
    text: str
    tree: str | None


def cases() -> list[Case]:
    """Return the cases of the corpus."""
    return [
        Case(
            f"{path.stem}: {found['title']}", found["text"], None if found["error"] else " ".join(found["tree"].split())
        )
        for path in sorted(CORPUS.glob("*.txt"))
        for found in _CASE.finditer(path.read_text(encoding="utf-8"))
    ]


def test_the_corpus_is_read_whole() -> None:
    headers = sum(path.read_text(encoding="utf-8").count("\n----") for path in CORPUS.glob("*.txt"))
    assert len(cases()) == headers > 50


@each_case("case", cases())
def test_a_case_has_the_tree_that_stands_under_it(case: Case) -> None:
    root = parse(case.text).root_node
    if case.tree is None:
        assert root.has_error
    else:
        assert str(root) == case.tree


@each_case("case", [case for case in cases() if case.tree])
def test_line_ends_of_either_kind_give_one_tree(case: Case) -> None:
    assert str(parse(case.text.replace("\n", "\r\n")).root_node) == case.tree
