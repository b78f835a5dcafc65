"""A thread is one user's and one agent's, made once, and listed by its last use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest
from sqlalchemy import Connection, text

from runtime.clock import SYSTEM
from runtime.crypto import Unsealable
from runtime.database.connection import Database
from runtime.database.schema import threads as table
from runtime.errors import NotFound, UsageError
from runtime.threads.messages import Messages
from runtime.threads.thread import ThreadPosition, Threads, WantedThread, find_or_make, position_of
from runtime.threads.thread_retention import prune
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.lanes import LONG
from tests.runtime.threads.thread_runs import count, many_threads, plans, reads_everything, said, statements
from tests.runtime.webhooks.candidates import rows


@pytest.fixture
def threads(database: Database, clock: ManualClock) -> Threads:
    return Threads(database, clock)


@pytest.fixture
async def daemons(postgres_url: str) -> AsyncIterator[list[Database]]:
    """Two daemons on one PostgreSQL."""
    opened = [await Database.open(postgres_url, KEY) for _ in range(2)]
    yield opened
    for each in opened:
        await each.close()


async def test_a_user_and_an_agent_have_one_main_thread(database: Database, threads: Threads) -> None:
    found = await asyncio.gather(*(threads.main("owner", "helper") for _ in range(8)))
    assert len({thread.id for thread in found}) == 1
    assert (found[0].kind, found[0].user_id, found[0].agent, found[0].length) == ("main", "owner", "helper", 0)
    others = [await threads.main("ada", "helper"), await threads.main("owner", "other")]
    assert len({thread.id for thread in (*found, *others)}) == 3
    assert await count(database, "threads") == 3


@LONG
async def test_two_daemons_that_need_a_thread_at_once_get_the_same(daemons: list[Database]) -> None:
    kinds = [Threads(each, SYSTEM) for each in daemons]
    for number in range(20):
        agent = f"helper{number}"
        found = await asyncio.gather(
            *(each.main("owner", agent) for each in kinds for _ in range(3)),
            *(each.for_subject("owner", agent, "42") for each in kinds for _ in range(3)),
            *(each.for_delivery("owner", agent, f"delivery-{number}") for each in kinds for _ in range(3)),
        )
        assert [len({thread.id for thread in found[at : at + 6]}) for at in (0, 6, 12)] == [1, 1, 1]


async def test_daemons_that_make_the_same_threads_in_other_orders_do_not_wait_in_a_circle(
    daemons: list[Database],
) -> None:
    def make(connection: Connection, *, turn: int, order: int) -> list[str]:
        made = [WantedThread(f"{turn}-{n}-{order}", "owner", "helper", "keyed", 1, f"{turn}/{n}") for n in range(20)]
        return find_or_make(connection, made[::order])

    for turn in range(10):
        found = await asyncio.gather(
            *(
                each.transact(partial(make, turn=turn, order=order))
                for each, order in zip(daemons, (1, -1), strict=True)
            )
        )
        assert found[0] == found[1][::-1]


async def test_the_thread_of_a_delivery_is_the_same_in_every_attempt(threads: Threads) -> None:
    delivery = "019c5b0e-0000-7000-8000-000000000001"
    first = await threads.for_delivery("owner", "helper", delivery)
    assert (first.id, first.kind) == (delivery, "delivery")
    assert await threads.for_delivery("owner", "helper", delivery) == first


@pytest.mark.parametrize("subject", ["42", "", "a" * 10_000, "日本", "Robert'); DROP TABLE threads;--"])
async def test_each_subject_has_its_thread(threads: Threads, subject: str) -> None:
    found = await threads.for_subject("owner", "helper", subject)
    assert found.subject == subject
    assert await threads.for_subject("owner", "helper", subject) == found
    assert (await threads.for_subject("owner", "helper", subject + "!")).id != found.id
    assert (await threads.for_subject("owner", "other", subject)).id != found.id
    assert (await threads.for_subject("ada", "helper", subject)).id != found.id


@pytest.mark.parametrize("subject", ["alice\x00", "alice\ufffd", "\ud83d"])
async def test_a_subject_that_would_be_stored_as_another_has_no_thread(threads: Threads, subject: str) -> None:
    with pytest.raises(UsageError, match="the subject contains"):
        await threads.for_subject("owner", "helper", subject)
    assert await threads.find("owner", "helper", subject) is None


async def test_every_conversation_is_a_new_one_and_its_title_is_sealed(database: Database, threads: Threads) -> None:
    first = await threads.conversation("owner", "helper", "Plans for 2027")
    second = await threads.conversation("owner", "helper")
    assert (first.title, second.title) == ("Plans for 2027", None)
    assert await threads.get(first.id) == first
    assert (await threads.rename(second, "Renamed 🙂")).title == "Renamed 🙂"
    assert (await threads.rename(second, None)).title is None
    stored = await rows(database, table, "title")
    assert not any(b"Plans" in (row.title or b"") for row in stored)


async def test_a_thread_of_another_user_is_not_found(threads: Threads) -> None:
    thread = await threads.main("ada", "helper")
    assert await threads.get(thread.id, user_id="ada") == thread
    with pytest.raises(NotFound, match=thread.id):
        await threads.get(thread.id, user_id="owner")
    with pytest.raises(NotFound, match="no thread"):
        await threads.get("nothing")
    assert await threads.list("owner") == []


@pytest.mark.parametrize(
    "mistake", [lambda i: i[:-3], lambda i: i[:20], lambda i: f"{i[:9]}x{i[10:]}", lambda i: f" {i} ", str.upper]
)
async def test_the_id_that_is_meant_is_found(threads: Threads, mistake: Callable[[str], str]) -> None:
    made = [await threads.conversation(user, "helper") for user in ("owner", "ada", "owner", "owner")]
    meant = await threads.for_subject("owner", "helper", "7")
    assert await threads.nearest(mistake(meant.id), "owner") == [meant.id]
    assert await threads.nearest(mistake(meant.id), "owner", subjects=False) == []
    assert await threads.nearest(mistake(made[1].id), "owner") == []


async def test_threads_are_listed_by_their_last_message(
    database: Database, clock: ManualClock, threads: Threads
) -> None:
    made = []
    for title in ("a", "b", "c"):
        made.append(await threads.conversation("owner", "helper", title))
        clock.advance(1)
    await threads.main("owner", "other")
    await threads.main("ada", "helper")
    clock.advance(1)
    await Messages(database, clock).append(made[0], [said("hello")])
    assert [thread.title for thread in await threads.list("owner")] == ["a", None, "c", "b"]
    assert [thread.title for thread in await threads.list("owner", agent="helper")] == ["a", "c", "b"]
    assert [thread.agent for thread in await threads.list("owner", kinds=["main"])] == ["other"]
    assert await threads.list("owner", kinds=[]) == []


async def test_the_pages_of_a_list_have_every_thread_once(database: Database, threads: Threads) -> None:
    await many_threads(database, 25)
    await many_threads(database, 25, kind="conversation")
    seen: list[str] = []
    before: ThreadPosition | None = None
    while page := await threads.list("owner", agent="helper", before=before, limit=7):
        assert len(page) <= 7
        seen += [thread.id for thread in page]
        before = position_of(page[-1])
    assert len(seen) == len(set(seen)) == 50
    assert seen[:3] == ["delivery24", "conversation24", "delivery23"]


async def test_nothing_reads_all_of_very_many_threads(database: Database, threads: Threads) -> None:
    await many_threads(database, 20_000)
    with statements() as recorded:
        await threads.main("owner", "helper")
        await threads.for_subject("owner", "helper", "42")
        await threads.for_delivery("owner", "helper", "delivery7")
        await threads.get("delivery9")
        for agent in (None, "helper"):
            await threads.list("owner", agent=agent)
            await threads.list("owner", agent=agent, kinds=["conversation"])
            await threads.list("owner", agent=agent, before=ThreadPosition(10_000, "x"))
        await prune(database, {"helper": 1}, 1100)
    assert await count(database, "threads") == 19_902
    shown = await plans(database, recorded)
    assert len(shown) > 30
    assert [plan for plan in shown if reads_everything(plan)] == []


async def test_a_title_of_another_row_is_not_shown(database: Database, threads: Threads) -> None:
    first = await threads.conversation("owner", "helper", "one")
    second = await threads.conversation("owner", "helper", "two")
    moved = text("UPDATE threads SET title = (SELECT title FROM threads WHERE id = :one) WHERE id = :two")
    async with database.write() as connection:
        await connection.execute(moved, {"one": first.id, "two": second.id})
    with pytest.raises(Unsealable, match="moved from another row"):
        await threads.get(second.id)
