"""Deletion of a removed user's data continues after a part that cannot be deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.api.admin import user_removal
from runtime.api.admin.user_removal import erase
from runtime.identity.caller import OWNER_CALLER
from runtime.memory.errors import StoreError
from runtime.memory.open_memory import OpenMemory
from tests.runtime.api.app import NOTES, memories_of
from tests.runtime.tools.asking import Asked, asking


async def _unavailable() -> OpenMemory:
    raise StoreError("its index is damaged")


async def _fill(ask: Asked) -> str:
    """Store an item of a new user in the notes and one in the collection without a block. Return the user's id."""
    ada = await ask.app.tokens.caller(await ask.app.token("ada"))
    await ask("memory_write", ada, agent="reviewer", text="the walnut", type="fact")
    await ask("push", ada, text="the walnut in a collection")
    return ada.user_id


async def test_a_collection_that_cannot_be_opened_keeps_nothing_else(tmp_path: Path) -> None:
    async with asking(tmp_path, NOTES) as ask:
        user_id = await _fill(ask)
        opened = ask.app.memories
        ask.app.memories = memories_of({"notes": opened["notes"]}, _unavailable)
        done = await erase(ask.app.context(OWNER_CALLER), user_id)
        assert done.problems == ["memory collection: its index is damaged"]
        assert done.items == {"notes": 1}
        assert set(done.rows) == {"tokens"}
        # The next attempt deletes the rest, with the entries of the index.
        ask.app.memories = opened
        again = await erase(ask.app.context(OWNER_CALLER), user_id)
        assert (again.problems, again.items) == ([], {"collection": 1})
        assert (await opened["collection"].index_stats()).entries == 0


async def test_a_database_that_fails_at_first_keeps_nothing_of_the_memories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def holds(*_: object) -> bool:
        raise StoreError("the database is unavailable")

    async with asking(tmp_path, NOTES) as ask:
        user_id = await _fill(ask)
        monkeypatch.setattr(user_removal, "holds", holds)
        ask.app.memories = memories_of({"notes": ask.app.memories["notes"]}, _unavailable)
        done = await erase(ask.app.context(OWNER_CALLER), user_id)
        assert done.problems == ["memory collection: the database is unavailable"]
        assert done.items == {"notes": 1}
