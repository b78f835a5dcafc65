"""No statement reaches another user, the host, or anything else than the user's own tables."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import SymbiontError
from runtime.identity import users
from runtime.tables.errors import QuotaExceeded, StatementError, TablesUnavailable
from runtime.tables.quota import Quota
from tests.lanes import EFFORT, LONG
from tests.runtime.tables.sqlite.escapes import ATTEMPTS, HARMLESS, REFUSED, Attempt
from tests.runtime.tables.sqlite.opened import SEES_WORKERS, OpenTables, open_files, opened

QUOTA = Quota(tables=2, rows=10_000, storage=2_000_000)
FUZZ_SECONDS = 600 if EFFORT > 1 else 6
CHECKED_EACH = 1 if EFFORT > 1 else 25
"""Attempts after which it is checked that nothing was reached."""
SEED = int(os.environ.get("SYMBIONT_SEED", "0"))


class Attacked:
    """The owner's tables, and what must stay as it is meanwhile."""

    def __init__(self, sql: OpenTables, folder: Path, ada: str) -> None:
        self.sql = sql
        self._folder = folder
        self._ada = ada
        self._names: dict[str, str] = {}
        self._before: object = None

    async def begin(self) -> None:
        await self.sql.run("CREATE TABLE secrets (text)", user_id=self._ada)
        await self.sql.run("INSERT INTO secrets VALUES ('of ada')", user_id=self._ada)
        (other,) = self.sql.files()
        await self.build()
        (own,) = set(self.sql.files()) - {other}
        self._names = {"{other}": str(other), "{own}": str(own), "{folder}": str(self._folder)}
        (self._folder / "canary").write_text("canary")
        self._before = self._seen()

    async def build(self) -> None:
        """Make the owner's tables anew."""
        for table in await self.sql.tables.tables("owner"):
            name = table.name.replace('"', '""')
            await self.sql.run(f'DROP TABLE "{name}"', quota=QUOTA)
        await self.sql.run("CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT)", quota=QUOTA)
        await self.sql.run("CREATE TABLE money (id INTEGER PRIMARY KEY, amount NUMERIC)", quota=QUOTA)
        await self.sql.run("INSERT INTO notes (text) VALUES ('a'), ('b'), ('c')", quota=QUOTA)

    async def attempt(self, attempt: Attempt) -> SymbiontError | None:
        """Run an attempt; return its error. Anything that is no error of this product fails the test."""
        statement, parameters = attempt if isinstance(attempt, tuple) else (attempt, [])
        failure = None
        try:
            await self.sql.run(self._named(statement), self._named(parameters), quota=QUOTA)
        except SymbiontError as error:
            failure = error
        assert failure is None or failure.line().isprintable()
        return failure

    async def check(self) -> None:
        """Assert that nothing but the owner's tables has changed, and that these can be used."""
        assert self._seen() == self._before
        assert await self.sql.value("SELECT text FROM secrets", user_id=self._ada) == "of ada"
        assert await self.sql.value("SELECT 1 AS a") == 1
        own = Path(self._names["{own}"])
        for worker in self.sql.workers() if SEES_WORKERS else ():
            found = {str(each) for each in open_files(worker) if str(each).startswith("/") and each.name != "null"}
            assert len([each for each in found if each.endswith(".db")]) == 1
            assert {each.removesuffix("-wal") for each in found} <= {str(own), self._names["{other}"]}
        assert own.stat().st_size < 4 * QUOTA.storage
        schema = await self.sql.run("SELECT DISTINCT type FROM sqlite_master")
        assert {row[0] for row in schema.rows} <= {"table", "index"}

    def _seen(self) -> object:
        """Return what must stay as it is: files and their contents, outside the owner's file. `/` is where workers are;
        the folder of the tests has files that others make."""
        listed = [sorted(os.listdir(each)) for each in ("/", self._folder)]  # noqa: PTH208 - also hidden
        names = [each.name for each in self.sql.files()]
        return listed, names, (self._folder / "canary").read_text(), Path(self._names["{other}"]).read_bytes()

    def _named(self, value: Any) -> Any:
        if isinstance(value, str):
            for name, path in self._names.items():
                value = value.replace(name, path)
            return value
        if isinstance(value, dict):
            return {name: self._named(each) for name, each in value.items()}
        return [self._named(each) for each in value] if isinstance(value, list) else value


