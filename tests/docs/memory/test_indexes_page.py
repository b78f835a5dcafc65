"""The page of indexes contains every row, and describes each correctly."""

from __future__ import annotations

import re
from pathlib import Path

from runtime.search.embedding.minilm.model import BITS_OF_TOKENS
from runtime.search.index import INDEXES
from runtime.search.index.embedded import sign_bits, token_bits
from runtime.search.index.embedded.in_memory import LARGE
from runtime.search.index.postgres import schema, vector_search
from runtime.search.index.postgres.options import PostgresOptions
from runtime.search.index.qdrant.options import QdrantOptions
from runtime.search.index.qdrant.point import NEAREST, WORDS

DOCS = Path(__file__).parents[3] / "docs"
PAGE = " ".join((DOCS / "indexes.md").read_text(encoding="utf-8").split())
QDRANT = PAGE[PAGE.index("## Qdrant") : PAGE.index("## PostgreSQL")]
POSTGRESQL = PAGE[PAGE.index("## PostgreSQL") :]


def test_every_index_is_in_its_table() -> None:
    table = (DOCS / "indexes.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(INDEXES)


def test_the_tests_that_it_names_are_there() -> None:
    assert all((DOCS.parent / path).exists() for path in re.findall(r"`((?:tests|bench)/[\w/.]+)`", PAGE))


def test_what_it_says_of_the_embedded_index_is_that_of_the_code() -> None:
    for said in (
        f"exactly; above {LARGE:,} items nearly so",
        f"of at most {BITS_OF_TOKENS} of them",
        f"the last {token_bits._KEPT_BYTES // 2**20} MB of them stay in memory",
        f"Of more than {LARGE:,} items it keeps",
        f"the signs of the best {sign_bits._EQUAL_SIGNS * sign_bits.CHOSEN:,}",
        f"the vectors of the best {sign_bits.CHOSEN:,}",
        f"2.8 KB for one of {BITS_OF_TOKENS} or more",
    ):
        assert said in PAGE


def test_what_it_says_of_qdrant_is_that_of_the_code() -> None:
    seconds = QdrantOptions().timeout.total_seconds()
    assert f"at most `timeout`, {seconds:g} seconds without one" in QDRANT
    assert f"the sparse vector `{WORDS}`" in QDRANT
    assert f"the vector `{NEAREST}`" in QDRANT


def test_what_it_says_of_postgresql_is_that_of_the_code() -> None:
    for said in (
        f"no more than {vector_search.FEW:,} entries",
        f"gives {vector_search.MOST:,} candidates",
        f"up to {vector_search.LONGEST_VECTOR:,} numbers",
        f"to {vector_search.LONGEST_HALFVEC:,} are indexed",
        f"`pool` connections, {PostgresOptions(url='postgresql://h/d').pool} without one",
    ):
        assert said in POSTGRESQL
    made = set(re.findall(r"CREATE TABLE (\w+)", schema.TABLES))
    assert (
        set(re.findall(r"\| (\w+) \| ", POSTGRESQL[POSTGRESQL.index("| parts |") : POSTGRESQL.index("A part is")]))
        == made
    )
