"""Keys are followed, rotated and forgotten by the task of a daemon, and by the operations of its commands."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from dslc.source import Source
from runtime.api.admin.keys import keys as operations
from runtime.api.admin.operations import OPERATIONS
from runtime.api.admin.readiness import readiness
from runtime.crypto import KeyForgotten, Unsealable, new_key
from runtime.daemon.process.root import make
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.program import last_program
from runtime.daemon.program.app import App
from runtime.daemon.program.key_upkeep import KeyUpkeep
from runtime.daemon.program.user_removal import Removal
from runtime.database.keys.key import ROTATED_AT
from runtime.database.keys.ring import PROCESS
from runtime.database.resealing import SETTLED_MS
from runtime.database.schema import users as users_table
from runtime.errors import SymbiontError, UsageError
from runtime.identity import users
from tests.clocks import ManualClock, until
from tests.conftest import KEY_BYTES
from tests.runtime.database.keys.sealed_rows import fill, opened, prefixes, sealed_values

SETTLED = SETTLED_MS / 1000 + 1


def app_on(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> Any:
    """Return the context manager of an app with its root in `folder`."""
    monkeypatch.setenv("MASTER", KEY_BYTES.hex())
    monkeypatch.setenv("SYMBIONT_MASTER_KEY", "secret://env/MASTER")
    monkeypatch.setenv("SYMBIONT_DATABASE", url)
    folder.mkdir()
    return App.open(make(folder, os.environ, folder), ProcessSettings.read({}), clock)


@pytest.fixture
async def app(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> AsyncIterator[App]:
    async with app_on(tmp_path / "root", database_url, monkeypatch, clock) as opened_app:
        await opened_app.load_nothing()
        yield opened_app


async def call(app: App, operation: str, /, **given: Any) -> dict[str, Any]:
    return await OPERATIONS[operation](app.admin_context(), given)


def failing(reason: str) -> None:
    raise AssertionError(reason)


async def add(app: App, name: str, number: int) -> str:
    """Add a user with values in every table; return its id."""
    user_id = str((await call(app, "user_add", name=name))["id"])
    await app.state.database.transact(lambda connection: fill(connection, app.state.database.keys, {number: user_id}))
    return user_id


async def test_a_removal_forgets_the_key_before_the_data(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, bob = await add(app, "ada", 1), await add(app, "bob", 2)
    values = await sealed_values(app.state.database, ada)

    async def fails(*_: Any, **__: Any) -> None:
        raise SymbiontError("the disk is away")

    monkeypatch.setattr("runtime.api.admin.user_removal.delete_rows", fails)
    answer = await call(app, "user_remove", name="ada")
    assert answer["problems"] == ["database: the disk is away"]
    for value in values:
        with pytest.raises(Unsealable):
            value()
    assert await opened(app.state.database, bob)
    with pytest.raises(KeyForgotten):
        app.state.database.keys.seal(b"", "bodies.body", user_id=ada, row="1")


async def test_a_removal_that_was_killed_before_the_key_was_forgotten_is_completed(
    app: App, clock: ManualClock
) -> None:
    ada = await add(app, "ada", 1)
    now = int(clock.now() * 1000)
    await app.state.database.transact(lambda connection: users.remove(connection, ada, now))
    values = await sealed_values(app.state.database, ada)
    await Removal(app).finish()
    for value in values:
        with pytest.raises(Unsealable):
            value()
    clock.advance(SETTLED)
    await Removal(app).finish()
    async with app.state.database.read() as connection:
        assert (await connection.execute(select(users_table))).all() == []


async def test_what_is_kept_of_a_removed_user_is_sealed_with_the_owners_key(app: App, clock: ManualClock) -> None:
    ada = await add(app, "ada", 1)
    values, upkeep = await opened(app.state.database, ada), KeyUpkeep(app, failing)
    assert (await call(app, "user_remove", name="ada", keep=True))["kept"]
    clock.advance(1)
    await upkeep.run_once()
    clock.advance(SETTLED)
    await upkeep.run_once()
    assert app.state.database.keys.retired == []
    owners = app.state.database.keys.ensure("owner").prefix
    assert {prefix for user, prefix in await prefixes(app.state.database) if user == ada} == {owners}
    kept = await opened(app.state.database, ada)
    # The webhooks that the user created are removed in any case.
    assert set(kept) <= set(values)
    assert len(kept) > len(values) / 2


async def test_what_was_kept_is_deleted_later_also_after_a_kill(
    app: App, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(*_: Any) -> None:
        raise SymbiontError("the process ends here")

    ada = await add(app, "ada", 1)
    await call(app, "user_remove", name="ada", keep=True)
    clock.advance(1)
    await KeyUpkeep(app, failing).run_once()
    monkeypatch.setattr("runtime.api.admin.users.erase", killed)
    with pytest.raises(SymbiontError):
        await call(app, "user_remove", name=f"id:{ada}")
    assert await sealed_values(app.state.database, ada)
    await Removal(app).finish()
    assert await sealed_values(app.state.database, ada) == []
    assert app.state.database.keys.removals == {ada: None}


async def test_a_copy_from_before_a_removal_does_not_bring_the_user_back(app: App) -> None:
    ada, bob = await add(app, "ada", 1), await add(app, "bob", 2)
    # As the copy is, with the keys of now.
    app.state.database.keys.forget(ada, 1)
    await Removal(app).finish()
    assert set(await users.names(app.state.database)) == {"owner", bob}
    assert await sealed_values(app.state.database, ada) == []
    assert await opened(app.state.database, bob)


async def test_users_and_the_progress_of_sealing_again_are_shown(app: App, clock: ManualClock) -> None:
    await add(app, "ada", 1)
    assert (await call(app, "key_status"))["resealing"] is None
    clock.advance(1)
    seen: list[int] = []
    context = replace(app.admin_context(), progress=lambda _what, done, _of: seen.append(done))
    answer = await operations.key_rotate(context, {"user": "ada"})
    assert (answer["rotated"], answer["users"]) == (1, ["ada"])
    assert (
        answer["sealed_again"] == len(await opened(app.state.database)) == len(await sealed_values(app.state.database))
    )
    assert seen
    status = await call(app, "key_status")
    assert [each["user"] for each in status["retired"]] == ["ada"]
    assert status["resealing"]["sealed_again"] == answer["sealed_again"]
    [check] = [each for each in (await readiness(app.admin_context(), {}))["checks"] if each["check"] == "keys"]
    assert check["status"] == "GREEN"
    assert "encrypting again" in check["text"]
    # A pass in the same millisecond does not count for a key that was retired then.
    clock.advance(1)
    await app.state.resealing.run_if_due()
    assert not (await call(app, "key_status"))["resealing"]["due"]
    [check] = [each for each in (await readiness(app.admin_context(), {}))["checks"] if each["check"] == "keys"]
    assert "retired keys are forgotten soon" in check["text"]


async def test_a_key_that_was_used_often_is_shown_and_rotated_by_itself(app: App, clock: ManualClock) -> None:
    ada = await add(app, "ada", 1)
    key = app.state.database.keys.ensure(ada)
    key.seals = ROTATED_AT + key.left
    [check] = [each for each in (await readiness(app.admin_context(), {}))["checks"] if each["check"] == "keys"]
    assert check["status"] == "YELLOW"
    clock.advance(1)
    await KeyUpkeep(app, failing).run_once()
    assert app.state.database.keys.ensure(ada).generation == 2
    assert {prefix for user, prefix in await prefixes(app.state.database) if user == ada} == {
        app.state.database.keys.ensure(ada).prefix
    }


async def test_the_key_of_the_process_is_rotated_by_itself_too_and_loses_nothing(app: App, clock: ManualClock) -> None:
    keys, paths, sources = app.state.database.keys, [app.state.root.folder], [Source("a.symbiont", b"agent a { }")]
    last_program.keep(app.state.root, keys, paths, sources)
    derived, before = keys.derive("codes"), keys.ensure(PROCESS)
    before.seals = ROTATED_AT + before.left
    clock.advance(1)
    upkeep = KeyUpkeep(app, failing)
    await upkeep.run_once()
    clock.advance(SETTLED)
    await upkeep.run_once()
    assert keys.ensure(PROCESS).generation == 2
    assert keys.retired == []
    assert [each.data for each in last_program.load(app.state.root, keys, paths)] == [each.data for each in sources]
    assert keys.derive("codes") == derived


@pytest.mark.parametrize(
    "given",
    [{}, {"user": "nobody"}, {"user": "ada", "all": True}, {"user": "ada", "to": "secret://env/A"}, {"user": 7}],
)
async def test_a_rotation_of_nothing_or_of_two_things_is_refused(app: App, given: dict[str, Any]) -> None:
    await call(app, "user_add", name="ada")
    with pytest.raises(UsageError):
        await call(app, "key_rotate", **given)
    assert app.state.database.keys.retired == []


async def test_an_export_names_the_one_before_and_shows_that_it_is_old(app: App, clock: ManualClock) -> None:
    await add(app, "ada", 1)
    first = await call(app, "key_export", file="/one")
    assert first["before"] is None
    assert (await call(app, "key_status"))["exported"] is None, "recorded before it was written"
    await call(app, "key_export_record", file="/one", version=first["version"])
    assert (await call(app, "key_export", file="/one"))["before"] is None
    answer = await call(app, "key_export", file="/two")
    assert answer["before"] == "/one"
    await call(app, "key_export_record", file="/two", version=answer["version"])
    assert len(json.loads(json.dumps(answer["content"]))["keys"]) == answer["keys"] > 0
    assert (await call(app, "key_status"))["exported"]["current"]
    assert (await call(app, "user_remove", name="ada"))["exported"] == {
        "file": "/two",
        "at": "2026-02-14T10:30:00Z",
        "current": False,
    }


async def test_other_daemons_forget_a_key_too_and_stop_without_the_new_master_key(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    stopped: list[str] = []
    async with (
        app_on(tmp_path / "one", postgres_url, monkeypatch, clock) as one,
        app_on(tmp_path / "other", postgres_url, monkeypatch, clock) as other,
    ):
        await one.load_nothing()
        await other.load_nothing()
        upkeep = KeyUpkeep(other, stopped.append)
        ada = await add(one, "ada", 1)
        await upkeep.run_once()
        assert await opened(other.state.database, ada) == await opened(one.state.database, ada)
        values = await sealed_values(other.state.database, ada)
        await call(one, "user_remove", name="ada")
        await upkeep.follow_notification()
        for value in values:
            with pytest.raises(Unsealable):
                value()
        monkeypatch.setenv("NEW_MASTER", new_key().hex())
        await one.master_key.rotate("secret://env/NEW_MASTER")
        monkeypatch.delenv("NEW_MASTER")
        task = asyncio.create_task(upkeep.run())
        await until(lambda: bool(stopped))
        task.cancel()
        assert "the keys are wrapped with master key" in stopped[0]
        assert "secret://env/NEW_MASTER" in stopped[0]
