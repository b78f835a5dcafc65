"""A user's settings of an agent are theirs alone, and sealed."""

from __future__ import annotations

import asyncio

import pytest

from runtime.crypto import Unsealable
from runtime.database.connection import Database
from runtime.database.schema import agent_settings as table
from runtime.errors import Conflict
from runtime.threads.agent_settings import NO_SETTINGS, AgentSettings
from tests.clocks import ManualClock
from tests.runtime.webhooks.candidates import rows


@pytest.fixture
def settings(database: Database, clock: ManualClock) -> AgentSettings:
    return AgentSettings(database, clock)


async def test_settings_are_read_as_they_were_put_last(database: Database, settings: AgentSettings) -> None:
    assert await settings.get("owner", "helper") == NO_SETTINGS
    await settings.put("owner", "helper", {"timezone": "okapiquux"})
    await settings.put("owner", "helper", {"timezone": "Europe/Vienna", "style": {"short": True}})
    await settings.put("ada", "helper", {"timezone": "UTC"})
    assert (await settings.get("owner", "helper")).settings == {"timezone": "Europe/Vienna", "style": {"short": True}}
    assert (await settings.get("ada", "helper")).settings == {"timezone": "UTC"}
    assert await settings.get("owner", "other") == NO_SETTINGS
    assert not any(b"Vienna" in row.settings for row in await rows(database, table))


async def test_settings_that_are_put_at_once_are_one_row(database: Database, settings: AgentSettings) -> None:
    await asyncio.gather(*(settings.put("owner", "helper", {"n": number}) for number in range(9)))
    assert len(await rows(database, table)) == 1


async def test_of_changes_at_once_to_one_version_one_counts(database: Database, settings: AgentSettings) -> None:
    first = await settings.put("owner", "helper", {"n": 0})
    for version in (first, 0):
        if not version:
            await settings.put("owner", "helper", {})
        puts = (settings.put("owner", "helper", {"n": number}, version=version) for number in range(9))
        done = await asyncio.gather(*puts, return_exceptions=True)
        (made,) = [each for each in done if not isinstance(each, Conflict)]
        assert (await settings.get("owner", "helper")).version == made
        # Also in the same millisecond.
        assert made > version


async def test_empty_settings_are_deleted(database: Database, settings: AgentSettings) -> None:
    await settings.put("owner", "helper", {"a": 1})
    await settings.put("owner", "helper", {})
    assert await settings.get("owner", "helper") == NO_SETTINGS
    assert await rows(database, table) == []


async def test_settings_moved_to_another_user_are_not_read(database: Database, settings: AgentSettings) -> None:
    await settings.put("owner", "helper", {"a": 1})
    async with database.write() as connection:
        await connection.execute(table.update().values(user_id="ada"))
    with pytest.raises(Unsealable):
        await settings.get("ada", "helper")
