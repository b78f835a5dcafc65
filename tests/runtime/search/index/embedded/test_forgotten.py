"""Deleted or changed text soon disappears from an index's files; a sealed one never contains a word."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvloop

from runtime.search.entry import EntryFilter, IndexEntry
from runtime.search.index import open_index
from runtime.search.index.embedded import access, sqlcipher
from runtime.search.index.index import Index
from tests.clocks import until
from tests.lanes import LONG
from tests.runtime.search.index.entries import entry

KEY, OTHER_KEY = bytes(range(32)), bytes(32)
WORDS = 12
LETTERS = "bcdfghjk"  # letters of which no English ending consists, which the stemmer would remove
TAIL = 10


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "SCRUB_SECONDS", 0.05)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "index" / "memory.db"


@pytest.fixture(params=[False, True], ids=["readable", "sealed"])
def sealed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
async def index(sealed: bool, file: Path) -> AsyncIterator[Index]:
    opened = await open_index(None, file, {}, key=KEY if sealed else None)
    yield opened
    await opened.close()


def stored(file: Path) -> bytes:
    """Return every byte in the folder of the index, also while it is written."""
    found = []
    for path in sorted(file.parent.iterdir()):
        try:
            found.append(path.read_bytes())
        except FileNotFoundError:
            continue
    return b"\n".join(found).lower()


def left(file: Path, words: Sequence[str]) -> list[str]:
    there = stored(file)
    return [word for word in words if word.encode() in there]


def left_of(file: Path, words: Collection[str]) -> list[str]:
    """As `left`, in one pass, of words that are made of `LETTERS`. Their second halves are looked for: where FTS5 keeps
    a word that begins as the one before it does, it keeps its end alone."""
    ends = {word[-TAIL:].encode(): word for word in words}
    runs = re.findall(rb"[%s]{%d,}" % (LETTERS.encode(), TAIL), stored(file))
    return sorted({ends[part] for run in runs for part in _pieces(run) if part in ends})


def _pieces(run: bytes) -> Iterator[bytes]:
    return (run[at : at + TAIL] for at in range(len(run) - TAIL + 1))


def nothing_of(file: Path, words: Sequence[str]) -> Callable[[], bool]:
    return lambda: not left(file, words)


def said(number: int, *words: str) -> IndexEntry:
    about = {"tags": (f"tag{words[0]}",), "other_sources": (f"file:///{words[0]}.md",)}
    return entry(f"e{number}", " ".join(words), order=number, **about)


def test_an_index_that_is_closed_before_its_words_are_overwritten_is_left_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run on the daemon's event loop."""
    monkeypatch.setattr(access, "SCRUB_SECONDS", 1)
    wrong: list[dict[str, Any]] = []

    async def closed_at_once() -> None:
        loop, later = asyncio.get_running_loop(), asyncio.Event()
        loop.set_exception_handler(lambda _, context: wrong.append(context))
        index = await open_index(None, file, {})
        await index.put("a", "reviewer", "1", [said(1, "qwertzuiop")])
        await index.drop(["a"])
        await index.close()
        loop.call_later(1.5 * access.SCRUB_SECONDS, later.set)
        await later.wait()

    uvloop.run(closed_at_once())
    assert wrong == []
    assert left(file, ["qwertzuiop"]) == []


async def test_words_of_what_is_dropped_changed_or_left_out_are_overwritten(index: Index, file: Path) -> None:
    await index.put("a", "reviewer", "1", [said(1, "qwertzuiop"), said(2, "plumbago"), said(3, "basalt")])
    await index.put("b", "reviewer", "1", [said(4, "quetzalcoatl", "medical")])
    await index.put("a", "reviewer", "2", [said(1, "gneiss"), said(3, "basalt")])
    await index.drop(["b"])
    await until(nothing_of(file, ["qwertzuiop", "plumbago", "quetzalcoatl", "medic", "tagquetzalcoatl"]))
    assert len((await index.keyword(["gneiss"], EntryFilter(), 10)).keys) == 1
    assert len((await index.keyword(["basalt"], EntryFilter(), 10)).keys) == 1


