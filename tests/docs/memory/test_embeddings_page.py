"""The page of embeddings contains every row, and everything that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

from runtime.models.calls.service import AWAY_SECONDS
from runtime.search.embedding import EMBEDDINGS
from runtime.search.embedding.minilm.model import TOKENS
from runtime.search.embedding.remote import LARGEST_ANSWER, QUESTION_SECONDS

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "embeddings.md").read_text(encoding="utf-8")


def test_every_embedding_is_in_its_table() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == set(EMBEDDINGS)


def test_its_numbers_are_those_of_the_code() -> None:
    for said in (
        f"`local` reads {TOKENS} tokens",
        f"waits {QUESTION_SECONDS:g} s at most",
        f"left alone for {AWAY_SECONDS:g} s",
        f"more than {LARGEST_ANSWER // 1024**2} MiB",
    ):
        assert said in " ".join(PAGE.split())


def test_the_tests_that_it_names_are_there() -> None:
    assert all((DOCS.parent / path).exists() for path in re.findall(r"`(tests/[\w/.]+)`", PAGE))
