"""The page on search has the constants of the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.search import dependence, engine, fusion, question
from runtime.search.embedding.minilm import model
from runtime.search.index.embedded import bm25

PAGE = " ".join((Path(__file__).parents[3] / "docs" / "search.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize(
    "said",
    [
        f"The {engine.CANDIDATES} entries with the best words and the {engine.CANDIDATES} nearest by meaning",
        f"The best {engine.COMPARED} of them, and their neighbours",
        f"the similarity of tokens ({fusion.TOKENS:g} of it) and the cosine",
        f"the question ({1 - fusion.TOKENS:g}), each scaled",
        f"times `vector_weight` | {question.VECTOR_WEIGHT:g} |",
        f"(for {bm25.CONTEXT:g} of an occurrence) the texts before and after it",
        f"times `keyword_weight` | {question.KEYWORD_WEIGHT:g} |",
        f"but {fusion.ANSWER:g} of those of the entry before it if that one is a question",
        f"is a question | {fusion.ANSWER + fusion.NEIGHBOUR:g} |",
        f"{fusion.AUTHOR:g} if the question asks for one author and the entry is theirs | {fusion.AUTHOR:g} |",
        f"{fusion.DATE:g} if the entry is from a time that the question mentions",
        f"decreasing before and after it | {fusion.DATE:g} |",
        f"with more than {model.BITS_OF_TOKENS} tokens only the {model.BITS_OF_TOKENS} rarest",
        f"or, for {fusion.NEIGHBOUR_TOKENS:g} of it, of its neighbours",
        f"texts of up to {dependence.SHORT} words depend on their neighbours",
        f"from {2 * dependence.SHORT} words on they do not",
        f"Without `search` the weights are {question.VECTOR_WEIGHT:g} for vectors and {question.KEYWORD_WEIGHT:g}",
        f"We recommend **{question.RECOMMENDED_THRESHOLD:g}**",
        f"only the first {question.LONGEST} characters of the question were read",
    ],
)
def test_the_page_says_with_which_numbers_is_searched(said: str) -> None:
    assert said in PAGE