async def test_token_bits_of_what_is_dropped_changed_or_left_out_are_overwritten(index: Index, file: Path) -> None:
    await index.use_model("m", 8, "bits")
    await index.put("a", "reviewer", "1", [said(1, "one"), said(2, "two"), said(3, "three")])
    await index.put("b", "reviewer", "1", [said(4, "four")])
    waiting = await index.pending(10)
    await index.embed(
        [(one, np.ones(8, np.float32)) for one in waiting], [f"bits of {one.text};".encode() for one in waiting]
    )
    await index.put("a", "reviewer", "2", [said(1, "eins"), said(3, "three")])
    await index.drop(["b"])
    await until(nothing_of(file, ["bits of one;", "bits of two;", "bits of four;"]))
    keys = (await index.keyword(["three"], EntryFilter(), 1)).keys
    assert list(await index.tokens(keys)) == [b"bits of three;"]


@LONG
async def test_not_a_word_is_left_after_many_changes_of_all_kinds(index: Index, sealed: bool, file: Path) -> None:
    """SQLite leaves copies in pages that it split, which only such a mixture shows."""
    chance = random.Random(7)
    gone: set[str] = set()
    parts: dict[str, list[IndexEntry]] = {}
    number = 0

    def made() -> IndexEntry:
        nonlocal number
        number += 1
        filling = "y" * chance.randrange(3000 if chance.random() < 0.05 else 200)
        return said(number, "".join(chance.choices(LETTERS, k=2 * TAIL)), filling)

    def forgotten(old: IndexEntry) -> None:
        gone.add(old.text.split()[0])

    await index.use_model("m", 8, "bits")
    for revision in range(60):
        part = f"part-{chance.randrange(8)}"
        entries = parts.setdefault(part, [])
        what = chance.random()
        if not entries or what < 0.5:
            entries += [made() for _ in range(chance.randrange(1, 120))]
        else:
            for old in chance.sample(entries, chance.randrange(1, len(entries) + 1)):
                forgotten(old)
                at = entries.index(old)
                entries[at : at + 1] = [] if what < 0.75 else [replace(made(), id=old.id)]
        await index.put(part, "reviewer", str(revision), entries)
        waiting = await index.pending(500)
        await index.embed(
            [(one, np.ones(8, np.float32)) for one in waiting], [one.text[: TAIL * 2].encode() * 9 for one in waiting]
        )
    assert len(gone) > 500
    kept = {one.text.split()[0] for entries in parts.values() for one in entries}
    await until(lambda: not left_of(file, gone))
    assert left_of(file, kept) == ([] if sealed else sorted(kept))


async def test_what_was_forgotten_just_before_the_end_is_overwritten_at_the_end(file: Path) -> None:
    index = await open_index(None, file, {})
    await index.put("a", "reviewer", "1", [said(1, "qwertzuiop"), said(2, "basalt")])
    await index.put("a", "reviewer", "2", [said(2, "basalt")])
    await index.close()
    assert left(file, ["qwertzuiop", "basalt"]) == ["basalt"]


async def test_what_a_killed_process_left_is_overwritten_after_the_next_start(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "SCRUB_SECONDS", 3600)
    monkeypatch.setattr(access, "LONGEST_SCRUB_WAIT", 3600)
    killed = await open_index(None, file, {})
    await killed.put("a", "reviewer", "1", [said(1, "qwertzuiop"), said(2, "basalt")])
    await killed.put("a", "reviewer", "2", [said(2, "basalt")])
    copy = file.parent.parent / "copy" / file.name
    shutil.copytree(file.parent, copy.parent)
    await killed.close()
    assert left(copy, ["qwertzuiop"])
    monkeypatch.undo()
    monkeypatch.setattr(access, "SCRUB_SECONDS", 0.05)
    index = await open_index(None, copy, {})
    try:
        await until(nothing_of(copy, ["qwertzuiop"]))
        assert len((await index.keyword(["basalt"], EntryFilter(), 10)).keys) == 1
    finally:
        await index.close()


async def test_words_are_overwritten_while_writes_and_searches_go_on(index: Index, file: Path) -> None:
    await index.put("a", "reviewer", "1", [said(1, "qwertzuiop"), said(2, "basalt")])
    await index.put("a", "reviewer", "2", [said(2, "basalt")])
    stop = asyncio.Event()

    async def write() -> None:
        number = 10
        while not stop.is_set():
            number += 1
            await index.put(f"p{number % 5}", "reviewer", str(number), [said(number, f"granite{number}")])
            assert len((await index.keyword(["basalt"], EntryFilter(), 10)).keys) == 1

    writing = asyncio.create_task(write())
    try:
        await until(nothing_of(file, ["qwertzuiop"]))
    finally:
        stop.set()
        await writing


