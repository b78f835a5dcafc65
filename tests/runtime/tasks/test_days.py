"""Days at whose end tasks are due end in the new time zone of their user."""

from __future__ import annotations

from datetime import date
from zoneinfo import ZoneInfo

from runtime.database.connection import Database
from runtime.identity import users
from runtime.tasks.days import move_days
from runtime.tasks.due import due_on
from runtime.tasks.store import TaskStore
from runtime.tasks.task import Actor, Due
from tests.clocks import ManualClock

BERLIN, PHOENIX = ZoneInfo("Europe/Berlin"), ZoneInfo("America/Phoenix")
WINTER, SUMMER = date(2026, 12, 1), date(2026, 7, 1)


async def test_days_move_with_the_time_zone_of_their_user(database: Database, clock: ManualClock) -> None:
    tasks, by = TaskStore(database, clock), Actor("user")
    ada = await users.add(database, "ada", 1)

    async def add(day: date, user_id: str = ada) -> str:
        return (await tasks.create(user_id, by, title="Pay rent", due=due_on(day, BERLIN))).id

    winter, summer, ended = [await add(day) for day in (WINTER, SUMMER, WINTER)]
    await tasks.update(ada, ended, {"status": "completed"}, by)
    foreign = await add(WINTER, "owner")
    timed = (await tasks.create(ada, by, title="Call", due=Due(1_796_166_000_000, None))).id
    before = [await tasks.get(ada, task_id) for task_id in (winter, summer, ended, timed)]
    for zone in (PHOENIX, BERLIN):
        await database.transact(lambda connection, zone=zone: move_days(connection, ada, zone))  # type: ignore[misc]
        after = [await tasks.get(ada, task_id) for task_id in (winter, summer, ended, timed)]
        ends = [due_on(WINTER, zone), due_on(SUMMER, zone), due_on(WINTER, zone), Due(1_796_166_000_000, None)]
        assert [task.due for task in after] == ends
    assert after == before, "no task counts as changed"
    assert (await tasks.get("owner", foreign)).due == due_on(WINTER, BERLIN)
