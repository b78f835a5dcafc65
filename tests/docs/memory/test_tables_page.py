"""The page on SQL tables: its statements run as they stand, in the dialects that it says, and its figures are true."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from runtime.cli.table.import_ import LARGEST
from runtime.cli.table.import_ import MOST_ROWS as MOST_IMPORTED
from runtime.tables.quota import TIERS
from runtime.tables.sql_database import LONGEST_STATEMENT, MOST_BYTES, MOST_ROWS, MOST_SECONDS, SqlDatabase
from tests.clocks import ManualClock
from tests.runtime.tables.postgres.opened import Place, open_tables, owned_database
from tests.runtime.tables.sqlite.opened import opened

PAGE = (Path(__file__).parents[3] / "docs" / "tables.md").read_text(encoding="utf-8")
FREE = TIERS["free"]


def statements(heading: str) -> list[str]:
    """Return the statements below a heading."""
    found = re.search(rf"^### {heading}\n\n```sql\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return [line for line in found[1].splitlines() if line]


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest) -> Iterator[Place | None]:
    """A PostgreSQL database, or None for SQLite."""
    if request.param == "sqlite":
        yield None
    else:
        with owned_database(request.getfixturevalue("postgres")) as made:
            yield made


@pytest.fixture
async def tables(place: Place | None, tmp_path: Path) -> AsyncIterator[tuple[SqlDatabase, str]]:
    """The tables of a user in each dialect."""
    if place is None:
        async with opened(tmp_path) as files:
            yield files.tables, "owner"
    else:
        async with open_tables(place.url, ManualClock()) as schemas:
            yield schemas.tables, schemas.ada


async def test_the_statements_run_as_they_stand(tables: tuple[SqlDatabase, str]) -> None:
    sql, user_id = tables
    own = "SQLite" if sql.dialect == "sqlite" else "PostgreSQL"
    for heading in ("Both dialects", own):
        for statement in statements(heading):
            done = await sql.run(user_id, statement, (), FREE)
            assert done.rows or not statement.startswith(("SELECT", "WITH")), statement
    assert await sql.tables(user_id) == []


async def test_a_blob_is_given_and_exported_as_an_object(tables: tuple[SqlDatabase, str]) -> None:
    sql, user_id = tables
    kind = "BLOB" if sql.dialect == "sqlite" else "BYTEA"
    await sql.run(user_id, f"CREATE TABLE blobs (id INTEGER PRIMARY KEY, raw {kind})", (), FREE)
    await sql.run_for_each(user_id, "INSERT INTO blobs VALUES (?, ?)", [[1, {"base64": "AP8K"}], [2, None]], FREE)
    assert (await sql.run(user_id, "SELECT raw FROM blobs ORDER BY id", (), FREE)).rows == [["AP8K"], [None]]
    page = await sql.page(user_id, "blobs")
    assert [list(row) for row in page.rows] == [[1, {"base64": "AP8K"}], [2, None]]


def test_the_figures_are_those_of_the_code() -> None:
    assert f"{MOST_ROWS:,} rows and {MOST_BYTES // 10**6} MB" in PAGE
    assert f"{MOST_SECONDS:g} s, {LONGEST_STATEMENT:,} characters" in PAGE
    assert f"more than {LARGEST // 10**6} MB of values, or more than {MOST_IMPORTED:,} rows" in PAGE
    for tier, quota in TIERS.items():
        (row,) = re.findall(rf"^\| `{tier}`.*$", PAGE, re.MULTILINE)
        for limit in (quota.tables, quota.rows):
            assert (f"{limit:,}" if limit else "unlimited") in row