async def test_a_sealed_index_holds_no_word_text_or_vector_at_any_time(file: Path) -> None:
    index = await open_index(None, file, {}, key=KEY)
    words = [f"okapi{number}" for number in range(WORDS)]
    vector = np.arange(1, 9, dtype=np.float32)
    await index.use_model("model-of-the-vectors", 8, "version-of-the-bits")
    for number, word in enumerate(words):
        await index.put(f"part-{number}", "reviewer", "1", [said(number, word)])
        await index.embed([(one, vector) for one in await index.pending(10)], [b"the bits of the tokens"])
        assert left(file, [*words, "reviewer", "entries", "model-of-the-vectors", "of-the-bits", "the bits of"]) == []
    assert (vector / np.linalg.norm(vector)).astype(np.float32).tobytes() not in stored(file)
    assert {path.name for path in file.parent.iterdir()} >= {"memory.db", "memory.db-wal"}
    await index.close()
    assert left(file, words) == []
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        sqlite3.connect(file).execute("SELECT * FROM sqlite_master")


async def test_a_sealed_index_is_there_again_with_its_vectors_under_another_key_too(file: Path) -> None:
    index = await open_index(None, file, {}, key=KEY)
    await index.use_model("m", 8, "bits")
    await index.put("a", "reviewer", "1", [said(1, "okapi"), said(2, "basalt")])
    await index.embed([(one, np.ones(8, np.float32)) for one in await index.pending(10)], [b"1", b"2"])
    await index.reseal(OTHER_KEY)
    assert (await index.stats()).tokenized == 2
    await index.close()
    again = await open_index(None, file, {}, key=OTHER_KEY)
    try:
        await again.use_model("m", 8, "bits")
        assert await again.pending(10) == []
        assert (await again.stats()).embedded == (await again.stats()).tokenized == 2
        assert len((await again.keyword(["okapi"], EntryFilter(), 10)).keys) == 1
    finally:
        await again.close()


@pytest.mark.parametrize("key", [OTHER_KEY, None], ids=["another key", "no key"])
async def test_an_index_sealed_with_another_key_is_made_anew(file: Path, key: bytes | None) -> None:
    index = await open_index(None, file, {}, key=KEY)
    await index.put("a", "reviewer", "1", [said(1, "okapi")])
    await index.close()
    again = await open_index(None, file, {}, key=key)
    try:
        assert await again.parts() == {}
        await again.put("a", "reviewer", "1", [said(1, "okapi")])
        assert len((await again.keyword(["okapi"], EntryFilter(), 10)).keys) == 1
    finally:
        await again.close()


@pytest.mark.parametrize("suffix", ["", "-wal"])
async def test_a_sealed_file_that_somebody_wrote_into_is_not_believed(file: Path, suffix: str) -> None:
    index = await open_index(None, file, {}, key=KEY)
    await index.put("a", "reviewer", "1", [said(number, f"okapi{number}") for number in range(400)])
    copy = file.parent.parent / "copy" / file.name
    shutil.copytree(file.parent, copy.parent)
    await index.close()
    if not suffix:
        shutil.copyfile(file, copy)
        Path(f"{copy}-wal").unlink()
    changed = Path(f"{copy}{suffix}")
    held = bytearray(changed.read_bytes())
    for at in range(40_000, len(held), 5_000):
        held[at] ^= 1
    changed.write_bytes(held)
    again = await open_index(None, copy, {}, key=KEY)
    try:
        assert await again.parts() == {}  # rebuilt, or as it was before the unreadable part
        await again.put("a", "reviewer", "1", [said(1, "okapi")])
        assert len((await again.keyword(["okapi"], EntryFilter(), 10)).keys) == 1
    finally:
        await again.close()


async def test_without_what_seals_it_nothing_is_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from runtime.search.errors import IndexFailed

    monkeypatch.setattr(sqlcipher, "sqlcipher", None)
    with pytest.raises(IndexFailed, match="sqlcipher3"):
        await open_index(None, file, {}, key=KEY)
    assert stored(file) == b""
