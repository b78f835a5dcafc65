"""Words of the entries before and after an entry count for it, too: in the embedded index and on Qdrant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from dslc.blocks.variant import Variant
from runtime.search.index import open_index
from runtime.search.index.index import Index
from tests.runtime.search.index.entries import append, entry, said, talk
from tests.runtime.search.index.qdrant import qdrant_server


@pytest.fixture(scope="module")
def qdrant() -> Iterator[qdrant_server.Served]:
    with qdrant_server.Served() as served:
        yield served


@pytest.fixture(params=["embedded", "qdrant"])
async def index(request: pytest.FixtureRequest, qdrant: qdrant_server.Served) -> AsyncIterator[Index]:
    async with qdrant_server.options(qdrant) as options:
        opened = await open_index(Variant(name=request.param), None, options if request.param == "qdrant" else {})
        yield opened
        await opened.close()


async def test_words_of_the_entry_before_and_after_count_for_less(index: Index) -> None:
    await index.put("log", "reviewer", "1", [*talk("zebra", "alpha", "beta", "gamma"), entry("x", "zebra delta")])
    assert await said(index, "alpha") == ["e1", "e0", "e2"] or await said(index, "alpha") == ["e1", "e2", "e0"]
    assert await said(index, "zebra") in (["e0", "x", "e1"], ["x", "e0", "e1"])


async def test_the_context_follows_what_is_added_changed_and_removed(index: Index) -> None:
    one, two, three = talk("alpha", "beta", "gamma")
    await index.put("log", "reviewer", "1", [one, three])
    assert sorted(await said(index, "gamma")) == ["e0", "e2"]
    assert await append(index, "log", "reviewer", "1", "2", [two])
    assert sorted(await said(index, "gamma")) == ["e1", "e2"]
    await index.put("log", "reviewer", "3", [one, replace(two, text="delta", hash="d"), three])
    assert sorted(await said(index, "delta")) == ["e0", "e1", "e2"]
    assert await said(index, "beta") == []
    await index.put("log", "reviewer", "4", [one, three])
    assert sorted(await said(index, "alpha")) == ["e0", "e2"]
    await index.put("log", "reviewer", "5", [one, replace(three, group="another")])
    assert await said(index, "alpha") == ["e0"]


async def test_the_context_goes_over_parts_but_not_over_agents(index: Index) -> None:
    one, two, three = talk("alpha", "beta", "gamma")
    await index.put("a", "reviewer", "1", [one])
    await index.put("b", "reviewer", "1", [replace(three, part="b")])
    await index.put("c", "other", "1", [replace(two, agent="other", part="c")])
    assert sorted(await said(index, "alpha")) == ["e0", "e2"]
    assert await said(index, "beta") == ["e1"]
    await index.drop(["a"])
    assert await said(index, "alpha") == []
