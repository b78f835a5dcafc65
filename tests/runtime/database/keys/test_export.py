"""An export of keys opens the data again with its master key, and never brings back a key that was forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.crypto import KeyForgotten, MasterKey, Unsealable
from runtime.database.connection import Database
from runtime.database.drivers.key_stores import SqliteKeys
from runtime.database.keys import export, tables
from runtime.database.keys.ring import KeyRing
from runtime.errors import UsageError
from tests.conftest import KEY

BODY = "bodies.body"


def sealed(ring: KeyRing, user_id: str) -> bytes:
    return ring.seal(b"plain", BODY, user_id=user_id, row="1")


def unsealed(ring: KeyRing, value: bytes, user_id: str) -> bytes:
    return ring.unseal(value, BODY, user_id=user_id, row="1")


async def test_lost_keys_are_put_back_from_an_export(tmp_path: Path) -> None:
    path = tmp_path / "symbiont.db"
    database = await Database.open(path, KEY)
    values = {user: sealed(database.keys, user) for user in ("ada", "bob")}
    database.keys.rotate(["bob"], 1)
    text = json.dumps(export.keys_json(database.keys)).encode()
    assert all(key.secret().hex() not in text.decode() for key in database.keys.current)
    await database.close()
    for file in tmp_path.glob("keys.db*"):
        file.unlink()
    with pytest.raises(UsageError, match="the keys of its users are missing"):
        await Database.open(path, KEY)
    store = SqliteKeys(tmp_path / "keys.db")
    content = export.read(text)
    assert export.restore(store, content, KEY, 1, {}) == (3, 0, 0)
    assert export.restore(store, content, KEY, 1, {}) == (0, 3, 0)
    with pytest.raises(UsageError, match="wrapped with master key"):
        export.restore(store, content, MasterKey(bytes(32)), 1, {})
    store.close()
    database = await Database.open(path, KEY)
    assert {user: unsealed(database.keys, value, user) for user, value in values.items()} == dict.fromkeys(
        values, b"plain"
    )
    await database.close()


async def test_an_old_export_does_not_bring_back_what_was_forgotten_or_rotated(database: Database) -> None:
    values = {user: sealed(database.keys, user) for user in ("ada", "bob")}
    content = export.read(json.dumps(export.keys_json(database.keys)).encode())
    database.keys.forget("ada", 1)
    database.keys.rotate(["bob"], 1)
    database.keys.drop(database.keys.retired)
    current = database.keys.ensure("bob").key_id
    assert export.restore(database.keys.store, content, KEY, 5, {}) == (1, 0, 1)
    database.keys.load()
    with pytest.raises(Unsealable):
        unsealed(database.keys, values["ada"], "ada")
    with pytest.raises(KeyForgotten):
        sealed(database.keys, "ada")
    # Bob's former key opens what it sealed, and the present one stays the present one.
    assert unsealed(database.keys, values["bob"], "bob") == b"plain"
    assert database.keys.ensure("bob").key_id == current


@pytest.mark.parametrize("kept", [True, False])
async def test_keys_of_users_who_are_not_in_the_data_come_back_for_what_is_kept_of_them_alone(
    tmp_path: Path, kept: bool
) -> None:
    database = await Database.open(tmp_path / "symbiont.db", KEY)
    value, indexes = sealed(database.keys, "ada"), database.keys.index_keys("notes")
    content = export.read(json.dumps(export.keys_json(database.keys)).encode())
    database.keys.ensure("owner")
    if kept:
        database.keys.forget("ada", 1, kept_by="owner")
    content["rows"].extend(row for row in database.keys.store.transact(tables.load).keys if row[0] == "owner")
    later = sealed(database.keys, "ada") if kept else b""
    await database.close()
    for file in tmp_path.glob("keys.db*"):
        file.unlink()
    store = SqliteKeys(tmp_path / "keys.db")
    removed = {"ada": "owner" if kept else None}
    assert export.restore(store, content, KEY, 5, removed) == ((3, 0, 0) if kept else (1, 0, 1))
    store.close()
    database = await Database.open(tmp_path / "symbiont.db", KEY)
    assert (indexes == database.keys.index_keys("notes")) == kept
    if kept:
        assert [unsealed(database.keys, each, "ada") for each in (value, later)] == [b"plain"] * 2
        assert [key.holder for key in database.keys.retired] == ["ada"]
        assert database.keys.removals == {"ada": "owner"}
    else:
        with pytest.raises(Unsealable):
            unsealed(database.keys, value, "ada")
        # Another copy of the data may have the user.
        assert database.keys.removals == {}
    await database.close()


async def test_an_export_tells_who_was_removed_before_it(database: Database, tmp_path: Path) -> None:
    value, indexes = sealed(database.keys, "ada"), database.keys.index_keys("notes")
    before = export.read(json.dumps(export.keys_json(database.keys)).encode())
    database.keys.forget("ada", 1)
    database.keys.drop(database.keys.retired)
    after = export.read(json.dumps(export.keys_json(database.keys)).encode())
    assert "ada" not in {row[0] for row in after["rows"]}
    store = SqliteKeys(tmp_path / "restored.db")
    export.restore(store, after, KEY, 5, {})
    assert export.restore(store, before, KEY, 5, {}).left_out == 1
    ring = KeyRing(store, KEY)
    ring.load()
    with pytest.raises(Unsealable):
        unsealed(ring, value, "ada")
    with pytest.raises(KeyForgotten):
        sealed(ring, "ada")
    # Neither do older copies of indexes open, which have the user's texts.
    assert not set(indexes) & set(ring.index_keys("notes"))
    store.close()


async def test_the_export_of_another_database_is_refused(database: Database, tmp_path: Path) -> None:
    other = await Database.open(tmp_path / "other.db", KEY)
    sealed(other.keys, "ada")
    content = export.read(json.dumps(export.keys_json(other.keys)).encode())
    await other.close()
    before = export.keys_json(database.keys)
    with pytest.raises(UsageError, match="of another database"):
        export.restore(database.keys.store, content, KEY, 1, {})
    assert export.keys_json(database.keys) == before


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{}", b'{"symbiont_keys": 1}', b'{"symbiont_keys": 1, "id": "", "master_key_id": "", "keys": [7]}'],
)
def test_what_is_no_export_is_refused_in_one_line(text: bytes) -> None:
    with pytest.raises(UsageError, match="not an export of keys"):
        export.read(text)
