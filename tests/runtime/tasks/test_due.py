"""A due date is a time, or a day at whose end in the time zone of the user a task is due."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import date
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import insert

from runtime.database.connection import Database
from runtime.database.schema import user_settings
from runtime.errors import UsageError
from runtime.identity.user_settings import read_settings
from runtime.tasks.due import due_text, read_due
from runtime.tasks.task import Due
from tests.cases import each_case

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-12-01T09:00:00Z", "2026-12-01T09:00:00Z"),
        ("2026-12-01t09:00z", "2026-12-01T09:00:00Z"),
        ("2026-12-01T09:00:00.75+01:00", "2026-12-01T08:00:00Z"),
        ("2026-12-01 09:00:00-05:00", "2026-12-01T14:00:00Z"),
        ("2026-07-01T09:00", "2026-07-01T07:00:00Z"),  # in the user's time zone, in summer
        ("2026-12-01T09:00", "2026-12-01T08:00:00Z"),
    ],
)
def test_a_time_is_shown_in_utc(text: str, said: str) -> None:
    due = read_due(text, BERLIN)
    assert due.day is None
    assert due_text(due) == said
    assert read_due(said, None) == due


def test_a_day_ends_in_the_time_zone_of_the_user() -> None:
    due = read_due("2026-12-01", BERLIN)
    assert due == Due(1_796_166_000_000, date(2026, 12, 1))  # 2026-12-01T23:00:00Z
    assert due_text(due) == "2026-12-01"


def test_without_a_time_zone_it_is_that_of_the_machine(machine_in_tokyo: None) -> None:
    assert read_due("2026-12-01", None).at == 1_796_137_200_000  # 2026-12-01T15:00:00Z
    assert due_text(read_due("2026-12-01T09:00", None)) == "2026-12-01T00:00:00Z"


@pytest.fixture
def machine_in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


WRONG = """tomorrow|2026-13-01|2026-02-30|20261201|2026-W49-2|2026-12-01T25:00|2026-12-01T09:00+25:00|9999-12-31
0001-01-01|1969-12-31T23:59:59Z|2026-12-01T09|٢٠٢٦-12-01|2026-12-01\0"""


@each_case("text", ["", *re.split(r"[|\n]", WRONG)])
def test_what_is_neither_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="neither a date nor a time") as refused:
        read_due(text, BERLIN)
    assert "2026-12-01T09:00:00Z" in str(refused.value.hint)


async def test_the_time_zone_is_that_of_the_settings(database: Database) -> None:
    assert (await read_settings(database, "owner")).zone is None
    for user, name in (("owner", "Europe/Berlin"), ("other", "Nowhere/Else"), ("third", "../etc/passwd")):
        row = insert(user_settings).values(user_id=user, time_zone=name, updated_at=0)
        await database.transact(lambda connection, row=row: connection.execute(row))  # type: ignore[misc]
    zones = [(await read_settings(database, user)).zone for user in ("owner", "other", "third")]
    assert zones == [BERLIN, None, None]
