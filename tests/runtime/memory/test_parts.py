"""The parts of a Markdown store, their revisions, and the appends that it reports."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from runtime.memory.errors import StoreError
from runtime.memory.item import delivery_uri
from runtime.memory.markdown.store import MarkdownStore
from runtime.memory.store_types import Append, Part, Scan
from tests.runtime.memory.texts import WHEN, fact, item

LOG = "2026-02-14.md"
NAME = f"reviewer/logs/{LOG}"


async def revisions(store: MarkdownStore, agent_id: str | None = None) -> dict[str, str]:
    return {part.name: part.revision for part in await store.parts(agent_id)}


@pytest.fixture
def grown(store: MarkdownStore) -> list[Append]:
    """Return the appends that the store reports."""
    told: list[Append] = []
    store.subscribe(on_append=told.append)
    return told


async def test_a_part_is_a_memory_or_the_log_of_a_day_and_named_by_its_path(store: MarkdownStore) -> None:
    await store.append([item(), item(timestamp=WHEN + timedelta(days=1)), fact(), item(agent_id="other")])
    names = ["reviewer/memory.md", NAME, "reviewer/logs/2026-02-15.md"]
    assert list(await revisions(store, "reviewer")) == names
    assert set(await revisions(store)) == {*names, f"other/logs/{LOG}"}
    assert all((store.root / name).is_file() for name in names)


async def test_a_revision_is_new_when_the_file_is_and_the_same_when_it_is_not(
    store: MarkdownStore, folder: Path
) -> None:
    await store.append([item(), fact()])
    first = await revisions(store)
    assert await revisions(store) == first
    memory = folder / "memory.md"
    memory.write_text(memory.read_text() + "- by hand\n")
    second = await revisions(store)
    assert second["reviewer/memory.md"] != first["reviewer/memory.md"]
    assert second[NAME] == first[NAME]
    os.utime(folder / "logs" / LOG, (1000, 1000))
    assert (await revisions(store))[NAME] != first[NAME]


async def test_parts_opens_no_file(store: MarkdownStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.append([item(), fact()])
    monkeypatch.setattr("runtime.memory.files.folder.Folder.open_file", lambda *_: pytest.fail("a file was opened"))
    assert len(await store.parts()) == 2


async def test_a_part_is_read_with_the_line_of_every_item(store: MarkdownStore) -> None:
    await store.append([item("Entry\n- noted"), item("Another"), fact("Known")])
    for part in await store.parts():
        lines = (store.root / part.name).read_text().splitlines()
        for found, place in await store.read(part):
            assert place.file == str(store.root / part.name)
            assert place.line is not None
            assert found.text.partition("\n")[0] in lines[place.line - 1]
    read = [found for part in await store.parts() for found, _ in await store.read(part)]
    assert read == [found async for found in store.scan()]


async def test_what_is_no_part_is_not_read(store: MarkdownStore) -> None:
    await store.append([fact(), fact(agent_id="other")])
    for name in ("reviewer/../memory.md", "reviewer/notes.md", "other/memory.md", "", "memory.md"):
        with pytest.raises(StoreError, match="not a part"):
            await store.read(Part(name, "reviewer", ""))


async def test_what_stands_in_the_place_of_a_file_is_a_part_that_cannot_be_read(
    store: MarkdownStore, folder: Path
) -> None:
    await store.append([fact(), fact(agent_id="other")])
    (folder / "memory.md").unlink()
    (folder / "memory.md").mkdir()
    bad, good = sorted(await store.parts(), key=lambda part: part.agent_id != "reviewer")
    with pytest.raises(StoreError, match=r"memory\.md"):
        await store.read(bad)
    assert len(await store.read(good)) == 1


async def test_an_agent_whose_logs_cannot_be_listed_keeps_no_other_from_being_read(
    store: MarkdownStore, folder: Path
) -> None:
    await store.append([fact(), fact(agent_id="other")])
    (folder / "logs").write_text("not a folder")
    assert set(await revisions(store)) == {"reviewer/memory.md", "other/memory.md"}
    with pytest.raises(StoreError, match="logs"):
        await store.parts("reviewer")


async def test_what_is_added_to_a_log_is_told_between_its_revisions(store: MarkdownStore, grown: list[Append]) -> None:
    first = await store.append([item("One"), item("Two"), fact()])
    after_first = (await revisions(store))[NAME]
    second = await store.append([item("One"), item(source_uri=delivery_uri("1"))])
    assert [append.part for append in grown] == [
        Part(NAME, "reviewer", after_first),
        Part(NAME, "reviewer", (await revisions(store))[NAME]),
    ]
    assert [append.before for append in grown] == [None, after_first]
    assert [append.items for append in grown] == [first[:2], second]
    read = [found for found, _ in await store.read(grown[1].part)]
    assert read == [*grown[0].items, *grown[1].items]


async def test_what_was_there_already_is_no_growth(store: MarkdownStore, grown: list[Append]) -> None:
    one = item(source_uri=delivery_uri("1"))
    await store.append([one])
    await store.append([one])
    await store.append([fact()])
    assert len(grown) == 1


async def test_each_days_log_grows_by_its_own(store: MarkdownStore, grown: list[Append]) -> None:
    await store.append([item("A"), item("B", timestamp=WHEN + timedelta(days=1))])
    assert {append.part.name: [one.text for one in append.items] for append in grown} == {
        NAME: ["A"],
        "reviewer/logs/2026-02-15.md": ["B"],
    }


async def test_growth_begins_at_what_another_process_left(store: MarkdownStore, grown: list[Append]) -> None:
    await store.append([item("One")])
    other = MarkdownStore(store.root)
    await other.append([item("Two")])
    await other.close()
    between = (await revisions(store))[NAME]
    await store.append([item("Three")])
    assert grown[1].before == between != grown[0].part.revision


@pytest.mark.parametrize("tail", [b"a line that was cut off", b"\0\0\0", b"<!-- symbi {"])
async def test_no_growth_is_told_of_a_log_that_had_to_be_mended(
    store: MarkdownStore, folder: Path, grown: list[Append], tail: bytes
) -> None:
    await store.append([item("One")])
    with (folder / "logs" / LOG).open("ab") as log:
        log.write(tail)
    before = (await revisions(store))[NAME]
    await store.append([item("Two")])
    assert len(grown) == 1 or grown[1].before != before


async def test_no_growth_is_told_when_an_editor_saves_the_log_meanwhile(
    store: MarkdownStore, folder: Path, grown: list[Append], monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append([item("One")])
    log, fsync = folder / "logs" / LOG, os.fsync

    def edited_meanwhile(descriptor: int) -> None:
        fsync(descriptor)
        log.write_text(log.read_text().replace("One", "Won"))
        os.utime(log, (1000, 1000))

    monkeypatch.setattr("runtime.memory.files.folder.os.fsync", edited_meanwhile)
    await store.append([item("Two")])
    assert len(grown) == 1
    assert [one.text async for one in store.scan(Scan(agent_id="reviewer"))] == ["Won", "Two"]
