"""The language model that a setting of a program names."""

from __future__ import annotations

from dslc.blocks.model import LanguageModel
from dslc.blocks.variant import Variant
from dslc.program import Program
from runtime.models.choice import language_model

FAST = LanguageModel(name="fast", service=Variant(name="ollama", options={"model": "small"}), temperature=0.2)


def test_a_name_is_the_block_with_this_name() -> None:
    assert language_model(Program(models={"fast": FAST}), Variant(name="fast")) == FAST


def test_a_service_is_a_model_with_the_defaults_of_a_block() -> None:
    service = Variant(name="ollama", options={"model": "large"})
    found = language_model(Program(models={"fast": FAST}), service)
    assert found == LanguageModel(name="ollama", service=service)
    assert found.temperature == 0.7
