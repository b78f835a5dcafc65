"""Blocks that are built in code are held to what a program is held to."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from dslc.blocks.agent import Agent, AgentContext, CoreBlock
from dslc.blocks.model import LanguageModel
from dslc.blocks.variant import Variant

OLLAMA = Variant(name="ollama")


def test_a_model_needs_a_service_and_nothing_else() -> None:
    model = LanguageModel(name="fast", service=OLLAMA)
    assert (model.temperature, model.window, model.fallback, model.offered) == (0.7, None, (), False)
    with pytest.raises(ValidationError):
        LanguageModel.model_validate({"name": "fast"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": 2.1},
        {"temperature": -0.1},
        {"window": 1023},
        {"reply_tokens": 15},
        {"input_price": -1},
        {"output_price": -0.1},
        {"fallback": ["fast"]},
        {"fallback": ["no name"]},
        {"window": 2048, "reply_tokens": 2048},
    ],
)
def test_a_model_is_within_its_bounds_and_never_its_own_fallback(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        LanguageModel.model_validate({"name": "fast", "service": OLLAMA, **wrong})


def test_a_reply_leaves_room_for_a_request() -> None:
    assert AgentContext(max_tokens=2000, reply_tokens=1999).reply_tokens == 1999
    with pytest.raises(ValidationError, match="not smaller than `max_tokens`"):
        AgentContext(reply_tokens=100_000)


def test_a_core_block_is_within_its_limit() -> None:
    assert CoreBlock(name="persona", value="x" * 20_000).char_limit == 20_000
    with pytest.raises(ValidationError, match="char_limit"):
        CoreBlock(name="persona", value="x" * 20_001)


def test_two_core_blocks_of_an_agent_have_different_names() -> None:
    with pytest.raises(ValidationError, match="one name"):
        Agent(name="a", block=(CoreBlock(name="persona"), CoreBlock(name="persona")))
