"""An invalid index file is rebuilt and logged once; a failed write is logged, too."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from runtime.search.errors import IndexFailed
from runtime.search.index import open_index
from runtime.search.index.index import Index
from tests.lanes import LONG
from tests.runtime.search.index.checker import agree
from tests.runtime.search.index.entries import (
    DIMENSION,
    EVERYTHING,
    append,
    embed,
    everything,
    near,
    said,
    talk,
    vector,
)

pytestmark = LONG

TEXTS = [f"word number{n} " + "text " * 50 for n in range(300)]


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """Return the closed file of an index with 300 entries."""
    found = tmp_path / "memory.db"
    index = await opened(found)
    await index.put("log", "reviewer", "1", talk(*TEXTS))
    await embed(index)
    await index.close()
    return found


async def opened(path: Path) -> Index:
    index = await open_index(None, path, {})
    await index.use_model("m", DIMENSION)
    return index


async def is_made_anew(path: Path) -> str:
    """Open it, find it empty and fill it again; return what was logged."""
    with capture_logs() as logs:
        index = await opened(path)
        try:
            assert await index.parts() == {}
            await index.put("log", "reviewer", "1", talk("one", "two"))
            await embed(index)
            assert await said(index, "one") == ["e0", "e1"]
            assert len(await near(index, "one")) == 2
        finally:
            await index.close()
    assert agree(path) == 2
    ((reason, level),) = [(line["reason"], line["log_level"]) for line in logs if line["event"] == "index_rebuilt"]
    assert level == "warning"
    assert logs[0]["file"] == str(path)
    return str(reason)


def garbage(path: Path) -> None:
    path.write_bytes(b"This is no database. " * 500)


def zeros(path: Path) -> None:
    path.write_bytes(bytes(50_000))


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_to_a_page(path: Path) -> None:
    os.truncate(path, 4096)


def cut_in_the_header(path: Path) -> None:
    os.truncate(path, 50)


def scribbled(path: Path) -> None:
    with path.open("r+b") as file:
        for place in range(4096, path.stat().st_size, 8192):
            file.seek(place)
            file.write(b"\xa5" * 4096)


def statement(*sql: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            for one in sql:
                connection.execute(one)
            connection.commit()

    run.__name__ = sql[0]
    return run


@pytest.mark.parametrize(
    "damage",
    [
        garbage, zeros, cut_short, cut_to_a_page, cut_in_the_header, scribbled,
        statement("PRAGMA user_version = 7000"),
        statement("DROP TABLE vectors"),
        statement("ALTER TABLE entries RENAME content TO other"),
        statement("UPDATE entries SET content = x'c1' WHERE key = 3"),
        statement("UPDATE entries SET position = x'' WHERE key = 3"),
        statement("DELETE FROM words_docsize WHERE id = 3"),
        statement("DELETE FROM entries WHERE key = 3"),
        statement("UPDATE vectors SET vector = x'00' WHERE key = 3"),
        statement("INSERT INTO vectors VALUES (5000, x'00')"),
        statement("DROP TABLE tokens"),
        statement("DROP INDEX tokenized"),
        statement("INSERT INTO tokens VALUES (5000, x'00')"),
        statement("UPDATE words_docsize SET sz = x'ff' WHERE id = 3"),
    ],
    ids=lambda damage: damage.__name__,
)  # fmt: skip
async def test_a_damaged_file_is_made_anew_when_it_is_opened(path: Path, damage: Callable[[Path], None]) -> None:
    damage(path)
    assert await is_made_anew(path)


async def test_a_file_of_another_version_says_which(path: Path) -> None:
    statement("PRAGMA user_version = 7000")(path)
    assert "7000" in await is_made_anew(path)


async def test_another_programs_database_is_not_taken_for_an_index(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    statement("CREATE TABLE entries (key INTEGER PRIMARY KEY, id TEXT)")(path)
    await is_made_anew(path)


@pytest.mark.parametrize("first", ["keyword", "put", "grow", "embed", "nearest", "parts"])
async def test_a_file_that_is_damaged_while_it_is_used_is_made_anew_and_that_is_said_once(
    path: Path, first: str
) -> None:
    index = await opened(path)
    scribbled(path)
    with capture_logs() as logs:
        match first:
            case "keyword":
                assert await said(index, "word") == []
            case "put":
                await index.put("log", "reviewer", "2", talk("one", *TEXTS))
            case "grow":
                assert not await append(index, "log", "reviewer", "1", "2", talk("one", start=300))
            case "embed":
                await index.use_model("another", DIMENSION)
                await embed(index)
            case "nearest":
                found = await index.nearest(vector("word"), EVERYTHING, 10)
                assert await index.entries(found.keys.tolist()) == {}
            case "parts":
                await index.parts()
        await index.parts()
        await index.put("log", "reviewer", "3", talk("one", "two"))
        await embed(index)
        assert await said(index, "two") == ["e1", "e0"]
        assert len(await near(index, "two")) == 2
        await index.close()
    assert agree(path) == 2
    assert [line["event"] for line in logs].count("index_rebuilt") == 1


async def test_damaged_words_are_noticed_by_a_search_and_the_search_answers(path: Path) -> None:
    index = await opened(path)
    statement("UPDATE words_data SET block = x'0102030405060708' WHERE id > 10")(path)
    with capture_logs() as logs:
        assert await said(index, "word") == []
        assert await index.parts() == {}
    assert [line["event"] for line in logs] == ["index_rebuilt"]
    await index.close()


async def test_searches_that_find_the_same_damage_at_once_make_it_anew_once(path: Path) -> None:
    index = await opened(path)
    scribbled(path)
    with capture_logs() as logs:
        found = await asyncio.gather(*(index.keyword(["word"], EVERYTHING, 10) for _ in range(8)))
    assert [one.keys.tolist() for one in found] == [[]] * 8
    assert [line["event"] for line in logs] == ["index_rebuilt"]
    await index.close()


async def test_an_empty_file_or_none_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with capture_logs() as logs:
        for name in ("empty.db", "none.db"):
            await (await opened(tmp_path / name)).close()
    assert logs == []


async def test_a_file_that_was_deleted_is_empty_when_it_is_opened_again(path: Path) -> None:
    path.unlink()
    index = await opened(path)
    assert await index.parts() == {}
    await index.close()


async def test_a_log_that_was_left_without_its_file_is_not_taken_for_one(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    index = await opened(path)
    await index.put("log", "reviewer", "1", talk("one"))
    left = Path(f"{path}-wal").read_bytes()
    await index.close()
    path.unlink()
    Path(f"{path}-wal").write_bytes(left)
    index = await opened(path)
    assert await index.parts() == {}
    await index.put("log", "reviewer", "1", talk("one"))
    await index.close()
    assert agree(path) == 1


async def test_a_folder_that_cannot_be_made_or_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "memory.db", tmp_path / "folder"):
        with pytest.raises(IndexFailed) as failed:
            await open_index(None, path, {})
        assert str(path) in failed.value.line()
        assert "\n" not in failed.value.line()


@pytest.mark.skipif(os.geteuid() == 0, reason="the rights of files do not hold for root")
async def test_a_folder_without_rights_is_one_clear_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(IndexFailed, match="permission denied"):
        await open_index(None, tmp_path / "memory.db", {})


async def test_what_is_remembered_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "index" / "memory.db"
    index = await opened(path)
    await index.put("log", "reviewer", "1", talk("one"))
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert modes == {"memory.db": 0o600, "memory.db-wal": 0o600, "memory.db-shm": 0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700
    await index.close()
    assert [file.name for file in path.parent.iterdir()] == ["memory.db"]


async def test_what_was_dropped_or_cleared_is_not_legible_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    index = await opened(path)
    await index.put("log", "reviewer", "1", talk(*("unmistakable sentence " * 20 for _ in range(50))))
    await index.put("other", "reviewer", "1", talk(*TEXTS[:50], start=1000))
    await index.drop(["log"])
    await index.close()
    assert b"unmistakable sentence" not in path.read_bytes()
    index = await opened(path)
    await index.clear()
    await index.close()
    assert b"number1" not in path.read_bytes()


async def test_the_log_beside_the_file_does_not_grow_without_end(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    index = await opened(path)
    for number in range(40):
        await index.put("log", "reviewer", str(number), talk(*(f"{text} {number}" * 3 for text in TEXTS)))
    assert Path(f"{path}-wal").stat().st_size < 30_000_000
    assert await said(index, "number7", limit=1000) == ["e7"]
    await index.close()
    assert agree(path) == 300


async def test_the_event_loop_goes_on_while_much_is_written_and_searched(tmp_path: Path) -> None:
    index = await opened(tmp_path / "memory.db")
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    turning = asyncio.create_task(turn())
    await index.put("log", "reviewer", "1", talk(*(f"{text} {n}" for n in range(10) for text in TEXTS)))
    written = turns
    await said(index, "word", limit=3000)
    assert written > 10
    assert turns > written
    turning.cancel()
    await index.close()


async def test_a_key_is_given_again_and_the_rows_do_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    index = await opened(path)
    for number in range(30):
        texts = [f"text{n} round{number}" for n in range(20)]
        await index.put("log", "reviewer", f"{number}", talk(*texts, start=20 * number))
        await embed(index)
        assert {one.text for one in (await everything(index)).values()} == set(texts)
    await index.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT max(key) FROM entries").fetchone()[0] <= 40
    assert agree(path) == 20
