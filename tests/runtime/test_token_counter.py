"""Token counts are never too low for long: they learn from usage, and from requests that did not fit."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.token_counter import LARGEST_RATIO, SMALLEST_RATIO, TokenCounter, estimate
from tests.cases import each_case

COUNTED = tomllib.loads((Path(__file__).parent / "token_counts.toml").read_text())["text"]
CLOSE = ("english", "python", "javascript", "json", "webhook", "chinese")
TEXT = "The quick brown fox jumps over the lazy dog. " * 20


class Letters:
    """A tokenizer with a token for each letter."""

    async def count_tokens(self, texts: Sequence[str]) -> list[int] | None:
        return [len(text) for text in texts]


def test_a_service_that_uses_more_tokens_is_believed_at_once() -> None:
    counter = TokenCounter()
    used = 3 * counter.count(TEXT)
    counter.learn(counter.count(TEXT), used)
    assert counter.count(TEXT) >= used


def test_a_service_that_uses_fewer_tokens_is_believed_slowly() -> None:
    counter = TokenCounter()
    before = counter.count(TEXT)
    counter.learn(before, before // 2)
    assert 0.9 * before < counter.count(TEXT) < before
    for _ in range(100):
        counter.learn(counter.count(TEXT), before // 2)
    assert before // 2 <= counter.count(TEXT) < 0.6 * before


async def test_a_tokenizer_is_exact_and_its_counts_teach_the_estimate_nothing() -> None:
    counter = TokenCounter()
    ratio = counter.ratio
    await counter.measure(Letters(), [TEXT])
    assert counter.count(TEXT) == len(TEXT)
    counter.learn(len(TEXT), len(TEXT) // 2)
    assert counter.ratio == ratio


async def test_what_did_not_fit_counts_as_more_than_is_allowed() -> None:
    for measured in (False, True):
        counter = TokenCounter()
        if measured:
            await counter.measure(Letters(), [TEXT])
        counted = counter.count(TEXT)
        counter.raise_ratio(counted, 2 * counted)
        if measured:
            # As the next context does.
            await counter.measure(Letters(), [TEXT])
        assert counter.count(TEXT) > 2 * counted


@given(st.lists(st.tuples(st.integers(-10, 10**6), st.integers(-10, 10**6))))
def test_the_ratio_stays_within_its_bounds(seen: list[tuple[int, int]]) -> None:
    counter = TokenCounter()
    for counted, used in seen:
        counter.learn(counted, used)
        assert SMALLEST_RATIO <= counter.ratio <= LARGEST_RATIO
        counter.raise_ratio(counted, used)
        assert SMALLEST_RATIO <= counter.ratio <= LARGEST_RATIO


def test_no_run_of_the_same_characters_is_nearly_nothing() -> None:
    for character in ("a", "7", " ", "\n", "-", "茶"):
        assert estimate(character * 4000) >= 250


@each_case("counted", [pytest.param(each, id=each["name"]) for each in COUNTED])
@each_case("tokenizer", ["o200k", "llama", "qwen"])
def test_the_estimate_is_close_to_what_tokenizers_count(counted: dict[str, object], tokenizer: str) -> None:
    tokens, text = counted[tokenizer], counted["text"]
    assert isinstance(text, str)
    assert isinstance(tokens, int)
    most = 1.1 if any(word in str(counted["name"]) for word in CLOSE) else 1.3

    assert tokens / most <= estimate(text, chinese=tokenizer == "qwen") <= tokens * most


@pytest.mark.parametrize(
    ("model", "fewer"),
    [("Qwen/Qwen3-8B", True), ("deepseek-chat", True), ("gpt-4.1-mini", False), ("llama3.1:8b", False)],
)
def test_a_chinese_text_has_fewer_tokens_for_a_model_made_for_it(model: str, fewer: bool) -> None:
    text = next(str(each["text"]) for each in COUNTED if each["name"] == "chinese prose")
    assert (TokenCounter(model=model).count(text) < TokenCounter().count(text)) == fewer


class Away(Letters):
    """A tokenizer that is away at times."""

    def __init__(self) -> None:
        self.away = False

    async def count_tokens(self, texts: Sequence[str]) -> list[int] | None:
        return None if self.away else await super().count_tokens(texts)


async def test_a_tokenizer_that_has_counted_is_asked_again_after_an_absence() -> None:
    counter, tokenizer = TokenCounter(), Away()
    assert await counter.measure(tokenizer, [TEXT])
    tokenizer.away = True
    assert not await counter.measure(tokenizer, [TEXT, TEXT + TEXT])
    assert counter.has_tokenizer
    tokenizer.away = False
    assert await counter.measure(tokenizer, [TEXT, TEXT + TEXT])
    assert counter.count(TEXT + TEXT) == 2 * len(TEXT)


async def test_a_model_without_a_tokenizer_is_asked_once() -> None:
    counter, tokenizer = TokenCounter(), Away()
    tokenizer.away = True
    assert not await counter.measure(tokenizer, [TEXT])
    assert not counter.has_tokenizer
