"""The records store beyond the contract of all stores."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from runtime.memory.errors import Unsupported
from runtime.memory.item import Provenance, delivery_uri
from runtime.memory.records.store import RecordsStore
from runtime.memory.store_types import Append, Scan
from tests.runtime.memory.records.pieces import (
    everything,
    read_json,
    record_files,
    reopened,
)
from tests.runtime.memory.texts import WHEN, fact, item

SECRET = "ghp" + "_16C7e42F292c6912E7710c838347Ae178B4a"


# Append-only


async def test_nothing_that_is_kept_is_changed_or_deleted(store: RecordsStore, folder: Path) -> None:
    (written,) = await store.append([fact()])
    before = [file.read_bytes() for file in record_files(folder)]
    for attempt in (
        store.edit(written.memory_id, "x"),
        store.delete(written.memory_id),
        store.compact("reviewer", older_than=WHEN.date()),
        store.remove("reviewer"),
    ):
        with pytest.raises(Unsupported, match="records cannot be changed") as caught:
            await attempt
        assert caught.value.hint
    await store.append([fact("Another")])
    assert before[0] in [file.read_bytes() for file in record_files(folder)]


async def test_equal_facts_are_two_records_for_both_were_said(store: RecordsStore) -> None:
    await store.append([fact(), fact()])
    await store.append([fact()])
    assert len(await everything(store)) == 3


async def test_an_exports_id_is_kept_and_its_second_import_is_none(store: RecordsStore) -> None:
    known = fact().with_fields(memory_id="550e8400-e29b-41d4-a716-446655440000")
    assert await store.append([known]) == (known,)
    assert await store.append([known]) == ()
    (other,) = await store.append([known.with_fields(text="Other", chunk_hash="")])
    assert other.memory_id != known.memory_id
    (odd,) = await store.append([fact("Odd").with_fields(memory_id="../../etc/passwd")])
    assert odd.memory_id.count("-") == 4


async def test_a_delivery_is_found_again_by_another_process(store: RecordsStore) -> None:
    one = item(source_uri=delivery_uri("d1"))
    await store.append([one])
    other = await reopened(store)
    assert await other.append([one.with_fields(timestamp=WHEN + timedelta(days=2))]) == ()
    assert len(await other.append([item("Second", source_uri=delivery_uri("d2"))])) == 1
    assert await store.append([item("Second", source_uri=delivery_uri("d2"))]) == ()
    await other.close()


async def test_no_secret_in_any_field_reaches_any_file(store: RecordsStore) -> None:
    about = Provenance(author=SECRET, session_id=SECRET, task=f"use {SECRET}", git_commit=SECRET, sources=(SECRET,))
    await store.append(
        [fact(f"Use {SECRET}", tags=(SECRET,), source_uri=f"https://u:{SECRET}@example.com", provenance=about)]
    )
    await store.close()
    files = [file for file in store.root.rglob("*") if file.is_file()]
    assert len(files) > 3
    assert not [file for file in files if SECRET.encode() in file.read_bytes()]


async def test_records_of_one_second_come_in_the_order_of_their_times(store: RecordsStore) -> None:
    late, early = (fact(text, timestamp=WHEN.replace(microsecond=at)) for text, at in (("Late", 9), ("Early", 1)))
    await store.append([late])
    await store.append([early])
    assert [one.text for one in await everything(store)] == ["Early", "Late"]
    assert [one.text for one in await everything(store, Scan(newest_first=True))] == ["Late", "Early"]


async def test_many_records_of_many_seconds_come_in_order(store: RecordsStore) -> None:
    many = [fact(f"{n:03}", timestamp=WHEN + timedelta(milliseconds=97 * n)) for n in range(400)]
    await store.append(many[::-1])
    assert [one.text for one in await everything(store)] == [f"{n:03}" for n in range(400)]
    newest = await everything(store, Scan(newest_first=True, limit=3))
    assert [one.text for one in newest] == ["399", "398", "397"]


# Parts and growth


async def test_a_part_is_a_day_and_its_revision_changes_with_what_is_in_it(store: RecordsStore) -> None:
    await store.append([fact("One"), fact("Tomorrow", timestamp=WHEN + timedelta(days=1))])
    first, second = await store.parts()
    assert (first.name, second.name) == ("reviewer/2026-02-14", "reviewer/2026-02-15")
    assert [one.text for one, _ in await store.read(first)] == ["One"]
    await store.append([fact("Two")])
    again = await store.parts("reviewer")
    assert again[0].revision != first.revision
    assert again[1] == second
    other = await reopened(store)
    assert await other.parts() == again
    assert await other.read(second._replace(name="../x")) == []
    await other.close()


async def test_growth_is_told_with_the_revisions_between_which_it_was(store: RecordsStore) -> None:
    told: list[Append] = []
    store.subscribe(on_append=told.append)
    for text, hours in (("One", 0), ("Two", 1), ("Before", -1), ("Three", 2)):
        await store.append([fact(text, timestamp=WHEN + timedelta(hours=hours))])
    assert [[one.text for one in append.items] for append in told] == [["One"], ["Two"], ["Three"]]
    assert told[0].before is None
    assert told[1].before == told[0].part.revision
    assert told[2].before not in {None, told[1].part.revision}
    assert (told[2].part,) == await store.parts()


async def test_records_of_one_second_are_in_a_part_in_the_order_of_their_ids(store: RecordsStore) -> None:
    told: list[Append] = []
    store.subscribe(on_append=told.append)
    texts = ["One", "Two", "Earlier", "Three"]
    for text, microseconds in zip(texts, (5, 9, 7, 9), strict=True):
        await store.append([fact(text, timestamp=WHEN.replace(microsecond=microseconds))])
    assert [one.text for append in told for one in append.items] == texts
    (part,) = await store.parts()
    assert [one.text for one, _ in await store.read(part)] == texts


async def test_who_is_told_of_growth_and_fails_stops_no_write(store: RecordsStore) -> None:
    def fail(_: Append) -> None:
        raise RuntimeError("broken")

    store.subscribe(on_append=fail)
    assert len(await store.append([fact()])) == 1


async def test_a_person_reads_what_is_known_and_what_happened_on_a_day(store: RecordsStore) -> None:
    await store.append(
        [
            fact("Likes tea", tags=("pattern",)),
            item("Deployed\n- v1"),
            item("Later", timestamp=WHEN + timedelta(days=1)),
        ]
    )
    shown = await store.inspect("reviewer", WHEN.date())
    assert shown.memory is not None
    assert shown.log is not None
    assert "[pattern] Likes tea" in shown.memory
    assert "Deployed" in shown.log
    assert "Later" not in shown.log


async def test_many_agents_and_tasks_write_at_once(store: RecordsStore) -> None:
    await asyncio.gather(*(store.append([fact(f"{n}", agent_id=f"a{n % 5}")]) for n in range(100)))
    assert len(await everything(store)) == 100
    for agent in await store.agents():
        assert read_json(store.root / agent / "index.json")["memory_count"] == 20
