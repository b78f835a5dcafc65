"""The files beside the records: index, state and evidence."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from runtime.memory.errors import FsyncFailed, StoreError
from runtime.memory.files.folder import Folder
from runtime.memory.records import writer as cabinets
from runtime.memory.records.files import folder_index
from runtime.memory.records.files.record import Record
from runtime.memory.records.reader import load
from runtime.memory.records.store import RecordsStore
from runtime.memory.store_types import Scan
from tests.clocks import ManualClock, until
from tests.runtime.memory.records.pieces import (
    events,
    everything,
    last_write,
    of_session,
    only_record,
    read_json,
    record_files,
    reopened,
)
from tests.runtime.memory.texts import WHEN, fact, item

SECRET = "ghp" + "_16C7e42F292c6912E7710c838347Ae178B4a"


async def test_the_index_says_which_records_have_a_tag_or_belong_to_a_session(
    store: RecordsStore, folder: Path
) -> None:
    one, two = await store.append([of_session("One", "s1", tags=("a", "b")), of_session("Two", "s1", tags=("b",))])
    (three,) = await store.append([fact("Three", timestamp=WHEN + timedelta(days=1))])
    found = read_json(folder / "index.json")
    assert found["memory_count"] == 3
    assert found["last_updated"] == "2026-02-14T10:30:00Z"
    assert {tag: set(ids) for tag, ids in found["by_tag"].items()} == {
        "a": {one.memory_id}, "b": {one.memory_id, two.memory_id},
    }  # fmt: skip
    assert set(found["by_session"]["s1"]) == {one.memory_id, two.memory_id}
    assert found["by_type"] == {"fact": [one.memory_id, two.memory_id, three.memory_id]}


async def test_who_looks_for_a_tag_or_a_type_reads_no_other_record(
    store: RecordsStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append([fact(f"f{n}", tags=("many",)) for n in range(30)])
    (one,) = await store.append([fact("one", tags=("many", "few"))])
    (two,) = await store.append([item("two", tags=("few",))])
    (pattern,) = await store.append([fact("three", tags=("pattern",))])
    read: list[str] = []

    def counted(folder: Folder, agent_id: str, name: str) -> Record:
        read.append(name)
        return load(folder, agent_id, name)

    monkeypatch.setattr("runtime.memory.records.reader.load", counted)
    for wanted, expected in (
        (Scan(tags=frozenset({"few"})), [one, two]),
        (Scan(tags=frozenset({"few", "many"})), [one]),
        (Scan(tags_any=frozenset({"few", "pattern"})), [one, two, pattern]),
        (Scan(memory_type="episodic"), [two]),
        (Scan(memory_type="semantic", tags=frozenset({"pattern"})), [pattern]),
        (Scan(tags=frozenset({"none"})), []),
        (Scan(memory_ids=frozenset({one.memory_id})), [one]),
    ):
        read.clear()
        found = await everything(store, wanted)
        assert sorted(each.memory_id for each in found) == sorted(each.memory_id for each in expected)
        assert len(read) == len(expected), wanted
    (folder / "index.json").write_bytes(b"{}")
    assert await everything(store, Scan(memory_type="episodic")) == [two], "without an index everything is read"


@pytest.mark.parametrize("looks", ["scan", "parts", "verify", "append"])
async def test_the_index_follows_what_is_put_there_and_taken_away_by_hand(
    store: RecordsStore, folder: Path, looks: str
) -> None:
    for number in range(4):
        await store.append([fact(str(number), tags=(f"t{number}",))])
    first, *_ = record_files(folder)
    kept = first.read_bytes()
    for there in (False, True):
        first.write_bytes(kept) if there else first.unlink()
        # In memory all this happens within one tick of the clock; such a change is seen a second later.
        os.utime(first.parent, ns=(time.time_ns(), time.time_ns()))
        if looks == "append":
            await store.append([fact("more", tags=("more",))])
        elif looks == "scan":
            await everything(store)
        else:
            await getattr(store, looks)()
        await store.settle(0)
        index = read_json(folder / "index.json")
        assert index["memory_count"] == len(record_files(folder))
        assert ("t0" in index["by_tag"]) is there


async def test_an_index_that_someone_changed_is_not_gone_by(store: RecordsStore, folder: Path) -> None:
    await store.append([fact("one", tags=("a",)), fact("two", tags=("b",))])
    file = folder / "index.json"
    index = read_json(file)
    index["by_tag"]["a"] = index["by_tag"]["b"]
    file.write_text(json.dumps(index))
    assert [each.text for each in await everything(store, Scan(tags=frozenset({"a"})))] == ["one"]
    other = await reopened(store)
    assert read_json(file)["by_tag"]["a"] != index["by_tag"]["b"]
    await other.close()


@pytest.mark.parametrize("damage", ["absent", "stale", "corrupt", "empty", "another shape", "behind"])
async def test_an_index_that_is_not_right_is_made_again_from_the_records(
    damage: str, store: RecordsStore, folder: Path
) -> None:
    await store.append([of_session("One", "s1", tags=("a",))])
    stale = (folder / "index.json").read_bytes()
    await store.append([of_session("Two", "s2", tags=("b",))])
    good, file = read_json(folder / "index.json"), folder / "index.json"
    await store.close()
    match damage:
        case "absent":
            file.unlink()
        case "stale":
            file.write_bytes(stale)
        case "behind":
            (first, *_) = record_files(folder)
            first.unlink()
        case _:
            file.write_bytes({"corrupt": stale[:40], "empty": b"", "another shape": b'{"memory_count": []}'}[damage])
    other = await reopened(store)
    found = read_json(file)
    if damage == "behind":
        assert found["memory_count"] == 1
        assert len(found["by_tag"]) == 1
    else:
        assert found == good
    await other.append([of_session("Three", "s1", tags=("a",))])
    assert read_json(file)["memory_count"] == (2 if damage == "behind" else 3)
    await other.close()


async def test_the_index_of_a_large_folder_is_written_a_moment_later_and_when_asked(
    store: RecordsStore, folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cabinets, "AT_ONCE", 3)
    for number in range(5):
        await store.append([fact(str(number), tags=("t",))])
    assert read_json(folder / "index.json")["memory_count"] == 3
    await until(lambda: clock.sleepers == 1)
    clock.advance(1)
    await until(lambda: read_json(folder / "index.json")["memory_count"] == 5)
    await store.append([fact("5", tags=("t",))])
    await store.settle(0)
    assert len(read_json(folder / "index.json")["by_tag"]["t"]) == 6
    await store.append([fact("6", tags=("t",))])
    await store.close()
    assert read_json(folder / "index.json")["memory_count"] == 7


async def test_the_state_tells_of_the_last_write_and_keeps_what_else_it_says(store: RecordsStore, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "STATE.json").write_text('{"mine": [1], "last_session": {"session_id": "s1", "other": true}}')
    (written,) = await store.append([of_session("One", "s1")])
    assert read_json(folder / "STATE.json") == {
        "mine": [1],
        "last_session": {
            "session_id": "s1",
            "other": True,
            "memory_write": {
                "status": "stored", "id": written.memory_id, "time": "2026-02-14T10:30:00Z", "remote": "not_configured",
            },
        },
    }  # fmt: skip
    (folder / "STATE.json").write_text("not json")
    await store.append([of_session("Two", "s2")])
    assert read_json(folder / "STATE.json")["last_session"]["session_id"] == "s2"


async def test_every_record_has_evidence_that_it_was_kept(store: RecordsStore, folder: Path) -> None:
    (written,) = await store.append([fact()], gates={"tdd_proof": "na:docs-only"})
    (file,) = (folder / "evidence").iterdir()
    assert file.name == f"20260214_103000_{written.memory_id}_memory_store_local.json"
    assert read_json(file) == {
        "event": "memory_store_local",
        "id": written.memory_id,
        "date": "2026-02-14T10:30:00Z",
        "record": record_files(folder)[0].name,
        "checksum": only_record(folder)["checksum"],
        "gates": {"tdd_proof": "na:docs-only"},
    }


async def test_a_write_that_fails_says_so_in_state_and_evidence(
    store: RecordsStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append([fact("First")])

    def fail(*_: object, **__: object) -> str:
        raise StoreError("no room for it", hint="make some")

    monkeypatch.setattr(cabinets, "fields_of", fail)
    with pytest.raises(StoreError, match="no room"):
        await store.append([of_session("Second", "s2")])
    assert last_write(folder)["status"] == "error"
    assert "no room for it" in last_write(folder)["error"]
    assert events(folder) == ["memory_store_error", "memory_store_local"]
    assert [one.text for one in await everything(store)] == ["First"]


async def test_what_is_beside_a_record_never_makes_its_write_a_failed_one(
    store: RecordsStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(cabinets, "write_success", fail)
    monkeypatch.setattr(folder_index.FolderIndex, "write", fail)
    (written,) = await store.append([fact()])
    assert await everything(store) == [written]
    assert not (folder / "index.json").exists()
    monkeypatch.undo()
    await store.settle(0)
    assert read_json(folder / "index.json")["memory_count"] == 1


async def test_an_fsync_that_failed_ends_all_writing(store: RecordsStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise FsyncFailed("cannot bring it to disk")

    monkeypatch.setattr(Folder, "flush", fail)
    with pytest.raises(FsyncFailed):
        await store.append([fact()])
    monkeypatch.undo()
    with pytest.raises(FsyncFailed):
        await store.append([fact()])
    assert [problem.severity for problem in await store.ready()] == ["error"]
