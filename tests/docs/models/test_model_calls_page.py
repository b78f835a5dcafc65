"""The page about calls of models: its numbers are those of the code."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from runtime.models import MODELS, client
from runtime.models.calls.call import Outcome, Purpose
from runtime.models.calls.counted_calls import TRIES
from runtime.models.calls.service import AWAY_SECONDS, FAILURES, LONGEST_AWAY_SECONDS
from runtime.models.calls.usage import MOST_KEPT
from runtime.outbound import retry
from runtime.search.embedding.remote import AT_ONCE, QUESTION_SECONDS

PAGE = " ".join((Path(__file__).parents[3] / "docs" / "model-calls.md").read_text(encoding="utf-8").split())


def test_its_numbers_are_those_of_the_code() -> None:
    assert f"at the same time | {MODELS['openai'].concurrency}, in the order of arrival | {AT_ONCE}, one" in PAGE
    assert f"| {TRIES}, after 0.5 s, 1 s" in PAGE
    assert f"`timeout`; {QUESTION_SECONDS:g} s for a search" in PAGE
    assert f"after {FAILURES} failed calls in a row" in PAGE
    waits = f"{client.LONGEST_WAIT_SECONDS:g} seconds, for an embedding {retry.LONGEST_WAIT_SECONDS:g} seconds"
    assert f"A longer `Retry-After` than {waits}" in PAGE
    assert f"not called for {AWAY_SECONDS:g} seconds" in PAGE
    assert f"up to {LONGEST_AWAY_SECONDS:g} seconds" in PAGE
    assert f"up to {MOST_KEPT:,} rows" in PAGE


def test_it_explains_every_outcome_and_purpose() -> None:
    assert all(f"| `{outcome}` |" in PAGE for outcome in get_args(Outcome))
    assert all(f"`{purpose}`" in PAGE for purpose in get_args(Purpose))
