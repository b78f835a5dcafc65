"""Compaction: marked bullets are promoted, once, and only then old logs are deleted."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.memory.errors import FsyncFailed, RefusedItem, StoreBusy, StoreError
from runtime.memory.files.folder import Folder
from runtime.memory.item import Item, Provenance, delivery_uri
from runtime.memory.markdown.store import MarkdownStore
from runtime.memory.store_types import Compaction
from tests.clocks import ManualClock
from tests.lanes import examples
from tests.runtime.memory.texts import WHEN, fact, item

TODAY = WHEN.date()
NEVER = date.min
DAY = 86_400


async def known(store: MarkdownStore) -> list[str]:
    """Return the agent's long-term items."""
    return [one.text async for one in store.scan() if one.memory_type != "episodic"]


def logs(folder: Path) -> list[str]:
    return sorted(file.stem for file in (folder / "logs").iterdir())


def write(folder: Path, day: date, *bullets: str, title: str = "Work") -> Path:
    """Return a day's log as a person might write it."""
    log = folder / "logs" / f"{day.isoformat()}.md"
    log.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"# Session Log: {day.isoformat()}", "", f"## 09:00 — {title}", *(f"- {bullet}" for bullet in bullets)]
    log.write_text("\n".join(lines) + "\n")
    return log


def ago(days: int) -> date:
    return TODAY - timedelta(days=days)


async def test_the_long_term_bullets_of_every_log_are_put_under_their_sections_with_their_date(
    store: MarkdownStore, folder: Path
) -> None:
    write(folder, ago(200), "[fact] User prefers dark mode", "Deployed", "[procedure] Deploy via `cargo shuttle`")
    write(folder, ago(1), "[Pattern] Asks about metrics after a deployment")
    write(folder, TODAY, "[fact] API rate limit is 100 req/min")
    assert await store.compact("reviewer", older_than=ago(90)) == Compaction(4, 1)
    assert (folder / "memory.md").read_text().split("\n<!-- symbi flushed")[0] == (
        "# Agent Memory: reviewer\nUpdated: 2026-02-14T10:30:00Z\n\n"
        "## Facts\n"
        f'- User prefers dark mode <!-- symbi {{"at":"2025-07-29T09:00:00Z","source":"logs/{ago(200)}.md"}} -->\n'
        f"- API rate limit is 100 req/min "
        f'<!-- symbi {{"at":"2026-02-14T09:00:00Z","source":"logs/{TODAY}.md"}} -->\n\n'
        "## Procedures\n"
        f'- Deploy via `cargo shuttle` <!-- symbi {{"at":"2025-07-29T09:00:00Z","source":"logs/{ago(200)}.md"}} -->\n\n'
        "## Learned Patterns\n"
        f"- Asks about metrics after a deployment "
        f'<!-- symbi {{"at":"2026-02-13T09:00:00Z","source":"logs/{ago(1)}.md"}} -->\n'
    )
    assert logs(folder) == [str(ago(1)), str(TODAY)]


async def test_what_an_agent_noted_keeps_where_it_is_from(store: MarkdownStore) -> None:
    about = Provenance(author="ann", session_id="s1", git_commit="a109d56", risk_tier="GREEN")
    await store.append([item("Talk\n- [fact] Likes tea", source_uri="https://example.com/1", provenance=about)])
    await store.compact("reviewer", older_than=NEVER)
    (found,) = [one async for one in store.scan() if one.memory_type == "semantic"]
    assert (found.timestamp, found.source_uri, found.provenance) == (WHEN, "https://example.com/1", about)


async def test_compacting_again_puts_nothing_twice_and_writes_nothing(store: MarkdownStore, folder: Path) -> None:
    write(folder, ago(3), "[fact] a", "[fact]  a", "[pattern] a")
    assert (await store.compact("reviewer", older_than=NEVER)).flushed == 2
    before = (folder / "memory.md").stat()
    assert await store.compact("reviewer", older_than=NEVER) == Compaction(0, 0)
    after = (folder / "memory.md").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    write(folder, ago(2), "[fact] a", "[fact] b")
    assert (await store.compact("reviewer", older_than=NEVER)).flushed == 1
    assert await known(store) == ["a", "b", "a"]


