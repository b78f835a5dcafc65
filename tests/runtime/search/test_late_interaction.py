"""Texts are compared with a question token by token."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.search.embedding.embedder import EmbeddedQuestion
from runtime.search.late_interaction import STOP_WORD, QuestionTokens, best_matches, question_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIMENSION = 16


def rows(count: int, seed: int = 0) -> NDArray[np.float32]:
    found = np.random.default_rng(seed).normal(size=(count, DIMENSION))
    unit: NDArray[np.float32] = (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)
    return unit


def asked(count: int) -> QuestionTokens:
    return QuestionTokens(rows(count), np.full(count, 1 / count, np.float32))


def text(count: int, seed: int) -> bytes:
    return np.packbits(rows(count, seed) > 0, axis=1).tobytes()


@given(st.lists(st.integers(0, 40), min_size=1, max_size=9), st.integers(1, 5))
def test_each_token_of_the_question_has_its_best_match_in_each_text(sizes: list[int], tokens: int) -> None:
    found = best_matches(asked(tokens), [text(size, seed) for seed, size in enumerate(sizes)])
    for seed, size in enumerate(sizes):
        signs = np.where(rows(size, seed) > 0, 1, -1) / np.sqrt(DIMENSION)
        expected = (signs @ asked(tokens).rows.T).max(axis=0) if size else np.full(tokens, -1)
        np.testing.assert_allclose(found[seed], expected, atol=1e-5)


def test_a_text_without_bits_or_with_a_broken_row_of_them_matches_nothing() -> None:
    found = best_matches(asked(2), [None, b"", b"x", text(3, 1)])
    assert (found[:3] == -1).all()
    assert (found[3] > -1).all()


def test_a_token_weighs_as_its_word_and_a_stop_word_always_the_same() -> None:
    said = "the red bicycle"
    places = [(0, 3), (4, 7), (8, 10), (10, 15)]
    found = question_tokens(EmbeddedQuestion(rows(1)[0], rows(4), places), said, {"red": 2.0, "bicycle": 5.0})
    assert found is not None
    whole = STOP_WORD + 2 + 5 + 5
    assert found.weights.tolist() == pytest.approx([STOP_WORD / whole, 2 / whole, 5 / whole, 5 / whole])


def test_a_word_of_unknown_rarity_weighs_as_the_rarest() -> None:
    found = question_tokens(EmbeddedQuestion(rows(1)[0], rows(2), [(0, 3), (4, 7)]), "red sky", {"red": 3.0})
    assert found is not None
    assert found.weights.tolist() == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("weights", [{"red": 0.8, "bicycle": 0.4}, {"red": 1.0}, {}])
def test_a_stop_word_weighs_at_most_half_of_the_rarest_word(weights: dict[str, float]) -> None:
    found = question_tokens(EmbeddedQuestion(rows(1)[0], rows(2), [(0, 3), (4, 7)]), "The red", weights)
    assert found is not None
    assert found.weights.tolist() == pytest.approx([1 / 3, 2 / 3])


def test_words_of_a_question_are_compared_in_lower_case() -> None:
    places = [(0, 3), (4, 11)]
    found = question_tokens(EmbeddedQuestion(rows(1)[0], rows(2), places), "Red BICYCLE", {"red": 3.0, "bicycle": 1.0})
    assert found is not None
    assert found.weights.tolist() == pytest.approx([0.75, 0.25])


def test_an_embedding_without_tokens_compares_none() -> None:
    assert question_tokens(EmbeddedQuestion(rows(1)[0], None, ()), "red", {}) is None
    assert question_tokens(EmbeddedQuestion(rows(1)[0], rows(0), ()), "?!", {}) is None
