"""A chunk is stored once for its user, collection and project, with the latest metadata."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from runtime.memory.collection.parts import LARGEST
from runtime.memory.collection.store import BATCH, LONGEST_NAME, CollectionStore
from runtime.memory.errors import NoSuchItem, RefusedItem
from runtime.memory.item import Item, Provenance
from runtime.memory.store_types import Scan
from tests.runtime.memory.texts import WHEN, fact, item

GIVEN = "018f4e9a-0000-7000-8000-000000000001"
SECRET = "ghp" + "_16C7e42F292c6912E7710c838347Ae178B4a"


async def everything(store: CollectionStore, **wanted: object) -> list[Item]:
    return [one async for one in store.scan(Scan.model_validate(wanted))]


async def test_what_is_there_as_it_is_given_is_skipped(store: CollectionStore) -> None:
    one = fact("One", tags=("a",), source_uri="https://example.com/1", project_id="default")
    first = await store.upsert([one, fact("Two"), one, fact("  Two ")])
    assert [each.text for each in first.inserted] == ["One", "Two"]
    assert (first.updated, first.skipped) == ((), 2)
    again = await store.upsert([one.with_fields(timestamp=WHEN + timedelta(days=1)), fact("Two"), fact("Three")])
    assert [each.text for each in again.inserted] == ["Three"]
    assert (again.updated, again.skipped) == ((), 2)
    assert len(await everything(store)) == 3


async def test_what_is_said_of_a_chunk_is_changed_in_its_place(store: CollectionStore) -> None:
    (kept,) = (await store.upsert([fact("One", tags=("a",), source_uri="https://example.com/1")])).inserted
    given = item(
        "One", "procedural", tags=("b",), timestamp=WHEN + timedelta(days=1), provenance=Provenance(author="ada")
    )
    done = await store.upsert([given])
    expected = kept.with_fields(
        memory_type="procedural", tags=("b",), source_uri=None, provenance=Provenance(author="ada")
    )
    assert done == ((), (expected,), 0)
    assert await everything(store) == [expected]


@pytest.mark.parametrize("field", ["memory_type", "tags", "source_uri", "provenance"])
async def test_a_field_that_is_to_stay_stays_as_it_is(store: CollectionStore, field: str) -> None:
    first = fact("One", tags=("a",), source_uri="https://example.com/1", provenance=Provenance(author="bob"))
    (kept,) = (await store.upsert([first])).inserted
    given = item("One", "procedural", tags=("b",), source_uri="x:1", provenance=Provenance(author="ada"))
    done = await store.upsert([given], keep=frozenset({field}))
    (changed,) = done.updated
    assert getattr(changed, field) == getattr(kept, field)
    others = {"memory_type", "tags", "source_uri", "provenance"} - {field}
    assert {name: getattr(changed, name) for name in others} == {name: getattr(given, name) for name in others}
    assert await everything(store) == [changed]
    everything_stays = await store.upsert([given], keep=frozenset({"memory_type", "tags", "source_uri"}))
    assert everything_stays == ((), (), 1)
    with pytest.raises(ValueError, match="text"):
        await store.upsert([given], keep=frozenset({"text"}))


async def test_who_wrote_a_text_stays_when_a_run_changes_what_is_said_of_it(store: CollectionStore) -> None:
    (kept,) = (await store.upsert([fact("One", provenance=Provenance(said_by="person"))])).inserted
    by_run = Provenance(session_id="long.md", run_id="r", said_by="agent")
    done = await store.upsert([fact("One", tags=("b",), provenance=by_run), fact("Two", provenance=by_run)])
    (changed,) = done.updated
    assert changed.memory_id == kept.memory_id
    assert changed.provenance == Provenance(session_id="long.md", said_by="person")
    assert await everything(store, run_id="r") == list(done.inserted)


async def test_another_user_project_or_collection_has_a_chunk_of_its_own(store: CollectionStore) -> None:
    one = fact("One")
    others = [one.with_fields(user_id="bob"), one.with_fields(project_id="p"), one.with_fields(agent_id="papers")]
    assert len((await store.upsert([one, *others])).inserted) == 4
    assert (await store.upsert([one, *others])).skipped == 4


async def test_a_push_at_the_same_time_as_another_keeps_nothing_twice(store: CollectionStore) -> None:
    many = [fact(f"Chunk {number}") for number in range(40)]
    done = await asyncio.gather(*(store.upsert(many) for _ in range(4)))
    assert sum(len(each.inserted) for each in done) == 40
    assert sum(each.skipped for each in done) == 120
    assert len(await everything(store)) == 40


async def test_no_secret_is_kept_by_an_upsert_or_a_replacement(store: CollectionStore) -> None:
    done = await store.upsert([fact(f"The token is {SECRET}", tags=(SECRET,), source_uri=f"https://u:{SECRET}@h/")])
    await store.replace(
        done.inserted[0].with_fields(text=f"Now {SECRET}", chunk_hash="", provenance=Provenance(task=SECRET))
    )
    assert SECRET not in repr(await everything(store))
    assert "[REDACTED:github_token]" in repr(await everything(store))


async def test_a_replaced_item_is_what_was_given_in_its_place(store: CollectionStore) -> None:
    kept, beside = (await store.upsert([fact("One"), fact("Two")])).inserted
    new = item("Other", "episodic", memory_id=kept.memory_id, project_id="p", tags=("x",), timestamp=WHEN)
    assert await store.replace(new) == new
    assert {each.memory_id: each for each in await everything(store)} == {kept.memory_id: new, beside.memory_id: beside}
    assert [count[1:4] for count in await store.counts()] == [(1, 1, 0)]
    for stranger in (
        new.with_fields(memory_id="none"),
        new.with_fields(user_id="bob"),
        new.with_fields(agent_id="papers"),
    ):
        with pytest.raises(NoSuchItem):
            await store.replace(stranger)


async def test_an_edit_keeps_the_id(store: CollectionStore) -> None:
    (kept,) = await store.append([fact("One")])
    assert (await store.edit(kept.memory_id, "Other")).memory_id == kept.memory_id
    with pytest.raises(NoSuchItem):
        await store.edit(kept.memory_id, "Other", agent_id="papers")
    with pytest.raises(NoSuchItem):
        await store.delete(kept.memory_id, agent_id="papers")


async def test_an_id_that_is_brought_along_is_kept_where_it_is_free(store: CollectionStore) -> None:
    brought = fact("One", memory_id="01a20381-9378-7054-8f6d-23dd5fdc8652")
    assert await store.append([brought]) == (brought,)
    assert await store.append([brought, brought.with_fields(memory_type="episodic")]) == ()
    (other,) = await store.append([brought.with_fields(text="Two", chunk_hash="")])
    assert other.memory_id != brought.memory_id
    (bobs,) = await store.append([brought.with_fields(user_id="bob")])
    assert bobs.memory_id not in {brought.memory_id, other.memory_id}
    (strange,) = await store.append([fact("Three", memory_id="../up")])
    assert strange.memory_id not in {"../up", ""}


async def test_many_chunks_are_kept_in_parts_of_a_bounded_size(store: CollectionStore) -> None:
    many = [fact(f"Chunk {number}") for number in range(BATCH + 100)]
    assert len((await store.upsert(many)).inserted) == len(many)
    sizes = [len(await store.read(part)) for part in await store.parts()]
    assert sum(sizes) == len(many)
    assert max(sizes) <= LARGEST
    assert (await store.upsert(many)).skipped == len(many)


async def test_a_user_whose_name_no_index_could_hold_is_refused(store: CollectionStore) -> None:
    await store.append([fact(user_id="日" * LONGEST_NAME, source_uri="x:" + "y" * 9000, project_id="p" * 9000)])
    for write in (store.append, store.upsert, store.preview):
        with pytest.raises(RefusedItem, match="user_id"):
            await write([fact("fine"), fact("not", user_id="u" * (LONGEST_NAME + 1))])
    assert len(await everything(store)) == 1


async def test_one_id_that_two_items_bring_along_is_the_first_ones(store: CollectionStore) -> None:
    one, two = item("One", memory_id=GIVEN), item("Two", memory_id=GIVEN)
    assert [each.memory_id == GIVEN for each in await store.append([one, two, one])] == [True, False]
    three, four = (fact(text, memory_id="018f4e9a-0000-7000-8000-000000000002") for text in ("Three", "Four"))
    done = await store.upsert([three, four])
    assert [each.memory_id == three.memory_id for each in done.inserted] == [True, False]
    assert len({each.memory_id for each in await everything(store)}) == 4
