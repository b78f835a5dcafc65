"""What was read of a user's settings before a change is not used after it."""

from __future__ import annotations

import asyncio

import pytest

from runtime.database.connection import Database
from runtime.identity import user_settings
from runtime.identity.user_settings import UserSettings, UserSettingsStore
from tests.clocks import ManualClock


async def test_a_reading_that_a_change_overtakes_is_not_kept(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, read = UserSettingsStore(database, clock), user_settings.read_settings
    was_read, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(database: Database, user_id: str) -> UserSettings:
        found = await read(database, user_id)
        was_read.set()
        await goes_on.wait()
        return found

    await store.change("owner", {"tokens_per_day": 1})
    monkeypatch.setattr(user_settings, "read_settings", slow)
    reading = asyncio.create_task(store.of("owner"))
    await was_read.wait()
    await store.change("owner", {"tokens_per_day": 2})
    goes_on.set()
    assert (await reading).tokens_per_day == 1
    assert (await store.of("owner")).tokens_per_day == 2
