"""The removal of a user whose data is kept is completed by the same again, or by the next daemon, wherever the process
was killed; everything opens, and nothing needs the user's key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from runtime.api.admin import users as operations
from runtime.api.admin.operations import OPERATIONS
from runtime.daemon.process import master_key
from runtime.daemon.process.atomic_file import write_atomically
from runtime.daemon.process.root import Root, make
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.program.app import App
from runtime.daemon.program.key_upkeep import KeyUpkeep
from runtime.daemon.program.user_removal import Removal
from runtime.database.drivers.key_stores import SqliteKeys
from runtime.database.keys import tables
from runtime.database.keys.ring import KeyRing
from runtime.database.resealing import SETTLED_MS, Resealing, SealedTable
from runtime.database.schema import task_feeds, webhooks
from runtime.errors import UsageError
from runtime.identity import users
from runtime.webhooks.routing.dynamic_routes import DynamicRoutes
from tests.clocks import ManualClock
from tests.conftest import KEY_BYTES
from tests.databases import migrated
from tests.lanes import first_of
from tests.runtime.database.keys.sealed_rows import TABLES, fill, opened, prefixes

KEPT = [table for table in TABLES if table not in (webhooks, task_feeds)]
"""Webhooks and the calendar feed of a user are removed in any case."""


class Killed(BaseException):
    """The process ends here."""


BEFORE: dict[str, tuple[Any, str, int]] = {
    "nothing was done": (KeyRing, "forget", 0),
    "the owner has a key": (KeyRing, "ensure", 1),
    "the change of keys was not committed": (tables, "remove", 1),
}
AFTER: dict[str, tuple[Any, str, int]] = {
    "the keys were changed": (KeyRing, "load", 0),
    "the keys were read again": (SqliteKeys, "scrub", 0),
    "the log of the keys was emptied": (SqliteKeys, "scrub", 1),
    "the keys are done": (KeyRing, "forget", 1),
    "the row was not committed": (operations, "remove_rows", 1),
    "the row was removed": (DynamicRoutes, "look", 0),
    "some values were sealed again": (SealedTable, "reseal", 1),
    "all values were sealed again": (Resealing, "_record_pass", 0),
    "the pass was recorded": (Resealing, "_record_pass", 1),
    "the key is to be deleted": (tables, "delete_keys", 0),
    "the deletion was not committed": (tables, "delete_keys", 1),
    "the key was deleted": (KeyRing, "drop", 1),
}
"""By what was done before the kill: a function, and whether it was called."""
POINTS = {**BEFORE, **AFTER}
CASES = [*((point, False) for point in AFTER), *((point, True) for point in POINTS)]
"""The kill, and whether the command is given again: once a key was changed, the next daemon completes it too."""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = make(tmp_path, os.environ, tmp_path)
    migrated(made.state / "symbiont.db")
    write_atomically(made.state / master_key.FILE, KEY_BYTES.hex().encode())
    return made


def kill(monkeypatch: pytest.MonkeyPatch, target: Any, name: str, called: int) -> None:
    function = getattr(target, name)

    def killed(*given: Any, **named: Any) -> None:
        if called:
            function(*given, **named)
        raise Killed

    monkeypatch.setattr(target, name, killed)


async def remove(app: App) -> None:
    await OPERATIONS["user_remove"](app.admin_context(), {"name": "ada", "keep": True})


async def seal_again(app: App, clock: ManualClock) -> None:
    def fails(reason: str) -> None:
        raise AssertionError(reason)

    clock.advance(1)
    await KeyUpkeep(app, fails).run_once()
    clock.advance(SETTLED_MS / 1000 + 1)
    await KeyUpkeep(app, fails).run_once()


@first_of("point,again", CASES)
async def test_a_removal_that_keeps_the_data_is_completed(
    root: Root, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, point: str, again: bool
) -> None:
    settings, killed = ProcessSettings.read({}), POINTS[point]

    async def until_killed() -> None:
        async with App.open(root, settings, clock) as app:
            await app.load_nothing()
            kill(monkeypatch, *killed)
            await remove(app)
            await seal_again(app, clock)

    async with App.open(root, settings, clock) as app:
        ada = await users.add(app.state.database, "ada", 0)
        keys = app.state.database.keys
        await app.state.database.transact(lambda connection: fill(connection, keys, {1: ada, 2: "owner"}, tables=KEPT))
        values, theirs = await opened(app.state.database), keys.ensure(ada).key_id
    with pytest.raises(Killed):
        await until_killed()
    monkeypatch.undo()
    async with App.open(root, settings, clock) as app:
        await app.load_nothing()
        assert await opened(app.state.database) == values, "after the kill"
        if not again:
            await Removal(app).finish()
        elif "ada" in (await users.names(app.state.database)).values():
            await remove(app)
        else:
            with pytest.raises(UsageError, match="no user is called 'ada'"):
                await remove(app)
        assert await users.names(app.state.database) == {"owner": "owner"}
        await seal_again(app, clock)
        keys = app.state.database.keys
        assert {prefix for _, prefix in await prefixes(app.state.database)} == {keys.ensure("owner").prefix}
        assert theirs not in {key.key_id for key in (*keys.current, *keys.retired)}
        assert await opened(app.state.database) == values
        assert keys.removals == {ada: "owner"}
    async with App.open(root, settings, clock) as app:
        assert await opened(app.state.database) == values
