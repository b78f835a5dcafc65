from __future__ import annotations

import asyncio
import errno
import os
import stat
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from runtime.memory.errors import FsyncFailed, NoSuchItem, RefusedItem, StoreBusy, StoreError, Unsupported
from runtime.memory.files import lock as folder_lock
from runtime.memory.files.folder import Folder
from runtime.memory.item import Item, MemoryType, delivery_uri, rfc3339
from runtime.memory.markdown.store import MarkdownStore
from runtime.memory.markdown.text.bullets import Bullet
from runtime.memory.markdown.text.document import MarkdownDocument
from runtime.memory.markdown.text.literal_blocks import Inseparable
from runtime.memory.store import Capability
from runtime.memory.store_types import Scan
from tests.runtime.memory.texts import WHEN, fact, item

LOG = "2026-02-14.md"


async def everything(store: MarkdownStore, wanted: Scan | None = None) -> list[Item]:
    return [one async for one in store.scan(wanted)]


async def test_a_memory_is_laid_out_as_designed_and_for_its_owner_only(store: MarkdownStore, folder: Path) -> None:
    await store.append([item(), fact()])
    modes = {
        str(file.relative_to(store.root.parent)): stat.S_IMODE(file.stat().st_mode)
        for file in store.root.parent.rglob("*")
    }
    assert modes == {
        "agents": 0o700,
        "agents/reviewer": 0o700,
        "agents/reviewer/.lock": 0o600,
        "agents/reviewer/memory.md": 0o600,
        "agents/reviewer/logs": 0o700,
        f"agents/reviewer/logs/{LOG}": 0o600,
    }


async def test_what_is_remembered_can_be_read_by_a_person(store: MarkdownStore, folder: Path) -> None:
    at = WHEN.replace(second=0, microsecond=0)
    await store.append([item("github pull_request opened\n- repository: octo/repo", timestamp=at), fact(timestamp=at)])
    shown = await store.inspect("reviewer")
    assert shown.log == "# Session Log: 2026-02-14\n\n## 10:30 — github pull_request opened\n- repository: octo/repo\n"
    assert shown.memory == (
        "# Agent Memory: reviewer\nUpdated: 2026-02-14T10:30:00Z\n\n"
        '## Facts\n- User prefers dark mode <!-- symbi {"at":"2026-02-14T10:30:00Z"} -->\n'
    )
    assert Path(shown.memory_file) == folder / "memory.md"
    assert shown.day == date(2026, 2, 14)
    assert (await store.inspect("reviewer", date(2026, 2, 13))).log is None


async def test_the_day_of_an_entry_is_that_of_its_time_in_utc(store: MarkdownStore, folder: Path) -> None:
    late = datetime.fromisoformat("2026-02-14T23:30:00-05:00")
    await store.append([item(timestamp=late)])
    assert [file.name for file in (folder / "logs").iterdir()] == ["2026-02-15.md"]


async def test_a_fact_that_is_known_is_not_written_again(store: MarkdownStore) -> None:
    assert len(await store.append([fact("One  two"), fact("One two")])) == 1
    assert await store.append([fact("one".title() + " two", tags=("new",))]) == ()
    assert len(await store.append([fact("One two", tags=("pattern",)), item("One two", "procedural")])) == 2


async def test_what_a_person_wrote_is_remembered_and_kept_byte_for_byte(store: MarkdownStore, folder: Path) -> None:
    written = b"\xef\xbb\xbf# My agent\r\n\r\nProse.\r\n\r\n## Facts\r\n* a star\r\n\r\n## Mine\r\n- no item\r\ncaf\xe9"
    folder.mkdir(parents=True)
    (folder / "memory.md").write_bytes(written)
    (found,) = await everything(store)
    assert (found.text, found.memory_type) == ("a star", "semantic")
    await store.append([fact("new")])
    after = (folder / "memory.md").read_bytes()
    at = rfc3339(found.timestamp).encode()
    assert after.count(b' <!-- symbi {"at":"' + at + b'"} -->\r\n') == 1, "what a bullet's time was is said behind it"
    after = after.replace(b' <!-- symbi {"at":"' + at + b'"} -->', b"")
    assert after.replace(b'- new <!-- symbi {"at":"2026-02-14T10:30:07.250000Z"} -->\r\n', b"") == written
    assert [one.text for one in await everything(store)] == ["a star", "new"]