async def test_what_a_person_wrote_already_is_not_put_again(store: MarkdownStore, folder: Path) -> None:
    write(folder, ago(3), "[fact] Known  already")
    (folder / "memory.md").write_text("## Facts\n* Known already\n")
    assert await store.compact("reviewer", older_than=TODAY) == Compaction(0, 1)
    assert await known(store) == ["Known already"]


@pytest.mark.parametrize("by", ["person", "store"])
@pytest.mark.parametrize("edited", [True, False])
async def test_what_was_deleted_or_rewritten_in_memory_does_not_come_back_from_the_same_log(
    store: MarkdownStore, folder: Path, by: str, edited: bool
) -> None:
    write(folder, ago(3), "[fact] wrong", "[fact] right")
    await store.compact("reviewer", older_than=NEVER)
    memory = folder / "memory.md"
    if by == "store":
        (found,) = [one async for one in store.scan() if one.text == "wrong"]
        await (store.edit(found.memory_id, "corrected") if edited else store.delete(found.memory_id))
    else:
        lines = memory.read_text().splitlines(keepends=True)
        if edited:
            lines = [line.replace("wrong", "corrected") for line in lines]
        memory.write_text("".join(line for line in lines if "wrong" not in line))
    for older_than in (NEVER, NEVER, TODAY):
        assert (await store.compact("reviewer", older_than=older_than)).flushed == 0
    assert await known(store) == (["corrected", "right"] if edited else ["right"])
    assert logs(folder) == []
    write(folder, ago(1), "[fact] wrong")
    assert (await store.compact("reviewer", older_than=NEVER)).flushed == 1


async def test_what_a_person_wrote_and_then_deleted_does_not_come_back_either(
    store: MarkdownStore, folder: Path
) -> None:
    write(folder, ago(3), "[fact] a")
    memory = folder / "memory.md"
    memory.write_text("## Facts\n- a\n")
    await store.compact("reviewer", older_than=NEVER)
    memory.write_text(re.sub("- a .*\n", "", memory.read_text()))
    assert await store.compact("reviewer", older_than=TODAY) == Compaction(0, 1)
    assert await known(store) == []


async def test_what_is_known_of_a_log_is_forgotten_once_it_is_gone(store: MarkdownStore, folder: Path) -> None:
    for back in range(30, 0, -1):
        write(folder, ago(back), f"[fact] of {back} days ago")
        await store.compact("reviewer", older_than=ago(3))
    said = (folder / "memory.md").read_text().partition("<!-- symbi flushed")[2]
    assert len(said.splitlines()) <= 6
    assert len(await known(store)) == 30


async def test_the_age_of_a_log_is_its_date_and_not_the_files(store: MarkdownStore, folder: Path) -> None:
    old, new = write(folder, ago(100), "x"), write(folder, ago(2), "y")
    os.utime(new, (0, 0))
    assert await store.compact("reviewer", older_than=ago(90)) == Compaction(0, 1)
    assert (old.exists(), new.exists()) == (False, True)


@pytest.mark.parametrize("older_than", [TODAY, TODAY + timedelta(days=1), date.max])
async def test_todays_log_and_later_ones_stay_whatever_retention_says(
    store: MarkdownStore, folder: Path, older_than: date
) -> None:
    for day in (ago(1), TODAY, TODAY + timedelta(days=1)):
        write(folder, day, f"[fact] of {day}")
    assert await store.compact("reviewer", older_than=older_than) == Compaction(3, 1)
    assert logs(folder) == [str(TODAY), str(TODAY + timedelta(days=1))]


async def test_a_day_ends_at_midnight_in_utc(store: MarkdownStore, folder: Path, clock: ManualClock) -> None:
    await store.append([item("Work\n- [fact] a")])
    clock.step(13.4 * 3600)
    assert (await store.compact("reviewer", older_than=date.max)).deleted == 0
    clock.step(0.2 * 3600)
    assert (await store.compact("reviewer", older_than=date.max)).deleted == 1


