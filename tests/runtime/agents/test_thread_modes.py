"""The modes of threads and their options."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import ValidationError

from dslc.blocks.agent import Agent
from dslc.blocks.variant import Variant
from runtime.agents.thread_modes import MODES, KeyedOptions, thread_options


def test_an_agent_has_one_thread_unless_it_says_otherwise() -> None:
    assert Agent(name="a").thread == Variant(name="one")
    assert thread_options(Agent(name="a").thread).retention is None


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_has_a_retention(mode: str) -> None:
    path = {"json_path": "$.number"} if mode == "keyed" else {}
    choice = Variant(name=mode, options={**path, "retention": timedelta(days=90)})
    assert thread_options(choice).retention == timedelta(days=90)


def test_subjects_have_separate_memories_unless_it_is_switched_off() -> None:
    options = thread_options(Variant(name="keyed", options={"json_path": "$.number"}))
    assert isinstance(options, KeyedOptions)
    assert (options.json_path, options.separate_memory) == ("$.number", True)


def test_a_keyed_thread_needs_the_place_of_its_key() -> None:
    with pytest.raises(ValidationError):
        thread_options(Variant(name="keyed"))
