"""Damaged files are kept, reported with their line, and do not affect other files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.memory.errors import RefusedItem, StoreError
from runtime.memory.files.folder import Folder
from runtime.memory.item import Item
from runtime.memory.markdown.store import MarkdownStore
from runtime.memory.store import LARGEST_TEXT
from runtime.memory.store_types import Scan
from tests.runtime.memory.texts import WHEN, fact, item

DAY = WHEN.date()
LOG = f"{DAY}.md"


async def everything(store: MarkdownStore, wanted: Scan | None = None) -> list[Item]:
    return [one async for one in store.scan(wanted)]


async def lines(store: MarkdownStore) -> list[tuple[str, int | None, str]]:
    problems = (await store.stats()).problems
    return [(str(Path(one.file).relative_to(store.root)), one.line, one.severity) for one in problems]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"## Facts\n- fine\n- caf\xe9\n- more\n", 3),
        (b"\xff\xfe#\x00 \x00U\x00T\x00F\x00-\x001\x006\x00", 1),
        (b"## Facts\r\n- a\r\n- nul \0 here\r\n", 3),
        (b"\x00\xff\xfe\xc0", 1),
        (b"## Facts\n- nul \0\n- \xc0\xaf\n", 2),
        (b"## Facts\n- ends in the middle of a letter \xe6\x97", 2),
    ],
)
async def test_a_memory_that_is_no_text_is_kept_byte_for_byte_and_reported_with_its_line(
    store: MarkdownStore, folder: Path, data: bytes, line: int
) -> None:
    folder.mkdir(parents=True)
    (folder / "memory.md").write_bytes(data)
    await store.append([fact("good", agent_id="other")])
    assert "good" in [one.text for one in await everything(store)]
    assert await lines(store) == [("reviewer/memory.md", line, "warning")]
    written = await store.append([fact("new")])
    assert written[0] in await everything(store)
    after = (folder / "memory.md").read_bytes()
    assert all(piece in after for piece in data.replace(b"\r", b"").split(b"\n") if piece)


async def test_a_log_that_is_no_text_is_kept_byte_for_byte_and_reported_with_its_line(
    store: MarkdownStore, folder: Path
) -> None:
    await store.append([item("One")])
    log = folder / "logs" / LOG
    log.write_bytes(log.read_bytes() + b"- caf\xe9\n")
    before = log.read_bytes()
    await store.append([item("Two")])
    assert log.read_bytes().startswith(before)
    assert [one.text for one in await everything(store)] == ["One\n- caf\ufffd", "Two"]
    assert await lines(store) == [(f"reviewer/logs/{LOG}", before.count(b"\n"), "warning")]
    await store.edit((await everything(store))[1].memory_id, "Three")
    assert log.read_bytes().startswith(before)


async def test_a_file_is_looked_at_again_only_when_it_has_changed(
    store: MarkdownStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append([fact(), item()])
    await store.stats()
    monkeypatch.setattr("runtime.memory.markdown.reader.read_all", lambda *_: pytest.fail("a file was read again"))
    assert (await store.stats()).problems == ()
    monkeypatch.undo()
    (folder / "memory.md").write_bytes(b"\xff")
    assert len(await lines(store)) == 1


def in_its_place(kind: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    make: dict[str, Callable[[], object]] = {
        "folder": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
        "link": lambda: path.symlink_to("/etc/hostname"),
        "dangling link": lambda: path.symlink_to("nowhere"),
        "loop": lambda: path.symlink_to(path.name),
    }
    make[kind]()


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "dangling link", "loop"])
@pytest.mark.parametrize("name", ["memory.md", f"logs/{LOG}"])
async def test_what_stands_in_the_place_of_a_file_is_kept_and_reported_and_other_agents_go_on(
    store: MarkdownStore, folder: Path, kind: str, name: str
) -> None:
    in_its_place(kind, folder / name)
    await store.append([fact("good", agent_id="other"), item("good too", agent_id="other")])
    assert [one.text for one in await everything(store)] == ["good", "good too"]
    assert await lines(store) == [(f"reviewer/{name}", None, "error")]
    with pytest.raises(StoreError, match=name):
        await store.append([fact(), item()])
    with pytest.raises(StoreError, match=name):
        await everything(store, Scan(agent_id="reviewer"))
    assert os.path.lexists(folder / name)


@pytest.mark.parametrize("kind", ["link", "loop", "pipe"])
async def test_what_stands_in_the_place_of_the_logs_is_kept_and_reported_and_the_memory_is_read(
    store: MarkdownStore, folder: Path, kind: str
) -> None:
    await store.append([fact("known")])
    in_its_place(kind, folder / "logs")
    await store.append([fact("also known"), fact("good", agent_id="other")])
    assert (await lines(store))[0][0] == "reviewer/logs"
    stats = await store.stats()
    assert (stats.agents, stats.files) == (2, 2)
    with pytest.raises(StoreError, match="logs"):
        await store.append([item()])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_memory_that_may_not_be_read_is_reported(store: MarkdownStore, folder: Path) -> None:
    await store.append([fact(), fact(agent_id="other")])
    (folder / "memory.md").chmod(0)
    assert [one.agent_id for one in await everything(store)] == ["other"]
    assert await lines(store) == [("reviewer/memory.md", None, "error")]
    folder.chmod(0)
    assert await lines(store) == [("reviewer", None, "error")]
    folder.chmod(0o700)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
async def test_a_file_keeps_its_line_ends_and_its_mark_through_every_change(
    store: MarkdownStore, folder: Path, end: str, bom: str
) -> None:
    text = f"{bom}# Mine{end}{end}## Facts{end}- one{end}- two{end}"
    log = f"{bom}# Session Log: 2026-02-14{end}{end}## 09:00 — one{end}- [fact] three{end}"
    (folder / "logs").mkdir(parents=True)
    (folder / "memory.md").write_bytes(text.encode())
    (folder / "logs" / LOG).write_bytes(log.encode())
    await store.append([fact("four"), item("Two\n- [fact] five")])
    found = {one.text: one.memory_id for one in await everything(store)}
    await store.edit(found["one"], "edited")
    await store.delete(found["two"])
    await store.compact("reviewer", older_than=DAY)
    for name in ("memory.md", f"logs/{LOG}"):
        data = (folder / name).read_bytes()
        assert data.startswith(bom.encode())
        assert data.count(b"\n") == data.count(end.encode())
        assert data.count(b"\xef\xbb\xbf") == (1 if bom else 0)
    assert [one.text for one in await everything(store) if one.memory_type == "semantic"] == [
        "edited", "four", "three", "five",
    ]  # fmt: skip


async def test_lines_of_megabytes_are_read_and_kept(store: MarkdownStore, folder: Path) -> None:
    huge = "word " * 220_000
    (folder / "logs").mkdir(parents=True)
    (folder / "memory.md").write_text(f"{huge}\n\n## Facts\n- {huge}\n- <!-- symbi {{ {huge}\n- small\n")
    (folder / "logs" / LOG).write_text(f"# {huge}\n## 09:00 — {huge}\n- [fact] {huge}\n## 10:00 — small\n")
    before = (folder / "memory.md").read_text()
    await store.append([fact("new")])
    after = iter((folder / "memory.md").read_text())
    assert all(each in after for each in before)
    await store.compact("reviewer", older_than=DAY)
    assert huge.strip() in [one.text for one in await everything(store)]


async def test_an_item_of_ten_megabytes_is_refused_and_the_bound_is_said(store: MarkdownStore) -> None:
    for one in (fact("x" * 10_000_000), item(tags=("x" * 10_000_000,)), item(source_uri="x" * 10_000_000)):
        for write in (store.append, store.preview):
            with pytest.raises(RefusedItem, match="too large") as caught:
                await write([one])
            assert str(LARGEST_TEXT) in str(caught.value.hint)
    (kept,) = await store.append([fact()])
    with pytest.raises(RefusedItem, match="too large"):
        await store.edit(kept.memory_id, "x" * 10_000_000)
    assert await everything(store) == [kept]


@pytest.mark.parametrize("what", ["edit", "delete"])
@pytest.mark.parametrize("name", ["memory.md", f"logs/{LOG}"])
async def test_a_persons_edit_while_an_item_is_changed_is_never_overwritten(
    store: MarkdownStore, folder: Path, what: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = fact("Ours") if name == "memory.md" else item("Ours")
    (kept,) = await store.append([one])
    path, replace = folder / name, Folder.replace
    edits = iter(range(3))

    def edited_meanwhile(self: Folder, file: str, data: bytes, known: bytes | None) -> bool:
        for number in edits:
            added = f"- by hand {number}\n" if name == "memory.md" else f"\n## 11:0{number} — by hand {number}\n"
            path.write_text(path.read_text() + added)
            break
        return replace(self, file, data, known)

    monkeypatch.setattr(Folder, "replace", edited_meanwhile)
    await (store.edit(kept.memory_id, "Changed") if what == "edit" else store.delete(kept.memory_id))
    assert [text.text for text in await everything(store)] == [
        *(["Changed"] if what == "edit" else []), "by hand 0", "by hand 1", "by hand 2",
    ]  # fmt: skip


async def test_a_person_who_rewrites_the_very_item_meanwhile_is_told_that_it_is_gone(
    store: MarkdownStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kept,) = await store.append([fact("Ours")])
    memory, replace = folder / "memory.md", Folder.replace

    def edited_meanwhile(self: Folder, file: str, data: bytes, known: bytes | None) -> bool:
        memory.write_text(memory.read_text().replace("Ours", "Mine"))
        return replace(self, file, data, known)

    monkeypatch.setattr(Folder, "replace", edited_meanwhile)
    with pytest.raises(StoreError, match="no item with the id"):
        await store.edit(kept.memory_id, "Changed")
    assert [one.text for one in await everything(store)] == ["Mine"]
