"""What users store is counted and limited, on both databases, whoever changes it at the same time."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from sqlalchemy import Connection, func, select

from runtime.clock import Clock, milliseconds
from runtime.database.connection import Database
from runtime.database.schema import user_storage
from runtime.errors import NotFound, SymbiontError
from runtime.identity import users
from runtime.identity.belongings import delete_rows
from runtime.identity.user_settings import UserSettingsStore
from runtime.tables.errors import QuotaExceeded
from runtime.tables.quota import TIERS, Quota
from runtime.tables.storage import StorageUsage, UserStorage, check_growth
from tests.clocks import ManualClock, until
from tests.conftest import KEY

QUOTA = Quota(tables=5, rows=100, storage=1_000_000)


def of(database: Database, clock: Clock, settings: UserSettingsStore | None = None) -> UserStorage:
    return UserStorage(database, clock, settings or UserSettingsStore(database, clock), TIERS, "free")


async def add_kv(storage: UserStorage, database: Database, user_id: str, change: int, quota: Quota = QUOTA) -> None:
    await database.transact(partial(storage.add_kv, user_id=user_id, change=change, quota=quota))


async def test_a_user_has_the_limits_of_the_tier_unless_some_are_set(database: Database, clock: ManualClock) -> None:
    settings = UserSettingsStore(database, clock)
    storage = of(database, clock, settings)
    ada = await users.add(database, "ada", 0)
    assert await storage.quota(ada) == TIERS["free"]
    await settings.change(ada, {"tier": "pro"})
    assert await storage.quota(ada) == TIERS["pro"]
    await settings.change(ada, {"storage": 3_000_000})
    assert await storage.quota(ada) == TIERS["pro"]._replace(storage=3_000_000)
    assert await storage.quota("owner") == TIERS["free"]


async def test_what_is_stored_is_counted_and_a_user_without_anything_has_no_row(
    database: Database, clock: ManualClock
) -> None:
    storage = of(database, clock)
    assert await storage.usage("owner") == StorageUsage()
    assert await storage.all() == {}
    await add_kv(storage, database, "owner", 700)
    await storage.note_tables("owner", 2, 8192, QUOTA)
    now = milliseconds(clock)
    assert await storage.usage("owner") == StorageUsage(2, 8192, 700, now, now)
    await database.transact(partial(storage.free_kv, user_id="owner", size=500))
    assert (await storage.all())["owner"].bytes == 8392
    await add_kv(storage, database, "owner", -10_000)
    assert (await storage.usage("owner")).kv_bytes == 0


async def test_beyond_the_limit_nothing_is_added_and_the_error_says_what_is_free(
    database: Database, clock: ManualClock
) -> None:
    storage = of(database, clock)
    await storage.note_tables("owner", 1, 900_000, QUOTA)
    with pytest.raises(QuotaExceeded) as caught:
        await add_kv(storage, database, "owner", 100_001)
    assert caught.value.line() == (
        "1 MB may be stored, 900 KB are used, 100 KB are free (delete something, or ask for a larger tier)"
    )
    await add_kv(storage, database, "owner", 100_000)
    with pytest.raises(QuotaExceeded, match="1 MB are used, 0 bytes are free"):
        await storage.note_tables("owner", 1, 900_001, QUOTA)
    assert (await storage.usage("owner")).bytes == 1_000_000


async def test_after_a_move_to_a_smaller_tier_only_growth_is_refused(database: Database, clock: ManualClock) -> None:
    storage, smaller = of(database, clock), QUOTA._replace(storage=1000)
    await storage.note_tables("owner", 9, 500_000, QUOTA)
    await add_kv(storage, database, "owner", 400)
    await add_kv(storage, database, "owner", -1, smaller)
    await add_kv(storage, database, "owner", 0, smaller)
    await storage.note_tables("owner", 9, 500_000, smaller)
    await storage.note_tables("owner", 8, 400_000, smaller)
    with pytest.raises(QuotaExceeded, match="0 bytes are free"):
        await storage.note_tables("owner", 8, 400_001, smaller)
    with pytest.raises(QuotaExceeded):
        await add_kv(storage, database, "owner", 1, smaller)
    check_growth(await storage.usage("owner"), smaller, -5)


async def test_nothing_of_a_removed_user_begins_again(database: Database, clock: ManualClock) -> None:
    storage = of(database, clock)
    ada = await users.add(database, "ada", 0)
    await add_kv(storage, database, ada, 10)
    await database.transact(partial(users.remove, user_id=ada, now=1))
    counts, _ = await delete_rows(database, ada)
    assert counts["user_storage"] == 1
    with pytest.raises(NotFound):
        await add_kv(storage, database, ada, 10)
    with pytest.raises(NotFound):
        await storage.note_tables(ada, 1, 10)
    # A sweep of what expired goes on.
    await database.transact(partial(storage.free_kv, user_id=ada, size=10))
    storage.touch(ada)
    await until(lambda: database.commits._task is None)
    assert await storage.all() == {}


async def test_access_is_written_once_a_minute(database: Database, clock: ManualClock) -> None:
    storage = of(database, clock)
    await add_kv(storage, database, "owner", 1)
    begun, writes = milliseconds(clock), list[int]()
    database.commits.on_commit = lambda count, seconds: writes.append(count)

    for _ in range(100):
        clock.advance(1.2)
        storage.touch("owner")
        await until(lambda: database.commits._task is None)
    assert len(writes) == 2
    stored = await storage.usage("owner")
    assert (stored.created_at, stored.accessed_at) == (begun, begun + 61_200)


async def test_noting_an_access_does_not_wait_for_another_daemon(postgres_url: str, clock: ManualClock) -> None:
    database, other = await Database.open(postgres_url, KEY), await Database.open(postgres_url, KEY)
    storage = of(database, clock)
    for user_id in ("ada", "owner"):
        await database.transact(partial(_insert, user_id=user_id))
    try:
        async with other.write() as connection:
            await connection.execute(user_storage.update().values(kv_bytes=1).where(user_storage.c.user_id == "ada"))
            clock.advance(100)
            for user_id in ("ada", "owner"):
                storage.touch(user_id)
            async with asyncio.timeout(5):
                await until(lambda: database.commits._task is None)
        times = {user_id: stored.accessed_at for user_id, stored in (await storage.all()).items()}
        assert times == {"ada": 0, "owner": milliseconds(clock)}
    finally:
        await database.close()
        await other.close()


def _insert(connection: Connection, user_id: str) -> None:
    connection.execute(user_storage.insert().values(user_id=user_id, created_at=0, accessed_at=0))


async def test_reading_goes_on_while_nothing_can_be_written(database: Database, clock: ManualClock) -> None:
    storage = of(database, clock)
    await add_kv(storage, database, "owner", 1)
    await database.commits.close()
    storage.touch("owner")
    assert (await storage.usage("owner")).kv_bytes == 1


async def test_keys_and_tables_of_several_daemons_exceed_no_limit_together(
    database_url: str, clock: ManualClock
) -> None:
    """Two daemons on PostgreSQL; on SQLite two registries of one process."""
    databases = [await Database.open(database_url, KEY)]
    if database_url.startswith("postgresql"):
        databases.append(await Database.open(database_url, KEY))
    try:
        daemons = [(each, of(each, clock)) for each in (databases * 2)[:2]]
        sizes = {0: 0, 1: 0}

        async def fill(number: int) -> None:
            database, storage = daemons[number]
            while True:
                if number:
                    await add_kv(storage, database, "owner", 30_000)
                else:
                    await storage.note_tables("owner", 1, sizes[0] + 40_000, QUOTA)
                sizes[number] += 30_000 if number else 40_000

        results = await asyncio.gather(fill(0), fill(1), return_exceptions=True)
        assert all(isinstance(each, QuotaExceeded) for each in results)
        stored = await daemons[0][1].usage("owner")
        assert stored == StorageUsage(1, sizes[0], sizes[1], stored.created_at, stored.accessed_at)
        assert 960_000 < stored.bytes <= 1_000_000
    finally:
        for each in databases:
            await each.close()


async def test_the_first_use_of_several_daemons_makes_one_row(database_url: str, clock: ManualClock) -> None:
    databases = [await Database.open(database_url, KEY) for _ in range(1 + database_url.startswith("postgresql"))]
    try:
        adds = [add_kv(of(each, clock), each, "owner", 5) for each in databases for _ in range(10)]
        assert not [each for each in await asyncio.gather(*adds, return_exceptions=True) if each is not None]
        async with databases[0].read() as connection:
            assert await connection.scalar(select(func.count()).select_from(user_storage)) == 1
        assert (await of(databases[0], clock).usage("owner")).kv_bytes == 50 * len(databases)
    finally:
        for each in databases:
            await each.close()


def test_an_error_of_the_quota_is_one_line() -> None:
    with pytest.raises(SymbiontError) as caught:
        check_growth(StorageUsage(table_bytes=24_920_000), TIERS["free"], 100_000)
    assert caught.value.line() == (
        "25 MB may be stored, 24.92 MB are used, 80 KB are free (delete something, or ask for a larger tier)"
    )
