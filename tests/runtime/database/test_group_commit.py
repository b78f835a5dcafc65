"""Waiting writes are stored together; each is answered separately, after the commit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from sqlalchemy import Connection, insert, select

from runtime.database.connection import Database
from runtime.database.errors import Collision, Unavailable
from runtime.database.group_commit import LARGEST, GroupCommit, Stage
from runtime.database.outage import Outage
from runtime.database.schema import meta

groups: list[int] = []

OPENED = {"master_key_id", "database_id", "keys_id"}
"""The writes of an opening."""


@pytest.fixture(autouse=True)
def _no_groups() -> None:
    groups.clear()


def store(connection: Connection, names: Sequence[str]) -> list[str | Exception]:
    """Stores names; "refused" gets an error, "poison" fails its transaction."""
    groups.append(len(names))
    wanted = [name for name in names if name != "refused"]
    if wanted:
        connection.execute(insert(meta), [{"name": name, "value": ""} for name in wanted])
    if "poison" in names:
        raise ValueError("poison")
    return [ValueError("refused") if name == "refused" else name.upper() for name in names]


STORE = Stage(1, store)


async def stored(database: Database) -> set[str]:
    async with database.read() as connection:
        return set((await connection.execute(select(meta.c.name))).scalars()) - OPENED


async def test_what_waits_is_stored_together_and_answered_in_order(database: Database) -> None:
    names = [f"name {number}" for number in range(300)]
    assert await asyncio.gather(*(database.commits.store(STORE, name) for name in names)) == [n.upper() for n in names]
    assert await stored(database) == set(names)
    assert len(groups) < 30
    assert max(groups) <= LARGEST


async def test_a_refused_piece_concerns_its_waiter_only(database: Database) -> None:
    answers = await asyncio.gather(
        *(database.commits.store(STORE, name) for name in ("a", "refused", "b")), return_exceptions=True
    )
    assert [str(answer) for answer in answers] == ["A", "refused", "B"]
    assert await stored(database) == {"a", "b"}
    assert groups == [3]


async def test_a_piece_that_spoils_its_group_fails_alone(database: Database) -> None:
    answers = await asyncio.gather(
        *(database.commits.store(STORE, name) for name in ("a", "poison", "b")), return_exceptions=True
    )
    assert [str(answer) for answer in answers] == ["A", "poison", "B"]
    assert await stored(database) == {"a", "b"}


async def test_a_collision_is_decided_again(database: Database) -> None:
    collisions = 3

    def collide(connection: Connection, names: Sequence[str]) -> Sequence[str | Exception]:
        nonlocal collisions
        result = store(connection, names)
        if collisions:
            collisions -= 1
            raise Collision
        return result

    assert await database.commits.store(Stage(1, collide), "a") == "A"
    assert len(groups) == 4
    assert await stored(database) == {"a"}


async def test_collisions_without_end_are_told(database: Database) -> None:
    def collide(connection: Connection, names: Sequence[str]) -> list[str | Exception]:
        raise Collision

    answers = await asyncio.gather(
        *(database.commits.store(Stage(1, collide), name) for name in ("a", "b")), return_exceptions=True
    )
    assert [isinstance(answer, Unavailable) for answer in answers] == [True, True]


async def test_stages_share_a_transaction_in_the_order_of_their_ranks(database: Database) -> None:
    seen: list[str] = []

    def note(connection: Connection, names: Sequence[str]) -> list[str | Exception]:
        seen.extend(connection.execute(select(meta.c.name).where(meta.c.name.not_in(OPENED))).scalars())
        return list(names)

    late = Stage(2, note)
    pairs = [(late, "x"), (STORE, "a"), (late, "y"), (STORE, "b")]
    assert await asyncio.gather(*(database.commits.store(stage, name) for stage, name in pairs)) == ["x", "A", "y", "B"]
    assert sorted(seen) == ["a", "b"]
    assert groups == [2]


def outage() -> Outage:
    async def probe() -> None:
        raise Unavailable("away")

    return Outage(probe)


def known(error: Exception) -> Unavailable | None:
    return error if isinstance(error, Unavailable) else None


async def test_what_a_disk_failed_to_sync_is_not_tried_again() -> None:
    tries: list[object] = []

    async def transact(function: object) -> None:
        tries.append(function)

    async def series(commits: GroupCommit) -> None:
        while (transaction := commits.next_transaction()) is not None:
            commits.schedule_retry(transaction, Unavailable("the disk failed", fatal=True))

    commits = GroupCommit(transact, series, known, outage())  # type: ignore[arg-type]
    with pytest.raises(Unavailable, match="the disk failed"):
        await commits.store(STORE, "a")
    assert not tries
    await commits.close()


async def test_work_is_answered_when_no_transaction_can_begin() -> None:
    async def transact(function: object) -> None:
        raise Unavailable("away")

    async def series(commits: GroupCommit) -> None:
        raise Unavailable("away")

    commits = GroupCommit(transact, series, known, outage())  # type: ignore[arg-type]
    answers = await asyncio.gather(*(commits.store(STORE, name) for name in ("a", "b")), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["away", "away"]
    await commits.close()


async def test_what_is_committed_is_not_stored_again_when_the_series_fails_later(database: Database) -> None:
    async def series(commits: GroupCommit) -> None:
        transaction = commits.next_transaction()
        assert transaction is not None
        commits.finish(transaction, await database.transact(transaction.apply))
        raise Unavailable("later")

    commits = GroupCommit(database.transact, series, known, outage())
    assert await commits.store(STORE, "a") == "A"
    await commits.close()
    assert groups == [1]


async def test_a_close_during_an_outage_does_not_wait_for_what_hangs() -> None:
    answering = asyncio.Event()

    async def series(commits: GroupCommit) -> None:
        await answering.wait()
        raise Unavailable("away")

    away = outage()
    commits = GroupCommit(series, series, known, away, answer_seconds=3600)  # type: ignore[arg-type]
    answer: asyncio.Future[str] = commits.put(STORE, "a")
    await asyncio.sleep(0)
    away.begin(Unavailable("away"))
    async with asyncio.timeout(60):
        await commits.close()
    answering.set()
    with pytest.raises(Unavailable, match="away"):
        await answer
    await away.close()
