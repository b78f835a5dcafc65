"""A rotation of the master key is whole or did not happen, wherever the process is killed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from runtime.crypto import new_key
from runtime.daemon.process import master_key
from runtime.daemon.process.atomic_file import write_atomically
from runtime.daemon.process.root import Root, make
from runtime.daemon.process.settings import ProcessSettings
from runtime.daemon.program.app import App
from runtime.database.keys.ring import KeyRing, MasterKeyReplaced
from runtime.errors import UsageError
from tests.conftest import KEY_BYTES
from tests.databases import migrated
from tests.runtime.database.keys.sealed_rows import fill, opened

KEY_TEXT = KEY_BYTES.hex()


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = make(tmp_path, os.environ, tmp_path)
    migrated(made.state / "symbiont.db")
    write_atomically(made.state / master_key.FILE, KEY_TEXT.encode())
    return made


async def filled(root: Root) -> tuple[str, list[bytes]]:
    """Store values of two users; return the id of the master key and the values."""
    async with App.open(root, ProcessSettings.read({})) as app:
        keys = app.state.database.keys
        await app.state.database.transact(lambda connection: fill(connection, keys, {1: "ada", 2: "bob"}))
        return keys.master.key_id.hex(), await opened(app.state.database)


def after(target: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill the process after the next call of this function."""
    function = getattr(target, name)

    def killed(*given: Any, **named: Any) -> None:
        function(*given, **named)
        raise Killed

    monkeypatch.setattr(target, name, killed)


POINTS: dict[str, tuple[Any, str, bool]] = {
    "the new key was written": (master_key, "prepare", False),
    "the keys were wrapped": (KeyRing, "rewrap", True),
    "the new key replaced the old one": (master_key, "adopt", True),
}


@pytest.mark.parametrize("point", list(POINTS))
async def test_it_is_completed_or_taken_back_by_the_next_start(
    root: Root, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    before, values = await filled(root)
    target, name, rotated = POINTS[point]
    async with App.open(root, ProcessSettings.read({})) as app:
        after(target, name, monkeypatch)
        with pytest.raises(Killed):
            await app.master_key.rotate(None)
    monkeypatch.undo()
    async with App.open(root, ProcessSettings.read({})) as app:
        assert (app.state.database.keys.master.key_id.hex() != before) == rotated
        assert await opened(app.state.database) == values
        assert not (root.state / master_key.NEXT).exists()
        assert master_key.load(root, None, {}).key_id == app.state.database.keys.master.key_id
        # And then it can be rotated again.
        await app.master_key.rotate(None)
        assert await opened(app.state.database) == values


async def test_a_key_elsewhere_is_named_and_remembered(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    before, values = await filled(root)
    monkeypatch.setenv("NEW_MASTER", new_key().hex())
    reference = "secret://env/NEW_MASTER"
    async with App.open(root, ProcessSettings.read({})) as app:
        await app.master_key.rotate(reference)
        with pytest.raises(UsageError, match="holds the present master key"):
            await app.master_key.rotate(reference)
        with pytest.raises(UsageError, match="which symbi does not write"):
            await app.master_key.rotate(None)
    assert not (root.state / "master.key").exists()
    with pytest.raises(UsageError, match="read its master key from secret://env/NEW_MASTER"):
        async with App.open(root, ProcessSettings.read({})):
            pass
    monkeypatch.setenv("SYMBIONT_MASTER_KEY", reference)
    async with App.open(root, ProcessSettings.read({})) as app:
        assert app.state.database.keys.master.key_id.hex() != before
        assert await opened(app.state.database) == values


async def test_a_key_that_cannot_be_read_changes_nothing(root: Root) -> None:
    before, _ = await filled(root)
    async with App.open(root, ProcessSettings.read({})) as app:
        with pytest.raises(UsageError, match="does not refer to an existing key"):
            await app.master_key.rotate("secret://env/MISSING")
    async with App.open(root, ProcessSettings.read({})) as app:
        assert app.state.database.keys.master.key_id.hex() == before


async def test_another_daemon_follows_if_it_can_read_the_new_key(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER", KEY_TEXT)
    monkeypatch.setenv("SYMBIONT_MASTER_KEY", "secret://env/MASTER")
    monkeypatch.setenv("SYMBIONT_DATABASE", postgres_url)
    roots = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        roots.append(make(tmp_path / name, os.environ, tmp_path / name))
    settings = ProcessSettings.read({})
    async with App.open(roots[0], settings) as one, App.open(roots[1], settings) as other:
        await one.state.database.transact(lambda connection: fill(connection, one.state.database.keys, {1: "ada"}))
        value = new_key().hex()
        monkeypatch.setenv("NEW_MASTER", value)
        await one.master_key.rotate("secret://env/NEW_MASTER")
        keys = other.state.database.keys
        with pytest.raises(MasterKeyReplaced):
            keys.refresh()
        monkeypatch.delenv("NEW_MASTER")
        with pytest.raises(MasterKeyReplaced):
            await other.master_key.follow()
        monkeypatch.setenv("NEW_MASTER", value)
        await other.master_key.follow()
        assert keys.master.key_id == one.state.database.keys.master.key_id
        assert await opened(other.state.database) == await opened(one.state.database)
        assert other.state.root.read("program.json")["master_key"] == "secret://env/NEW_MASTER"
