"""The tokens of calendar feeds, on each database."""

from __future__ import annotations

import pytest

from runtime.database.connection import Database
from runtime.errors import NotFound
from runtime.identity import users
from runtime.tasks.feeds import USED_MS, FeedUser, TaskFeeds
from runtime.tasks.id_lookup import find_task
from runtime.tasks.store import TaskStore
from runtime.tasks.task import Actor, Due
from runtime.tasks.urgent import UrgentTasks
from tests.clocks import ManualClock


async def test_a_token_opens_the_feed_of_its_user_until_another_follows(database: Database, clock: ManualClock) -> None:
    feeds = TaskFeeds(database, clock)
    ada = await users.add(database, "ada", 1)
    first, hers = await feeds.open("owner"), await feeds.open(ada)
    assert await feeds.user_of(first.token) == FeedUser("owner", 1)
    assert await feeds.user_of(hers.token) == FeedUser(ada, 1)
    used = (await feeds.open("owner")).used_at
    clock.advance(USED_MS / 2000)
    await feeds.user_of(first.token)
    assert (await feeds.open("owner")).used_at == used
    clock.advance(USED_MS / 1000)
    await feeds.user_of(first.token)
    assert (await feeds.open("owner")).used_at != used
    second = await feeds.rotate("owner")
    assert [await feeds.user_of(each.token) for each in (first, second)] == [None, FeedUser("owner", 2)]
    assert (await feeds.open("owner")).token == second.token
    await database.transact(lambda connection: users.remove(connection, ada))
    assert await feeds.user_of(hers.token) is None
    with pytest.raises(NotFound):
        await feeds.open(ada)


async def test_a_task_is_named_by_the_end_of_its_id(database: Database, clock: ManualClock) -> None:
    tasks, ada = TaskStore(database, clock), await users.add(database, "ada", 1)
    mine = await tasks.create("owner", Actor("user"), title="Mine")
    hers = await tasks.create(ada, Actor("user"), title="Hers")
    assert await find_task(database, "owner", mine.id[-6:].upper()) == mine.id
    with pytest.raises(NotFound):
        await find_task(database, "owner", hers.id[-12:])


async def test_urgent_and_overdue_tasks_are_found_in_order(database: Database, clock: ManualClock) -> None:
    tasks, urgent = TaskStore(database, clock), UrgentTasks(database, clock)
    now, by = round(clock.now() * 1000), Actor("user")
    late = await tasks.create("owner", by, title="Late", due=Due(now - 2000, None))
    both = await tasks.create("owner", by, title="Both", priority="urgent", due=Due(now - 1000, None))
    plain = await tasks.create("owner", by, title="Plain", priority="urgent")
    later = await tasks.create("owner", by, title="Later", due=Due(now + 1000, None))
    assert [each.task.id for each in await urgent.of("owner")] == [both.id, plain.id, late.id]
    await urgent.mark_said("owner", [both.id])
    assert [each.waits for each in await urgent.of("owner")] == [False, True, True]
    await tasks.update("owner", both.id, {"title": "Changed"}, by)
    assert [each.waits for each in await urgent.of("owner")] == [False, True, True]
    clock.advance(86_400)
    assert [each.task.id for each in await urgent.of("owner") if each.waits] == [both.id, plain.id, late.id, later.id]