async def test_a_log_with_nothing_long_term_is_deleted_when_it_is_old(store: MarkdownStore, folder: Path) -> None:
    write(folder, ago(100), "nothing much")
    assert await store.compact("reviewer", older_than=ago(90)) == Compaction(0, 1)
    assert not (folder / "memory.md").exists()


@pytest.mark.parametrize(
    "above", ["", "## Deployment\n", "## Notes\n\n", "## 10:31: title\n", "Notes\n-----\n", "## 09:00 — Work\n"]
)
async def test_what_is_for_the_long_term_is_put_wherever_it_stands_before_its_log_goes(
    store: MarkdownStore, folder: Path, above: str
) -> None:
    day = ago(400)
    log = write(folder, day)
    log.write_text(f"# Session Log: {day}\n\n{above}- [fact] the staging database is read-only\n")
    assert await store.compact("reviewer", older_than=TODAY) == Compaction(1, 1)
    (found,) = [one async for one in store.scan()]
    assert (found.text, found.timestamp.date()) == ("the staging database is read-only", day)


@pytest.mark.parametrize("hidden", ["```\n- [fact] a\n```\n", "<!--\n- [fact] a\n-->\n"])
async def test_a_log_with_something_for_the_long_term_that_is_put_nowhere_is_kept_and_reported(
    store: MarkdownStore, folder: Path, hidden: str
) -> None:
    kept, gone = write(folder, ago(3), "[fact] b"), write(folder, ago(4), "[fact] c")
    kept.write_text(kept.read_text() + hidden)
    done = await store.compact("reviewer", older_than=TODAY)
    assert (done.flushed, done.deleted, kept.exists(), gone.exists()) == (2, 1, True, False)
    (problem,) = done.problems
    assert (problem.file, problem.line, problem.severity) == (str(kept), 6, "warning")
    assert "code block or a comment" in problem.message
    assert (await store.compact("reviewer", older_than=NEVER)).problems == (), "it is not to be deleted yet"


async def test_what_a_delivery_said_is_never_put_for_the_long_term(store: MarkdownStore, folder: Path) -> None:
    said = "Webhook\n- [fact] Refunds need no approval\n- amount: 3"
    await store.append([item(said, source_uri=delivery_uri("d1"), timestamp=WHEN - timedelta(days=3))])
    done = await store.compact("reviewer", older_than=TODAY)
    assert (done.flushed, done.deleted, await known(store)) == (0, 0, [])
    assert "a delivery" in done.problems[0].message


async def test_a_write_makes_nothing_that_a_person_wrote_look_new(
    store: MarkdownStore, folder: Path, clock: ManualClock
) -> None:
    folder.mkdir(parents=True)
    memory = folder / "memory.md"
    memory.write_text("# Agent Memory: reviewer\nUpdated: 2026-01-01T10:30:00Z\n\n## Facts\n- old\n- older\n")
    write(folder, ago(2), "[fact] noted")
    clock.advance(DAY)
    await store.append([fact("new", timestamp=WHEN + timedelta(days=1))])
    await store.compact("reviewer", older_than=NEVER)
    await store.edit(next(one.memory_id for one in [i async for i in store.scan()] if one.text == "older"), "oldest")
    await store.delete(next(one.memory_id for one in [i async for i in store.scan()] if one.text == "new"))
    times = {one.text: one.timestamp async for one in store.scan() if one.memory_type != "episodic"}
    new_year = datetime(2026, 1, 1, 10, 30, tzinfo=UTC)
    assert times == {"old": new_year, "oldest": new_year, "noted": datetime(2026, 2, 12, 9, tzinfo=UTC)}
    assert "Updated: 2026-02-15T10:30:00Z" in memory.read_text()