async def test_the_same_text_twice_has_two_ids_that_stay_through_reading_again(store: MarkdownStore) -> None:
    written = await store.append([item("Same"), item("Same"), item("Same")])
    assert len({one.memory_id for one in written}) == 3
    assert [one.memory_id for one in await everything(store)] == [one.memory_id for one in written]
    fresh = MarkdownStore(store.root)
    (fourth,) = await fresh.append([item("Same")])
    await fresh.close()
    assert (await everything(store))[3].memory_id == fourth.memory_id


async def test_a_persons_edit_while_we_write_is_never_overwritten(
    store: MarkdownStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append([fact("First")])
    memory, replace = folder / "memory.md", Folder.replace
    edits = iter(range(3))

    def edited_meanwhile(self: Folder, name: str, data: bytes, known: bytes | None) -> bool:
        for number in edits:
            memory.write_text(f"{memory.read_text()}- by hand {number}\n")
            break
        return replace(self, name, data, known)

    monkeypatch.setattr(Folder, "replace", edited_meanwhile)
    await store.append([fact("Second")])
    assert [one.text for one in await everything(store)] == ["First", "by hand 0", "by hand 1", "by hand 2", "Second"]


async def test_a_memory_that_never_stops_changing_is_given_up_and_named(
    store: MarkdownStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Folder, "replace", lambda *_: False)
    with pytest.raises(StoreBusy, match=r"memory\.md"):
        await store.append([fact()])


@pytest.mark.parametrize("late", ["## Facts\n- mine\n- theirs\n", "## Facts\n- rewritten\n"])
async def test_a_write_without_a_lock_that_comes_with_the_rename_is_kept(
    store: MarkdownStore, folder: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """Write into the file that is about to be replaced, as a shell or an editor may."""
    folder.mkdir(parents=True)
    memory, replace = folder / "memory.md", os.replace
    memory.write_text("## Facts\n- mine\n")
    writes = iter([late])

    def written_meanwhile(source: str, target: str, **more: int) -> None:
        for text in writes if target == "memory.md" else ():
            memory.write_text(text)
        replace(source, target, **more)

    monkeypatch.setattr("runtime.memory.files.folder.os.replace", written_meanwhile)
    await store.append([fact("ours")])
    expected = [line[2:] for line in late.splitlines()[1:]]
    assert [one.text for one in await everything(store)] == [*expected, "ours"]
    assert sorted(file.name for file in folder.iterdir()) == [".lock", "memory.md"]


@pytest.mark.parametrize("there", [True, False])
async def test_a_save_by_rename_while_ours_is_written_to_the_disk_is_kept(
    store: MarkdownStore, folder: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    folder.mkdir(parents=True)
    memory, fsync = folder / "memory.md", os.fsync
    if there:
        memory.write_text("## Facts\n- mine\n")
    saves = iter(["## Facts\n- saved\n"])

    def saved_meanwhile(descriptor: int) -> None:
        for text in saves:
            other = memory.with_suffix(".swap")
            other.write_text(text)
            other.rename(memory)
        fsync(descriptor)

    monkeypatch.setattr("runtime.memory.files.folder.os.fsync", saved_meanwhile)
    await store.append([fact("ours")])
    assert [one.text for one in await everything(store)] == ["saved", "ours"]


async def test_an_edit_and_a_deletion_hide_no_other_item(store: MarkdownStore, folder: Path) -> None:
    folder.mkdir(parents=True)
    text = "## Facts\n<!-- TODO: tidy up\n- alpha <!-- check this\n- beta\n- gamma -->\n- delta\n"
    (folder / "memory.md").write_text(text)
    alpha, beta, *_ = await everything(store)
    await store.delete(alpha.memory_id)
    assert [one.text for one in await everything(store)] == ["beta", "gamma -->", "delta"]
    edited = await store.edit(beta.memory_id, "beth")
    assert (edited.text, edited.timestamp) == ("beth", beta.timestamp)
    assert [one.text for one in await everything(store)] == ["beth", "gamma -->", "delta"]


async def test_items_that_are_deleted_at_once_take_one_write_and_each_is_the_one_that_was_named(
    store: MarkdownStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = await store.append([item("Same", tags=(str(number),)) for number in range(4)])
    facts = await store.append([fact(f"Fact {number}") for number in range(4)])
    replaced: list[str] = []
    replace = Folder.replace

    def counted(folder: Folder, name: str, data: bytes, known: bytes | None) -> bool:
        replaced.append(name)
        return replace(folder, name, data, known)

    monkeypatch.setattr(Folder, "replace", counted)
    gone = [entries[0], entries[2], facts[1], facts[3], facts[3]]
    outcomes = await asyncio.gather(
        *(store.delete(one.memory_id, agent_id="reviewer") for one in gone), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [type(None)] * 4 + [NoSuchItem]
    left = await everything(store)
    assert sorted((one.text, one.tags) for one in left) == [
        ("Fact 0", ()), ("Fact 2", ()), ("Same", ("1",)), ("Same", ("3",))
    ]  # fmt: skip
    assert sorted(replaced) == [LOG, "memory.md"]


async def test_an_item_that_cannot_be_deleted_keeps_no_other_from_it(
    store: MarkdownStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = await store.append([fact(text) for text in ("alpha", "beta", "gamma")])
    without = MarkdownDocument.without

    def unwilling(document: MarkdownDocument, *gone: Bullet) -> MarkdownDocument:
        if any(bullet.text == "beta" for bullet in gone):
            raise Inseparable(1)
        return without(document, *gone)

    monkeypatch.setattr(MarkdownDocument, "without", unwilling)
    outcomes = await asyncio.gather(
        *(store.delete(one.memory_id, agent_id="reviewer") for one in written), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [type(None), StoreError, type(None)]
    assert [one.text for one in await everything(store)] == ["beta"]


async def test_the_chain_around_items_that_are_deleted_at_once_is_closed(store: MarkdownStore) -> None:
    chain = list(await store.append([fact("Fact 0")]))
    for number in range(1, 5):
        chain += await store.append([fact(f"Fact {number}", replaces=chain[-1].memory_id)])
    await asyncio.gather(*(store.delete(chain[number].memory_id, agent_id="reviewer") for number in (1, 2, 4)))
    first, last = await everything(store)
    assert (first.text, last.text) == ("Fact 0", "Fact 3")
    assert (first.replaces, last.replaces) == (None, first.memory_id)


async def test_an_unknown_item_is_not_said_to_be_absent_while_a_log_cannot_be_read(
    store: MarkdownStore, folder: Path
) -> None:
    (there,) = await store.append([fact()])
    (folder / "logs").mkdir()
    os.mkfifo(folder / "logs" / LOG)
    outcomes = await asyncio.gather(
        store.delete(there.memory_id, agent_id="reviewer"),
        store.delete("no such id", agent_id="reviewer"),
        return_exceptions=True,
    )
    assert outcomes[0] is None
    assert isinstance(outcomes[1], StoreError)
    assert not isinstance(outcomes[1], NoSuchItem)
    assert LOG in str(outcomes[1])


async def test_an_edit_to_nothing_is_refused_and_one_to_half_a_character_is_mended(store: MarkdownStore) -> None:
    (kept,) = await store.append([fact()])
    for text in ("", " \n\t"):
        with pytest.raises(RefusedItem, match="blank text"):
            await store.edit(kept.memory_id, text)
    assert await everything(store) == [kept]
    assert (await store.edit(kept.memory_id, "half \ud83d")).text == "half \ufffd"


async def test_a_log_that_an_editor_replaces_while_we_append_gets_the_entry_too(
    store: MarkdownStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append([item("First")])
    log, fsync = folder / "logs" / LOG, os.fsync
    done: list[bool] = []

    def saved_meanwhile(descriptor: int) -> None:
        if not done:
            done.append(True)
            text = log.read_text().replace("## 10:30 — Second", "").replace("First", "Edited")
            other = log.with_suffix(".swap")
            other.write_text(text.partition("\n\n\n")[0])
            other.rename(log)
        fsync(descriptor)

    monkeypatch.setattr("runtime.memory.files.folder.os.fsync", saved_meanwhile)
    await store.append([item("Second", source_uri=delivery_uri("2"))])
    assert [one.text.partition("\n")[0] for one in await everything(store)] == ["Edited", "Second"]


async def test_a_delivery_is_known_again_after_another_process_or_a_person_changed_the_log(
    store: MarkdownStore, folder: Path
) -> None:
    await store.append([item("One", source_uri=delivery_uri("1"))])
    other = MarkdownStore(store.root)
    await other.append([item("Two", source_uri=delivery_uri("2"))])
    assert await store.append([item("Two again", source_uri=delivery_uri("2"))]) == ()
    log = folder / "logs" / LOG
    log.write_text(log.read_text().replace("One", "One, as I would say it"))
    assert await store.append([item("One", source_uri=delivery_uri("1"))]) == ()
    assert await other.append([item("Three", source_uri=delivery_uri("3"))]) != ()
    await other.close()
    assert len(await everything(store)) == 3


async def test_a_delivery_is_known_on_the_day_before_and_the_day_after(store: MarkdownStore) -> None:
    await store.append([item(source_uri=delivery_uri("1"))])
    for days, count in ((1, 0), (-1, 0), (2, 1)):
        fresh = MarkdownStore(store.root)
        again = await fresh.append([item(source_uri=delivery_uri("1"), timestamp=WHEN + timedelta(days=days))])
        assert len(again) == count
        await fresh.close()


async def test_an_append_does_not_read_the_log_again(store: MarkdownStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.append([item(source_uri=delivery_uri("1"))])
    monkeypatch.setattr("runtime.memory.markdown.log_state.read_all", lambda *_: pytest.fail("the log was read"))
    assert len(await store.append([item(source_uri=delivery_uri("2")), item(source_uri=delivery_uri("1"))])) == 1


async def test_all_that_wait_are_written_with_one_fsync(store: MarkdownStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.append([item("First")])
    synced: list[int] = []
    fsync = os.fsync

    def counted(descriptor: int) -> None:
        synced.append(descriptor)
        fsync(descriptor)

    monkeypatch.setattr("runtime.memory.files.folder.os.fsync", counted)
    await asyncio.gather(*(store.append([item(f"Entry {number}")]) for number in range(50)))
    assert len(synced) == 1
    assert len(await everything(store)) == 51


async def test_a_caller_that_is_cancelled_disturbs_no_other(store: MarkdownStore) -> None:
    tasks = [asyncio.create_task(store.append([item(f"Entry {number}")])) for number in range(10)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert all(isinstance(result, tuple) and len(result) == 1 for result in results[1:])


async def test_a_change_that_fails_fails_alone(store: MarkdownStore) -> None:
    (kept,) = await store.append([item("Keep")])
    results = await asyncio.gather(
        store.append([item("New")]),
        store.delete("no such id", agent_id="reviewer"),
        store.edit(kept.memory_id, "Kept", agent_id="reviewer"),
        return_exceptions=True,
    )
    assert isinstance(results[1], NoSuchItem)
    assert {one.text for one in await everything(store)} == {"Kept", "New"}


@pytest.mark.parametrize(
    "link", ["reviewer", "reviewer/logs", "reviewer/memory.md", f"reviewer/logs/{LOG}", "reviewer/.lock"]
)
async def test_no_symbolic_link_leads_out_of_the_store(store: MarkdownStore, link: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "memory.md").write_text("## Facts\n- not ours\n")
    (outside / LOG).write_text("## 10:30 — not ours\n")
    before = {file: file.read_bytes() for file in outside.iterdir()}
    path = store.root / link
    path.parent.mkdir(parents=True)
    path.symlink_to(outside / path.name if path.suffix else outside)
    with pytest.raises(StoreError, match=r"symbolic link|regular file") as caught:
        await store.append([item(), fact()])
    assert str(path) in str(caught.value)
    shown = [one.text for one in await everything(store)]
    assert "not ours" not in shown
    assert {file: file.read_bytes() for file in outside.iterdir()} == before
    if link == "reviewer":
        assert await store.agents() == ()


async def test_a_store_whose_own_path_is_a_link_is_what_the_link_points_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    linked, real = MarkdownStore(tmp_path / "link"), MarkdownStore(tmp_path / "real")
    assert linked.identity == real.identity
    await linked.append([fact()])
    assert len(await everything(real)) == 1
    await linked.close()
    await real.close()


async def test_one_agents_unreadable_memory_is_reported_and_keeps_no_other_from_being_read(
    store: MarkdownStore,
) -> None:
    await store.append([fact(agent_id="bad"), fact(agent_id="good")])
    memory = store.root / "bad" / "memory.md"
    memory.unlink()
    memory.mkdir()
    assert [one.agent_id for one in await everything(store)] == ["good"]
    with pytest.raises(StoreError, match=r"bad/memory\.md"):
        await everything(store, Scan(agent_id="bad"))
    assert [problem.file for problem in (await store.stats()).problems] == [str(memory)]


async def test_a_pipe_in_place_of_a_file_is_refused_at_once(store: MarkdownStore, folder: Path) -> None:
    folder.mkdir(parents=True)
    os.mkfifo(folder / "memory.md")
    with pytest.raises(StoreError, match="regular file"):
        await store.append([fact()])


async def test_a_failed_fsync_is_fatal_to_the_store(store: MarkdownStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.append([item()])

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("runtime.memory.files.folder.os.fsync", fail)
        with pytest.raises(FsyncFailed, match=LOG):
            await store.append([item("Lost?")])
    with pytest.raises(FsyncFailed):
        await store.append([item("After")])
    assert len(await everything(store)) >= 1


_FULL = """
import asyncio, resource, sys
from pathlib import Path
from runtime.memory.errors import StoreError
from runtime.memory.markdown.store import MarkdownStore
from tests.runtime.memory.texts import fact, item

async def main():
    store = MarkdownStore(Path(sys.argv[1]))
    await store.append([item("First"), fact("First")])
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    for new in (item("x" * 5000), fact("x" * 5000)):
        try:
            await store.append([new])
        except StoreError as error:
            print(error.line())
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await store.append([item("Second"), fact("Second")])
    await store.close()

asyncio.run(main())
"""


async def test_a_write_that_the_disk_takes_half_of_leaves_the_file_as_it_was(
    store: MarkdownStore, folder: Path
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _FULL, str(store.root)],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        check=True,
    )
    said = ran.stdout.splitlines()
    assert len(said) == 2
    assert f"logs/{LOG}" in said[0]
    assert "memory.md" in said[1]
    assert all("ulimit" in line for line in said)
    assert sorted(one.text for one in await everything(store)) == ["First", "First", "Second", "Second"]
    assert b"xxx" not in (folder / "logs" / LOG).read_bytes()
    assert sorted(file.name for file in folder.iterdir()) == [".lock", "logs", "memory.md"]


async def test_a_folder_that_someone_holds_too_long_is_busy_and_named(tmp_path: Path) -> None:
    folder = Folder.open_root(tmp_path)
    assert folder is not None
    with (
        folder,
        folder_lock.writing(folder),
        pytest.raises(StoreBusy, match=r"\.lock"),
        folder_lock.writing(folder, patience=0.01),
    ):
        pytest.fail("two held it")


async def test_appends_and_removals_at_once_end_in_one_or_the_other(store: MarkdownStore) -> None:
    works = [store.append([item(f"Entry {number}")]) for number in range(20)]
    await asyncio.gather(*works, *(store.remove("reviewer") for _ in range(5)))
    await store.append([item("Last")])
    assert "Last" in [one.text for one in await everything(store)]


async def test_a_deletion_that_a_crash_cut_off_is_finished_at_the_next_opening(store: MarkdownStore) -> None:
    await store.append([fact()])
    (store.root / "reviewer").rename(store.root / ".reviewer~0123abcd")
    assert await store.agents() == ()
    await store.sweep()
    assert list(store.root.iterdir()) == []


async def test_the_place_of_an_item_is_its_line_at_this_moment(store: MarkdownStore, folder: Path) -> None:
    (entry, known) = await store.append([item("Entry"), fact("Known")])
    memory = folder / "memory.md"
    memory.write_text("A line of mine.\n\n" + memory.read_text())
    places = await store.locate([entry, known])
    for one in (entry, known):
        place = places[one.memory_id]
        assert place.line is not None
        assert one.text in Path(place.file).read_text().splitlines()[place.line - 1]


async def test_a_bullet_without_a_time_has_that_of_the_header_or_of_the_file(
    store: MarkdownStore, folder: Path
) -> None:
    folder.mkdir(parents=True)
    memory = folder / "memory.md"
    memory.write_text("# Agent Memory: reviewer\nUpdated: 2020-01-01T00:00:00Z\n\n## Facts\n- a\n")
    assert (await everything(store))[0].timestamp == datetime(2020, 1, 1, tzinfo=UTC)
    memory.write_text("## Facts\n- a\n")
    os.utime(memory, (1000, 1000))
    assert (await everything(store))[0].timestamp == datetime(1970, 1, 1, 0, 16, 40, tzinfo=UTC)


async def test_stats_count_files_bytes_and_days(store: MarkdownStore, folder: Path) -> None:
    await store.append([fact(), item(), item(timestamp=WHEN + timedelta(days=3))])
    stats = await store.stats()
    sizes = [file.stat().st_size for file in folder.rglob("*.md")]
    assert (stats.agents, stats.files, stats.bytes) == (1, 3, sum(sizes))
    assert (stats.oldest, stats.newest) == (date(2026, 2, 14), date(2026, 2, 17))


async def test_a_scan_reads_no_log_outside_its_times(store: MarkdownStore, folder: Path) -> None:
    await store.append([item(), item(timestamp=WHEN + timedelta(days=3))])
    (folder / "logs" / LOG).unlink()
    (folder / "logs" / LOG).mkdir()
    later = Scan(agent_id="reviewer", since=WHEN + timedelta(days=1))
    assert len(await everything(store, later)) == 1


async def test_an_annotation_that_a_person_broke_is_text(store: MarkdownStore, folder: Path) -> None:
    await store.append([fact("Known", tags=("a",))])
    memory = folder / "memory.md"
    memory.write_text(memory.read_text().replace('"tags":["a"]', '"tags":"a"'))
    (found,) = await everything(store)
    assert found.text.startswith("Known <!-- symbi")


@pytest.mark.parametrize("memory_type", ["episodic", "semantic"])
async def test_no_id_tells_what_another_user_has(store: MarkdownStore, memory_type: MemoryType) -> None:
    bobs = item("The launch is codenamed Bluebird", memory_type, user_id="bob")
    (alone,) = await store.append([bobs])
    await store.remove("reviewer")
    await store.append([bobs.with_fields(user_id="ada"), bobs.with_fields(user_id="owner")])
    (beside,) = await store.append([bobs])
    assert beside.memory_id == alone.memory_id
    assert len({one.memory_id for one in await everything(store)}) == 3
    again = MarkdownStore(store.root)
    assert beside in await everything(again)
    await again.close()


async def test_a_refusal_says_what_the_store_can_do(store: MarkdownStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for capabilities, hint in (
        (MarkdownStore.capabilities, "it can compact, delete, edit, remove"),
        (frozenset[Capability](), "it can only append"),
    ):
        monkeypatch.setattr(MarkdownStore, "capabilities", capabilities)
        with pytest.raises(Unsupported) as caught:
            await store.upsert([fact()])
        assert caught.value.hint == hint
