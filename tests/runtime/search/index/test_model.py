"""After any operations an index returns the same as a simple model of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.search.entry import EntryFilter
from runtime.search.index import open_index
from runtime.search.index.embedded import in_memory
from runtime.search.index.index import Index
from tests.lanes import examples
from tests.runtime.search.index.checker import agree
from tests.runtime.search.index.entries import (
    DIMENSION,
    TOKEN_BITS,
    append,
    bits,
    everything,
    ids,
    tokens,
    vector,
    vectors,
)
from tests.runtime.search.index.model import WORDS, Plain, filters, steps

Step = tuple[Any, ...]


async def opened(path: Path | None) -> Index:
    index = await open_index(None, path, {})
    await index.use_model("m", DIMENSION, TOKEN_BITS)
    return index


async def take(step: Step, number: int, index: Index, plain: Plain, path: Path | None) -> Index:
    match step:
        case ("put", part, agent, entries):
            changed = await index.put(part, agent, str(number), entries)
            assert tuple(changed) == plain.put(part, agent, str(number), entries)
        case ("grow", part, right, entries):
            before = plain.parts.get(part, (None, None))[1] if right else "another"
            done = await append(index, part, "a", before, str(number), entries)
            assert done == plain.grow(part, "a", before, str(number), entries)
        case ("drop", parts):
            assert await index.drop(parts) == plain.drop(parts)
        case ("embed", limit, with_tokens):
            waiting = await index.pending(limit)
            made = [bits(one.text) for one in waiting] if with_tokens else None
            assert await index.embed(vectors(waiting), made) == len(waiting)
            plain.embedded.update(one.id for one in waiting)
            plain.tokenized.update(one.id for one in waiting if with_tokens)
        case ("clear",):
            await index.clear()
            plain.clear()
        case ("open",) if path is not None:
            await index.close()
            return await opened(path)
    return index


async def compare(index: Index, plain: Plain, wanted: EntryFilter, *, context: bool = True) -> None:
    """`context`: the words of neighbours count for an entry, too."""
    for agent in (None, "a", "b"):
        parts = {name: part[1] for name, part in plain.parts.items() if agent in (None, part[0])}
        assert await index.parts(agent) == parts
    for word in (*WORDS[:2], "nowhere"):
        found = await index.keyword([word], wanted, 100)
        assert set(await ids(index, found)) == plain.keyword(word, wanted, context=context)
        assert (found.scores > 0).all()
    nearest = await index.nearest(vector("query"), wanted, 4)
    assert nearest.scores.tolist() == pytest.approx(plain.nearest("query", wanted, 4), abs=1e-5)
    there = await everything(index)
    assert there == {one.id: one for one in plain.entries.values() if one.id in plain.embedded}
    times = [plain.entries[one.id].time.timestamp() for one in await index.pending(100)]
    assert times == plain.pending()
    assert await index.authors(wanted) == sorted(
        {one.author for one in plain.entries.values() if one.author is not None and plain.wants(wanted, one)}
    )
    stats = await index.stats()
    assert (stats.entries, stats.embedded, stats.tokenized) == tuple(
        map(len, (plain.entries, plain.embedded, plain.tokenized))
    )
    names = sorted(plain.embedded)
    given = [bits(plain.entries[name].text) if name in plain.tokenized else None for name in names]
    assert await tokens(index, *names) == given
    await compare_neighbours(index, plain)


async def compare_neighbours(index: Index, plain: Plain) -> None:
    found = await index.keyword(["May"], EntryFilter(), 100)  # a word in the date of every entry
    entries = await index.entries(found.keys.tolist())
    assert {one.id: one for one in entries.values()} == plain.entries
    neighbours = await index.neighbours(found.keys)
    names = {key: one.id for key, one in entries.items()} | {0: None}
    for key, before, after in zip(
        *(a.tolist() for a in (found.keys, neighbours.before, neighbours.after)), strict=True
    ):
        assert (names[before], names[after]) == plain.neighbours(entries[key])


@settings(max_examples=examples(130), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    taken=st.lists(steps, max_size=8),
    wanted=filters,
    large=st.sampled_from((0, 3, in_memory.LARGE)),
    in_file=st.sampled_from((True, True, False)),
)
async def test_any_steps_lead_to_what_the_plain_model_says(
    taken: list[Step], wanted: EntryFilter, large: int, in_file: bool, tmp_path: Path
) -> None:
    path = tmp_path / f"{uuid4()}.db" if in_file else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_memory, "LARGE", large)
        index, plain = await opened(path), Plain()
        try:
            for number, step in enumerate(taken):
                index = await take(step, number, index, plain, path)
            await compare(index, plain, wanted)
        finally:
            await index.close()
    if path is not None:
        agree(path)
