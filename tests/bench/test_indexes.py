"""The benchmark of indexes runs on a small scale."""

from __future__ import annotations

import pytest

from bench.indexes import EF_SEARCH, FILTERS, measure, measure_signs, signs_table, table, texts
from runtime.search.index.embedded import in_memory
from tests.lanes import LONG
from tests.runtime.search.index.postgres import postgres_server


@LONG
def test_texts_are_different_and_always_the_same() -> None:
    made = texts(200)
    assert made == texts(200)
    assert len(set(made)) == 200


@pytest.fixture
def server(request: pytest.FixtureRequest) -> str:
    return postgres_server.server(request)


@LONG
async def test_recall_and_latency_are_told_of_every_side_and_filter(server: str) -> None:
    result = await measure(await postgres_server.fresh(server), 120, 2, None, drawn=True)
    assert {name for row in result["recall"].values() for name in row} == FILTERS.keys()
    assert len(result["recall"]) == 2 * len(EF_SEARCH)
    # So few vectors are compared exactly, so recall is 1.
    assert {share for row in result["recall"].values() for share in row.values()} == {1.0}
    assert len(result["milliseconds"]) == 4 * len(FILTERS)
    assert all(row.keys() == {"embedded", "exact", "HNSW"} for row in result["milliseconds"].values())
    assert "ef_search 400" in table(result)


@LONG
async def test_signs_are_compared_with_vectors_sealed_and_unsealed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_memory, "LARGE", in_memory.LARGE)  # the benchmark changes it
    result = await measure_signs(120, 2)
    assert list(result["sides"]) == ["vectors, unsealed", "signs, unsealed", "vectors, sealed", "signs, sealed"]
    assert result["recall"] == {10: 1.0, 100: 1.0}  # so few vectors are all read
    assert "signs, sealed" in signs_table(result)
