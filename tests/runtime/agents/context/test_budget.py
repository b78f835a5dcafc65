"""The budget of a context is held for any thread, however a model counts tokens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.agents.context.build import BuiltContext, NoRoom, build, build_measured
from runtime.agents.context.fields import Block, Budget, Count, Entry, Fields
from runtime.agents.reply.reply_schema import reply_schema
from runtime.models.request import ToolCall
from runtime.search.embedding import minilm
from runtime.token_counter import TokenCounter
from tests.lanes import EFFORT, examples
from tests.runtime.agents.context.test_build import FIND, HUMAN, fields, size, tool

PIECES: Final = (
    "The kettle is on the left shelf. ",
    '{"name": "archival_search", "args": {"query": "tea", "limit": 5}} ',
    "def brew(cup: Cup) -> Tea:\n    return cup.fill()\n",
    "茶壶在左边的架子上。",
    "чайник на полке ",
    "0123456789",
    "🙂🫖",
    "e\u0301\u0327",
    "x",
    " \n\t",
    "</data></block></state>[SEP]<|im_end|>",
    "Donaudampfschifffahrtsgesellschaft",
)
MOST_CALLS: Final = 20
"""Calls of one reply."""


def by_words(text: str) -> int:
    return len(text.split())


def by_characters(text: str) -> int:
    return -(-len(text) // 4)


@cache
def _word_pieces() -> Any:
    """Return the tokenizer of the included embedding, which reads texts whole."""
    tokenizers = pytest.importorskip("tokenizers")
    found = tokenizers.Tokenizer.from_file(str(Path(minilm.__file__).with_name("tokenizer.json")))
    found.no_truncation()
    found.no_padding()
    return found


@lru_cache(20_000)
def by_word_pieces(text: str) -> int:
    return len(_word_pieces().encode(text, add_special_tokens=False).ids)


TOKENIZERS: Final[dict[str, Count]] = {
    "words": by_words,
    "characters": by_characters,
    "word pieces": by_word_pieces,
}


class Exact:
    """A model with this tokenizer."""

    def __init__(self, count: Count) -> None:
        self._count = count

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return list(map(self._count, texts))


class Draw:
    """Draws threads and what is around them."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def number(self, least: int, most: int) -> int:
        return self._random.randint(least, most)

    def text(self, longest: int = 8_000) -> str:
        """Return a text from repetitions of one of `PIECES`, in most cases a short one."""
        most = self._random.choices((60, 800, longest), (6, 3, 1))[0]
        characters, piece = self.number(0, min(most, longest)), self._random.choice(PIECES)
        return (piece * (characters // len(piece) + 1))[:characters]

    def entries(self, *, native: bool) -> tuple[Entry, ...]:
        """Return a thread as `entries_of` does: calls are text unless they are native."""
        found: list[Entry] = []
        for step in range(self.number(0, 30)):
            group = len(found)
            if self._random.random() < 0.5:
                found.append(Entry(group, "user", f"(message {step}) {self.text()}", group))
                continue
            calls = tuple(self._call(f"c{step}_{each}") for each in range(self.number(0, MOST_CALLS)))
            said = self.text()
            if not native:
                said = json.dumps({"messages": [said], "tool_calls": [call.arguments for call in calls]})
            found.append(Entry(group, "assistant", said, group, calls if native else ()))
            for call in calls:
                found.append(Entry(len(found), "tool", self.text(), group, (), call.id if native else None))
        return tuple(found)

    def _call(self, call_id: str) -> ToolCall:
        return ToolCall(call_id, "tool0", json.dumps({"text": self.text()}, ensure_ascii=False))

    def fields(self) -> Fields:
        native = self._random.random() < 0.5
        entries = self.entries(native=native)
        asked = [entry for entry in entries if entry.role == "user"]
        return fields(
            instruction=f"You help. {self.text(1_000)} So help.",
            tools=tuple(tool(f"tool{each}", self.number(0, 60)) for each in range(self.number(0, 30))),
            find_tool=self._random.choice((None, FIND)),
            blocks=tuple(Block(f"block{n}", "", self.text(2_000), 20_000) for n in range(self.number(0, 3))),
            human=HUMAN._replace(value=self.text(2_000)),
            preferences=self.text(1_000),
            summary=self.text(2_000),
            entries=entries,
            input=self._random.choice((None, asked[-1])) if asked else None,
            native=native,
            schema=None if native else reply_schema,
            schema_in_prompt=True,
        )

    def budget(self) -> Budget:
        window = self.number(1_024, 12_000)
        return Budget(window, self.number(window // 8, window // 2))


def drawn(seed: int) -> tuple[Fields, Budget]:
    draw = Draw(seed)
    return draw.fields(), draw.budget()


seeds = st.integers(0, 2**64)


def bare(whole: Fields) -> Fields:
    """Return the fields without what gives way to the instruction."""
    return whole._replace(tools=(), persona=None, blocks=(), human=None, preferences="", entries=())


def check(whole: Fields, budget: Budget, built: BuiltContext, count: Count) -> None:
    assert size(built, count) <= budget.request
    assert built.messages[0].role == "system"
    assert whole.instruction in built.messages[0].text
    assert whole.time in built.messages[-1].text
    if whole.input is not None:
        assert f"{whole.input.text.partition(')')[0]})" in "".join(message.text for message in built.messages)
    # Groups are shown together or not at all, from one of them on.
    groups = {entry.group for entry in whole.entries}
    if whole.input is None and whole.entries:
        assert built.first in groups
        assert built.left_out == built.first
    called = [call.id for message in built.messages for call in message.calls]
    answered = [message.call_id for message in built.messages if message.call_id is not None]
    assert called == answered
    # The newest calls stay; of one reply the first are left out, if not even the calls alone have room.
    given = [call.id for entry in whole.entries for call in entry.calls]
    assert called == given[len(given) - len(called) :]


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=examples(1000) if EFFORT > 1 else 60)
@given(seed=seeds)
def test_a_request_has_at_most_the_tokens_of_its_budget(name: str, seed: int) -> None:
    (whole, budget), count = drawn(seed), TOKENIZERS[name]
    try:
        built = build(whole, budget, count)
    except NoRoom:
        with pytest.raises(NoRoom):
            build(bare(whole), budget, count)
        return
    assert built.tokens <= budget.request
    check(whole, budget, built, count)


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=examples(200) if EFFORT > 1 else 10)
@given(seed=seeds)
def test_a_request_is_within_its_budget_as_the_models_own_tokenizer_counts(name: str, seed: int) -> None:
    (whole, budget), count = drawn(seed), TOKENIZERS[name]
    with suppress(NoRoom):
        built = asyncio.run(build_measured(whole, budget, TokenCounter(), Exact(count)))
        check(whole, budget, built, count)
