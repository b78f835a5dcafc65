"""Values that are sealed with retired keys are sealed again, and only then the keys are forgotten."""

from __future__ import annotations

import pytest

from runtime.database import resealing
from runtime.database.connection import Database
from runtime.database.resealing import SETTLED_MS, Resealing
from tests.clocks import ManualClock
from tests.conftest import KEY
from tests.runtime.database.keys.sealed_rows import TABLES, fill, opened, prefixes

USERS = {1: "ada", 2: "bob"}
SETTLED = SETTLED_MS / 1000 + 1


def milliseconds(clock: ManualClock) -> int:
    return int(clock.now() * 1000)


@pytest.fixture
def work(database: Database, clock: ManualClock) -> Resealing:
    return Resealing(database, clock)


async def test_a_rotated_key_is_forgotten_when_nothing_is_sealed_with_it_any_more(
    database: Database, work: Resealing, clock: ManualClock
) -> None:
    await database.transact(lambda connection: fill(connection, database.keys, USERS))
    before, sealed = await opened(database), await prefixes(database)
    assert database.keys.rotate(["ada"], milliseconds(clock)) == 1
    clock.advance(1)
    assert await opened(database) == before
    await work.run_if_due()
    after = await prefixes(database)
    assert {user for user, _ in after - sealed} == {"ada"}
    assert len(after) == 2
    # Something sealed before the rotation may still be about to be stored.
    assert [key.holder for key in database.keys.retired] == ["ada"]
    clock.advance(SETTLED)
    await work.run_if_due()
    assert database.keys.retired == []
    assert await opened(database) == before


async def test_what_was_stored_late_with_the_key_before_is_still_moved(
    database: Database, work: Resealing, clock: ManualClock
) -> None:
    await database.transact(lambda connection: fill(connection, database.keys, {1: "ada"}))
    old = [key for key in database.keys.current if key.holder == "ada"]
    database.keys.rotate(["ada"], milliseconds(clock))
    clock.advance(1)
    await work.run_if_due()
    database.keys._current["ada"] = old[0]
    await database.transact(lambda connection: fill(connection, database.keys, {2: "ada"}))
    database.keys.load()
    clock.advance(SETTLED)
    await work.run_if_due()
    assert database.keys.retired == []
    assert len(await prefixes(database)) == 1
    assert len(await opened(database)) >= 2 * len(TABLES)


async def test_what_is_kept_of_a_removed_user_is_sealed_with_the_owners_key(
    database: Database, work: Resealing, clock: ManualClock
) -> None:
    await database.transact(lambda connection: fill(connection, database.keys, USERS))
    before = await opened(database)
    database.keys.forget("ada", milliseconds(clock), kept_by="owner")
    clock.advance(SETTLED)
    await work.run_if_due()
    owners = database.keys.ensure("owner").prefix
    assert {prefix for user, prefix in await prefixes(database) if user == "ada"} == {owners}
    assert [key.holder for key in database.keys.retired] == []
    assert "ada" not in {key.holder for key in database.keys.current}
    assert await opened(database) == before
    # And again with a rotation of the owner's.
    clock.advance(1)
    database.keys.rotate(["owner"], milliseconds(clock))
    clock.advance(SETTLED)
    await work.run_if_due()
    assert database.keys.retired == []
    assert owners not in {prefix for _, prefix in await prefixes(database)}
    assert await opened(database) == before


async def test_a_pass_goes_on_where_a_killed_one_was(
    database: Database, work: Resealing, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resealing, "PAGE", 2)
    monkeypatch.setattr(resealing, "BATCH", 1)
    await database.transact(lambda connection: fill(connection, database.keys, dict.fromkeys(range(3), "ada")))
    before = await opened(database)
    database.keys.rotate(["ada"], milliseconds(clock))
    clock.advance(1)

    class Killed(BaseException):
        pass

    def stop(_what: str, done: int, total: int) -> None:
        assert 0 < done <= total
        if done > total / 2:
            raise Killed

    with pytest.raises(Killed):
        await work.run_if_due(stop)
    clock.advance(60)
    other = Resealing(database, clock)
    await other.run_if_due()
    assert other.state is not None
    assert 0 < other.state.moved <= len(before)
    assert other.state.began < milliseconds(clock)
    assert len(await prefixes(database)) == 1
    assert await opened(database) == before


async def test_one_daemon_at_a_time_makes_a_pass(postgres_url: str, clock: ManualClock) -> None:
    one, other = await Database.open(postgres_url, KEY), await Database.open(postgres_url, KEY)
    try:
        await one.transact(lambda connection: fill(connection, one.keys, USERS))
        one.keys.rotate(["ada"], milliseconds(clock))
        clock.advance(1)
        first, second = Resealing(one, clock), Resealing(other, clock)
        assert other.keys.refresh()
        assert await first._begin() is not None
        assert await second.run_pass() is None
        clock.advance(resealing.OTHERS_MS / 1000 + 1)
        assert await second.run_pass() is not None
        assert len(await prefixes(one)) == 2
        assert await opened(one) == await opened(other)
    finally:
        await one.close()
        await other.close()