@pytest.fixture
async def attacked(tmp_path: Path) -> AsyncIterator[Attacked]:
    (tmp_path / "state").mkdir()
    (tmp_path / "elsewhere").mkdir()
    async with opened(tmp_path / "state") as sql:
        found = Attacked(sql, tmp_path / "elsewhere", await users.add(sql.database, "ada", 0))
        await found.begin()
        yield found


def test_there_are_many_attempts() -> None:
    assert len(set(map(str, ATTEMPTS))) == len(ATTEMPTS) > 250


async def test_every_attempt_is_refused_or_harmless(attacked: Attacked) -> None:
    for number, attempt in enumerate(REFUSED):
        error = await attacked.attempt(attempt)
        assert isinstance(error, StatementError | QuotaExceeded), f"{attempt!r:.200}: {error!r}"
        if number % CHECKED_EACH == 0:
            await attacked.check()
    assert [each.name for each in await attacked.sql.tables.tables("owner")] == ["money", "notes"]
    assert await attacked.sql.value("SELECT count(*) AS n FROM notes") == 3
    for attempt in HARMLESS:
        error = await attacked.attempt(attempt)
        assert not isinstance(error, TablesUnavailable), f"{attempt!r:.200}: {error!r}"
    await attacked.check()


async def test_no_attempt_works_for_many_rows_either(attacked: Attacked) -> None:
    for attempt in REFUSED:
        statement, parameters = attempt if isinstance(attempt, tuple) else (attempt, [])
        with pytest.raises(SymbiontError):
            await attacked.sql.tables.run_for_each("owner", statement, [parameters, parameters], QUOTA)
    await attacked.check()


@LONG
async def test_mutations_of_the_attempts_are_refused_or_harmless(attacked: Attacked) -> None:
    """`SYMBIONT_SEED` chooses other mutations than those of every run."""
    chance = random.Random(SEED)
    end = time.monotonic() + FUZZ_SECONDS
    count = unavailable = 0
    while time.monotonic() < end:
        attempts = [mutated(chance) for _ in range(20)]
        for attempt in attempts:
            error = await attacked.attempt(attempt)
            # An error of the worker itself is allowed only if a new one works.
            unavailable += isinstance(error, TablesUnavailable)
        count += len(attempts)
        await attacked.check()
        if count % 200 == 0:
            await attacked.build()
    print(f"{count} mutations, {unavailable} workers replaced, seed {SEED}")  # noqa: T201 - the result of a search
    assert unavailable == 0


_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_INSERTED = (
    *(
        "'",
        '"',
        "`",
        "[",
        "]",
        "(",
        ")",
        ";",
        "--",
        "/*",
        "*/",
        ",",
        ".",
        "\n",
        "\x00",
        "\u00a0",
        "?",
        ":a",
        "$b",
        "@c",
    ),
    *("main.", "temp.", "sqlite_master", "sqlite_schema", "pragma_rekey('')", "json_each('[1]')", "notes", "secrets"),
    *("SELECT", "UNION ALL", "WITH", "RECURSIVE", "RETURNING *", "ON CONFLICT DO NOTHING", "WITHOUT ROWID", "STRICT"),
    *("AS", "OVER ()", "COLLATE NOCASE", "NULL", "x'00'", "1e999", "-1", "9223372036854775808", "load_extension('x')"),
    *("EXPLAIN ", "PRAGMA rekey=''", "ATTACH '{other}' AS o", "VACUUM", "GENERATED ALWAYS AS (1)", "REFERENCES money"),
)


def mutated(chance: random.Random) -> Attempt:
    """Return an attempt with a few changes."""
    chosen = chance.choice(ATTEMPTS)
    statement, parameters = chosen if isinstance(chosen, tuple) else (chosen, [])
    for _ in range(chance.randint(1, 4)):
        parts = _WORDS.findall(statement[:3000])
        if not parts:
            parts = [" "]
        at = chance.randrange(len(parts))
        match chance.randrange(7):
            case 0:
                parts.insert(at, chance.choice(_INSERTED))
            case 1:
                del parts[at]
            case 2:
                parts[at] = chance.choice(_INSERTED)
            case 3:
                other = chance.choice(ATTEMPTS)
                parts[at:at] = [" ", (other[0] if isinstance(other, tuple) else other)[:200], " "]
            case 4:
                parts[at] = parts[at].swapcase()
            case 5:
                other_at = chance.randrange(len(parts))
                parts[at], parts[other_at] = parts[other_at], parts[at]
            case _:
                parts[at] = parts[at] * chance.choice((2, 3, 50))
        statement = "".join(parts)
    return statement, parameters
