"""Damaged records, and how they are found."""

from __future__ import annotations

import errno
import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime.memory.records.files.record import checksum_of, encode
from runtime.memory.records.store import RecordsStore
from runtime.memory.store_types import Scan
from tests.runtime.memory.records.pieces import (
    everything,
    read_json,
    record_files,
    reopened,
    tree,
)
from tests.runtime.memory.texts import WHEN, fact, item

SECRET = "ghp" + "_16C7e42F292c6912E7710c838347Ae178B4a"


async def test_a_damaged_record_is_kept_and_reported_and_the_others_go_on(store: RecordsStore, folder: Path) -> None:
    for number in range(3):
        await store.append([fact(str(number), timestamp=WHEN + timedelta(seconds=number))])
    await store.append([fact("Elsewhere", agent_id="other")])
    damaged = record_files(folder)[1]
    good = damaged.read_bytes()
    damaged.write_bytes(good[:70])
    assert [one.text for one in await everything(store, Scan(agent_id="reviewer"))] == ["0", "2"]
    (told,) = await store.ready()
    assert (told.file, told.severity) == (str(damaged), "warning")
    (problem,) = (await store.stats()).problems
    assert problem.file == str(damaged)
    checked, problems = await store.verify()
    assert (checked, problems) == (4, (problem,))
    assert (await store.verify("other")) == (1, ())
    assert damaged.read_bytes() == good[:70]
    await store.append([fact("3")])
    damaged.write_bytes(good)
    assert len(await everything(store, Scan(agent_id="reviewer"))) == 4
    assert (await store.stats()).problems == ()
    assert (await store.verify())[1] == ()
    assert await store.ready() == ()


async def test_verify_finds_what_was_tampered_with_renamed_taken_away_or_put_there(
    store: RecordsStore, folder: Path
) -> None:
    for number in range(6):
        await store.append([fact(f"Fact {number}", timestamp=WHEN + timedelta(seconds=number))])
    files = record_files(folder)
    assert await store.verify() == (6, ())
    files[0].write_bytes(files[0].read_bytes().replace(b"Fact 0", b"Fict 0"))
    forged = read_json(files[1]) | {"id": ""}
    files[1].write_bytes(encode(forged | {"checksum": checksum_of(forged)}))
    files[2].rename(folder / "hidden.json")
    files[3].unlink()
    shutil.copy(files[4], folder / files[4].name.replace("20260214", "20260215"))
    files[5].write_bytes(b"")
    checked, problems = await store.verify("reviewer")
    assert checked == 5
    said = "\n".join(f"{Path(problem.file).name}: {problem.message}" for problem in problems)
    for file, why in (
        (files[0].name, "checksum"),
        (files[1].name, "no id"),
        ("hidden.json", "not the name of a record"),
        (files[4].name.replace("20260214", "20260215"), "date"),
        (files[5].name, "empty"),
    ):
        assert any(line.startswith(file) and why in line for line in said.splitlines()), said
    assert said.count("was stored, and is missing") == 2
    assert "Fact" not in said


async def test_a_link_in_a_records_place_is_not_followed(store: RecordsStore, folder: Path, tmp_path: Path) -> None:
    await store.append([fact()])
    (file,) = record_files(folder)
    moved = tmp_path / "moved.json"
    file.rename(moved)
    file.symlink_to(moved)
    assert await everything(store) == []
    ((problem,), _) = (await store.verify())[1], None
    assert "symbolic link" in problem.message


async def test_a_file_of_gigabytes_is_not_read(store: RecordsStore, folder: Path) -> None:
    await store.append([fact()])
    (file,) = record_files(folder)
    with file.open("ab") as opened:
        opened.truncate(10 * 1024**3)
    assert await everything(store) == []
    assert "bytes" in (await store.verify())[1][0].message


async def test_what_is_taken_away_and_put_back_just_before_a_write_is_noticed(
    store: RecordsStore, folder: Path
) -> None:
    await store.append([fact("one"), fact("two", timestamp=WHEN + timedelta(days=1))])
    first, _ = record_files(folder)
    kept = first.read_bytes()
    first.unlink()
    assert "is missing" in (await store.verify())[1][0].message
    first.write_bytes(kept)
    await store.append([fact("three", timestamp=WHEN + timedelta(days=2))])
    assert [each.text for each in await everything(store)] == ["one", "two", "three"]
    assert await store.verify() == (3, ())
    first.unlink()
    await store.append([fact("four", timestamp=WHEN + timedelta(days=3))])
    assert [each.text for each in await everything(store)] == ["two", "three", "four"]


@pytest.mark.parametrize("there", [True, False])
async def test_verify_lists_the_folder_itself(store: RecordsStore, folder: Path, there: bool) -> None:
    """A change at the moment of our own write leaves the same modification time of the folder as our write."""
    await store.append([fact("one"), fact("two", timestamp=WHEN + timedelta(days=1))])
    first, _ = record_files(folder)
    kept = first.read_bytes()
    if there:
        first.unlink()
        await store.verify()
    name_index = store._reader.name_index("reviewer")
    first.write_bytes(kept) if there else first.unlink()
    with store._reader.open_folder("reviewer") as opened:
        assert opened is not None
        name_index.note_written(opened)
    checked, problems = await store.verify()
    assert (checked, len(problems)) == ((2, 0) if there else (1, 1))


async def test_reading_and_verifying_write_nothing(store: RecordsStore, tmp_path: Path) -> None:
    await store.append([fact(), item(agent_id="other")])
    before = tree(tmp_path)
    await everything(store)
    await store.verify()
    await store.ready()
    await store.stats()
    await store.inspect("reviewer")
    await store.parts()
    other = await reopened(store)
    await other.close()
    assert tree(tmp_path) == before


async def test_a_folder_that_cannot_be_listed_is_an_agents(
    store: RecordsStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append([fact(), fact(agent_id="planner")])
    scandir = os.scandir

    def exhausted(path: Any = ".") -> Any:
        if isinstance(path, int) and os.path.sameopenfile(path, held):
            raise OSError(errno.EMFILE, "Too many open files")
        return scandir(path)

    held = os.open(folder, os.O_RDONLY)
    try:
        monkeypatch.setattr(os, "scandir", exhausted)
        assert await store.agents() == ("planner", "reviewer")
    finally:
        os.close(held)