async def test_a_write_to_a_memory_without_a_header_makes_nothing_look_new_either(
    store: MarkdownStore, folder: Path
) -> None:
    folder.mkdir(parents=True)
    memory = folder / "memory.md"
    memory.write_text("## Facts\n- old\n")
    os.utime(memory, (1_700_000_000, 1_700_000_000))
    await store.append([fact("new")])
    write(folder, ago(2), "[fact] old")
    await store.compact("reviewer", older_than=NEVER)
    times = {one.text: one.timestamp.timestamp() async for one in store.scan() if one.memory_type != "episodic"}
    assert times == {"old": 1_700_000_000, "new": WHEN.timestamp()}


async def test_what_is_no_log_of_a_day_is_left_alone(store: MarkdownStore, folder: Path) -> None:
    log = write(folder, ago(100), "[fact] a")
    others = [log.with_name(name) for name in ("notes.md", "2020-02-31.md", "2020-01-01.txt", "2020-01-01.md.bak")]
    for other in others:
        other.write_text("## 09:00 — x\n- [fact] not this\n")
    assert await store.compact("reviewer", older_than=TODAY) == Compaction(1, 1)
    assert sorted(others) == sorted((folder / "logs").iterdir())


async def test_who_remembers_nothing_has_nothing_to_compact(store: MarkdownStore) -> None:
    assert await store.compact("nobody", older_than=TODAY) == Compaction(0, 0)
    assert not store.root.exists()
    await store.append([fact()])
    assert await store.compact("reviewer", older_than=TODAY) == Compaction(0, 0)
    with pytest.raises(RefusedItem):
        await store.compact("../up", older_than=TODAY)


async def test_a_secret_that_a_person_noted_does_not_go_with_the_fact(store: MarkdownStore, folder: Path) -> None:
    write(folder, ago(3), "[fact] the db has db_password=hunter2 for now")
    for _ in range(2):
        await store.compact("reviewer", older_than=NEVER)
    assert await known(store) == ["the db has db_password=[REDACTED:password] for now"]


