"""Token bits in PostgreSQL: of one version and model, stored beside existing vectors."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from dslc.blocks.variant import Variant
from runtime.search.index import open_index
from runtime.search.index.index import Index
from tests.runtime.search.index.entries import (
    DIMENSION,
    EVERYTHING,
    TOKEN_BITS,
    bits,
    embed,
    embed_with_tokens,
    near,
    talk,
    tokens,
    vector,
    vectors,
)

Options = dict[str, Any]


async def opened(options: Options, token_bits: str | None = TOKEN_BITS) -> Index:
    index = await open_index(Variant(name="postgres"), None, options)
    await index.use_model("m", DIMENSION, token_bits)
    return index


@pytest.fixture
async def index(options: Options) -> AsyncIterator[Index]:
    made = await opened(options)
    yield made
    await made.close()


@pytest.fixture
async def connection(options: Options) -> AsyncIterator[Any]:
    """A connection of another program, in the index's schema."""
    made = await asyncpg.connect(options["url"], server_settings={"search_path": f"{options['schema']}, public"})
    yield made
    await made.close()


async def filled(index: Index) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two", "three"))
    await embed_with_tokens(index)


async def pending(index: Index) -> list[str]:
    return [one.id for one in await index.pending(10)]


async def test_a_vector_that_is_there_is_not_written_again_with_the_bits(index: Index, connection: Any) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two"))
    await embed(index)
    rows = await connection.fetch("SELECT key, ctid, xmin, vector::text FROM vectors ORDER BY key")
    assert await pending(index) == ["e1", "e0"]
    assert await embed_with_tokens(index) == 2
    assert await connection.fetch("SELECT key, ctid, xmin, vector::text FROM vectors ORDER BY key") == rows
    assert await tokens(index, "e0") == [bits("one")]


async def test_two_daemons_with_bits_of_different_versions_leave_them_to_the_last_that_began(options: Options) -> None:
    first = await opened(options)
    await filled(first)
    second = await opened(options, "another")
    assert await tokens(first, "e0") == [None]
    assert await pending(first) == []
    assert await pending(second) == ["e2", "e1", "e0"]
    assert await embed_with_tokens(second, 1) == 1
    assert await pending(first) == []
    assert await pending(second) == ["e1", "e0"]
    # The vectors are those of both.
    await first.put("more", "reviewer", "1", talk("four", start=3, part="more"))
    assert await embed_with_tokens(first) == 1
    assert await pending(first) == []
    assert await pending(second) == ["e3", "e1", "e0"]
    assert await embed_with_tokens(second) == 3
    assert await tokens(second, "e0", "e3") == [bits("one"), bits("four")]
    assert await tokens(first, "e0", "e3") == [None, None]
    assert ((await first.stats()).tokenized, (await second.stats()).tokenized) == (0, 4)
    assert await near(first, "four") == await near(second, "four")
    assert (await near(first, "four"))[0] == "e3"
    await first.close()
    await second.close()


async def test_bits_of_one_name_but_of_another_model_are_not_mixed(options: Options) -> None:
    first, second = await opened(options), await open_index(Variant(name="postgres"), None, options)
    await filled(first)
    keys = (await first.nearest(vector("one"), EVERYTHING, 3)).keys
    await second.use_model("other", DIMENSION, TOKEN_BITS)
    assert list(await first.tokens(keys)) == list(await second.tokens(keys)) == [None] * 3
    waiting = await first.pending(10)
    assert await embed_with_tokens(second) == 3
    assert await first.embed(vectors(waiting), [b"x"] * 3) == 0
    assert list(await first.tokens(keys)) == [None] * 3
    assert None not in await second.tokens(keys)
    assert await pending(first) == []
    await first.close()
    await second.close()


async def test_bits_are_stored_again_after_the_schema_was_dropped_while_it_was_used(
    index: Index, options: Options, connection: Any
) -> None:
    await filled(index)
    await connection.execute(f"DROP SCHEMA {options['schema']} CASCADE")
    await filled(index)
    assert await tokens(index, "e0", "e2") == [bits("one"), bits("three")]
    assert (await index.stats()).tokenized == 3


async def test_entries_that_wait_for_bits_do_so_in_the_order_of_their_present_times(index: Index) -> None:
    entries = talk("one", "two", "three")
    await index.put("log", "reviewer", "1", entries)
    await embed(index)
    assert await pending(index) == ["e2", "e1", "e0"]
    await index.put(
        "log", "reviewer", "2", [replace(entries[0], time=entries[2].time.replace(year=2030)), *entries[1:]]
    )
    assert await pending(index) == ["e0", "e2", "e1"]


async def test_bits_of_many_tokens_are_in_their_rows_and_longer_ones_are_kept_too(
    index: Index, connection: Any
) -> None:
    await index.put("log", "reviewer", "1", talk("one", "two"))
    for size, aside in ((3072, 0), (20_000, 1)):
        await index.use_model("m", DIMENSION, f"of {size}")
        made = [os.urandom(size), os.urandom(size)]
        await index.embed(vectors(await index.pending(2)), made)
        assert await tokens(index, "e1", "e0") == made
        toast = await connection.fetchval(
            "SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = 'tokens'::regclass"
        )
        assert (await connection.fetchval("SELECT pg_relation_size($1::regclass)", toast) > 0) == aside