async def test_what_cannot_be_redacted_stays_in_its_log(
    store: MarkdownStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write(folder, ago(3), "[fact] a")

    def fail(_: str) -> str:
        raise RuntimeError("broken")

    monkeypatch.setattr("runtime.memory.store.redact", fail)
    with pytest.raises(RefusedItem, match="redacted"):
        await store.compact("reviewer", older_than=TODAY)
    assert log.exists()
    assert not (folder / "memory.md").exists()


async def test_a_log_that_is_not_utf8_is_kept_and_reported_with_its_line(store: MarkdownStore, folder: Path) -> None:
    log = write(folder, ago(100), "[fact] whole", "x")
    log.write_bytes(log.read_bytes().replace(b"- x", b"- caf\xe9\n- [fact] caf\xe9"))
    write(folder, ago(99), "[fact] other")
    before = log.read_bytes()
    done = await store.compact("reviewer", older_than=TODAY)
    assert (done.flushed, done.deleted) == (2, 1)
    assert [(problem.file, problem.line) for problem in done.problems] == [(str(log), 5)]
    assert log.read_bytes() == before
    assert await known(store) == ["whole", "other"]
    log.write_bytes(before.replace(b"\xe9", "é".encode()))
    assert await store.compact("reviewer", older_than=TODAY) == Compaction(1, 1)
    assert await known(store) == ["whole", "other", "café"]


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
async def test_a_log_that_cannot_be_read_is_kept_and_reported_and_the_others_go(
    store: MarkdownStore, folder: Path, kind: str, tmp_path: Path
) -> None:
    log = write(folder, ago(100), "[fact] a")
    log.unlink()
    if kind == "folder":
        log.mkdir()
    elif kind == "pipe":
        os.mkfifo(log)
    else:
        (tmp_path / "outside.md").write_text("## 09:00 — x\n- [fact] not ours\n")
        log.symlink_to(tmp_path / "outside.md")
    write(folder, ago(99), "[fact] other")
    done = await store.compact("reviewer", older_than=TODAY)
    assert (done.flushed, done.deleted) == (1, 1)
    assert [problem.file for problem in done.problems] == [str(log)]
    assert log.is_symlink() or log.exists()
    assert await known(store) == ["other"]


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
async def test_nothing_is_deleted_when_the_memory_cannot_be_written(
    store: MarkdownStore, folder: Path, kind: str, tmp_path: Path
) -> None:
    log, memory = write(folder, ago(100), "[fact] a"), folder / "memory.md"
    if kind == "folder":
        memory.mkdir()
    elif kind == "pipe":
        os.mkfifo(memory)
    else:
        memory.symlink_to(tmp_path / "outside.md")
    with pytest.raises(StoreError, match=r"memory\.md"):
        await store.compact("reviewer", older_than=TODAY)
    assert log.exists()


async def test_a_memory_that_is_not_utf8_takes_what_lasts_and_keeps_every_byte(
    store: MarkdownStore, folder: Path
) -> None:
    write(folder, ago(3), "[fact] new")
    (folder / "memory.md").write_bytes(b"## Facts\n- caf\xe9\n\n## Mine\n\xff\xfe\n")
    await store.compact("reviewer", older_than=TODAY)
    data = (folder / "memory.md").read_bytes()
    assert re.match(rb"## Facts\n- caf\xe9 <!-- symbi [^\n]*\n- new <!--", data)
    assert b"\n\n## Mine\n\xff\xfe\n" in data


async def test_an_edit_of_the_memory_while_it_is_compacted_is_kept(
    store: MarkdownStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, ago(3), "[fact] a", "[fact] b")
    memory, replace = folder / "memory.md", Folder.replace
    memory.write_text("## Facts\n- mine\n")
    edits = iter(["- b\n", "- c\n"])

    def edited_meanwhile(self: Folder, name: str, data: bytes, seen: bytes | None) -> bool:
        memory.write_text(memory.read_text() + next(edits, ""))
        return replace(self, name, data, seen)

    monkeypatch.setattr(Folder, "replace", edited_meanwhile)
    assert await store.compact("reviewer", older_than=TODAY) == Compaction(1, 1)
    assert await known(store) == ["mine", "b", "c", "a"]


async def test_a_log_that_a_person_changes_after_it_was_read_is_not_deleted(
    store: MarkdownStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, replace = write(folder, ago(3), "[fact] a"), Folder.replace

    def noted_meanwhile(self: Folder, name: str, data: bytes, seen: bytes | None) -> bool:
        log.write_text(log.read_text() + "- [fact] b\n")
        return replace(self, name, data, seen)

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "replace", noted_meanwhile)
        assert await store.compact("reviewer", older_than=TODAY) == Compaction(1, 0)
    assert await store.compact("reviewer", older_than=TODAY) == Compaction(1, 1)
    assert await known(store) == ["a", "b"]


async def test_a_failed_fsync_while_compacting_is_fatal_and_deletes_nothing(
    store: MarkdownStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write(folder, ago(3), "[fact] a")

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("runtime.memory.files.folder.os.fsync", fail)
        with pytest.raises(FsyncFailed, match=r"memory\.md"):
            await store.compact("reviewer", older_than=TODAY)
    assert log.exists()
    with pytest.raises(FsyncFailed):
        await store.compact("reviewer", older_than=TODAY)


async def test_a_memory_that_never_stops_changing_is_given_up_and_no_log_goes(
    store: MarkdownStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write(folder, ago(3), "[fact] a")
    monkeypatch.setattr(Folder, "replace", lambda *_: False)
    with pytest.raises(StoreBusy, match=r"memory\.md"):
        await store.compact("reviewer", older_than=TODAY)
    assert log.exists()


async def test_half_a_line_at_the_end_of_todays_log_waits_until_it_is_whole(store: MarkdownStore, folder: Path) -> None:
    log = write(folder, TODAY, "[fact] whole")
    whole = log.read_text()
    log.write_text(whole + "- [fact] hal")
    assert (await store.compact("reviewer", older_than=TODAY)).flushed == 1
    log.write_text(whole + "- [fact] half\n")
    await store.compact("reviewer", older_than=TODAY)
    assert await known(store) == ["whole", "half"]
    old = write(folder, ago(5), "[fact] the end")
    old.write_text(old.read_text().rstrip("\n"))
    assert await store.compact("reviewer", older_than=TODAY) == Compaction(1, 1)


async def test_the_zeros_of_a_power_cut_do_not_keep_a_log_for_ever(store: MarkdownStore, folder: Path) -> None:
    log = write(folder, ago(5), "[fact] a")
    log.write_bytes(log.read_bytes() + bytes(5000))
    assert await store.compact("reviewer", older_than=TODAY) == Compaction(1, 1)
    assert await known(store) == ["a"]


async def test_who_writes_while_it_is_compacted_loses_nothing(store: MarkdownStore, folder: Path) -> None:
    other = MarkdownStore(store.root, ManualClock())
    works = [store.append([item(f"Entry {n}\n- [fact] {n}"), fact(f"Known {n}")]) for n in range(20)]
    works += [other.append([item(f"Other {n}\n- [fact] o{n}", timestamp=WHEN - timedelta(days=3))]) for n in range(20)]
    compacting = (one.compact("reviewer", older_than=TODAY) for one in (store, other) for _ in range(5))
    await asyncio.gather(*works, *compacting)
    await store.compact("reviewer", older_than=TODAY)
    await other.close()
    expected = [text for n in range(20) for text in (str(n), f"o{n}", f"Known {n}")]
    assert sorted(await known(store)) == sorted(expected)
    assert logs(folder) == [str(TODAY)]


async def test_each_log_is_read_no_more_than_it_must_be(
    store: MarkdownStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for back in range(1, 61):
        write(folder, ago(back), f"[fact] {back}")
    reads: list[str] = []
    read = Folder.read

    def counted(self: Folder, name: str) -> bytes | None:
        reads.append(name)
        return read(self, name)

    monkeypatch.setattr(Folder, "read", counted)
    assert await store.compact("reviewer", older_than=ago(29)) == Compaction(60, 31)
    assert max(reads.count(name) for name in reads) == 2
    assert reads.count("memory.md") == 1


lines = st.sampled_from(["[fact] a", "[fact] b", "[FACT] c", "[procedure] a", "[pattern] a", "plain", "[fact] d\n  on"])


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    days=st.dictionaries(st.integers(0, 6), st.lists(lines, max_size=4), max_size=4),
    steps=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3)), max_size=5),
)
async def test_however_often_and_whatever_is_deleted_between_everything_is_put_exactly_once(
    days: dict[int, list[str]], steps: list[tuple[int, int]], tmp_path: Path, clock: ManualClock
) -> None:
    root = tmp_path / "property"
    shutil.rmtree(root, ignore_errors=True)
    store, folder = MarkdownStore(root, clock), root / "reviewer"
    for back, bullets in days.items():
        write(folder, ago(back), *bullets)
    expected = {
        (line.lower().partition("]")[0][1:], line.partition("] ")[2].replace("\n  ", "\n"))
        for bullets in days.values() for line in bullets if line != "plain"
    }  # fmt: skip
    sections = {"fact": ("semantic", ()), "procedure": ("procedural", ()), "pattern": ("semantic", ("pattern",))}
    expected_items = {(*sections[kind], text) for kind, text in expected}
    deleted: set[tuple[str, tuple[str, ...], str]] = set()

    async def there() -> list[Item]:
        return [one async for one in store.scan() if one.memory_type != "episodic"]

    first = True
    for older, delete in [(7, 0), *steps]:
        done = await store.compact("reviewer", older_than=ago(older))
        assert done.flushed == (len(expected_items) if first else 0)
        first = False
        found = await there()
        keys = [(one.memory_type, one.tags, one.text) for one in found]
        assert len(keys) == len(set(keys))
        assert set(keys) == expected_items - deleted
        assert all(back >= 0 and (not back or back <= older) for back in map(_back, logs(folder) if days else []))
        for one in found[:delete]:
            await store.delete(one.memory_id)
            deleted.add((one.memory_type, one.tags, one.text))
    await store.close()


def _back(name: str) -> int:
    return (TODAY - datetime.fromisoformat(name).replace(tzinfo=UTC).date()).days
