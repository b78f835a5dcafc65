"""Values open with the key of their user, in their place and version, until that key is forgotten."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection

from runtime.crypto import KeyForgotten, MasterKey, Unsealable
from runtime.database.connection import Database
from runtime.database.drivers.key_stores import SqliteKeys, keys_file
from runtime.database.keys import ring as ring_module
from runtime.database.keys import tables
from runtime.database.keys.key import BLOCK, BOUND, Key
from runtime.database.keys.ring import INDEXES, OWNER, KeyExhausted, KeyRing, MasterKeyReplaced
from runtime.errors import UsageError
from tests.conftest import KEY

OTHER = MasterKey(bytes(32))
BODY = "bodies.body"
NAMES = st.text(st.characters(codec="utf-8"), max_size=6)
PLACES = st.tuples(NAMES, st.sampled_from([BODY, "items.content"]), NAMES, st.integers(0, 9))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> KeyRing:
    return made(tmp_path_factory.mktemp("keys") / "keys.db")


def made(path: Path, master: MasterKey = KEY) -> KeyRing:
    store = SqliteKeys(path)

    def prepare(connection: Connection) -> None:
        if not tables.exist(connection):
            tables.make(connection, "id", master.key_id.hex())

    store.transact(prepare)
    ring = KeyRing(store, master)
    ring.load()
    return ring


def sealed(ring: KeyRing, user_id: str = "ada", plaintext: bytes = b"plain", row: str = "1") -> bytes:
    return ring.seal(plaintext, BODY, user_id=user_id, row=row)


def unsealed(ring: KeyRing, value: bytes, user_id: str = "ada", row: str = "1") -> bytes:
    return ring.unseal(value, BODY, user_id=user_id, row=row)


@given(st.binary(max_size=300), PLACES, PLACES)
def test_what_is_sealed_opens_in_its_place_and_in_no_other(
    shared: KeyRing, plaintext: bytes, place: tuple[str, str, str, int], other: tuple[str, str, str, int]
) -> None:
    def opened(value: bytes, at: tuple[str, str, str, int]) -> bytes:
        return shared.unseal(value, at[1], user_id=at[0], row=at[2], version=at[3])

    value = shared.seal(plaintext, place[1], user_id=place[0], row=place[2], version=place[3])
    assert opened(value, place) == plaintext
    assert value != shared.seal(plaintext, place[1], user_id=place[0], row=place[2], version=place[3])
    assert len(plaintext) < 4 or value.find(plaintext) < 0
    if other != place:
        with pytest.raises(Unsealable):
            opened(value, other)


@given(st.integers(0, 16 + 33), st.integers(1, 255))
def test_what_was_changed_does_not_open(shared: KeyRing, at: int, difference: int) -> None:
    value = bytearray(sealed(shared, plaintext=b"0123456789abcdefg"))
    value[at] ^= difference
    with pytest.raises(Unsealable):
        unsealed(shared, bytes(value))


@given(st.binary(max_size=60))
def test_any_other_bytes_are_refused(shared: KeyRing, value: bytes) -> None:
    with pytest.raises(Unsealable):
        unsealed(shared, value)


async def test_keys_are_apart_from_the_data_and_wrapped(database: Database, tmp_path: Path) -> None:
    key = database.keys.ensure("ada")
    secret = key.secret()
    rows = database.keys.store.transact(tables.load).keys
    assert {row[0] for row in rows} == {"ada"}
    assert all(secret not in row[3] for row in rows)
    if database.kind == "sqlite":
        file = tmp_path / "keys.db"
        assert keys_file(tmp_path / "symbiont.db") == file
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        async with database.read() as connection:
            names = (await connection.exec_driver_sql("SELECT name FROM sqlite_master")).scalars().all()
        assert not {"keys", "removals", "facts"} & set(names)


async def test_a_key_that_another_process_made_is_found(database_url: str) -> None:
    one, other = await Database.open(database_url, KEY), await Database.open(database_url, KEY)
    try:
        values = [sealed(one.keys), sealed(other.keys)]
        assert values[0][:5] == values[1][:5]
        assert [unsealed(ring, value) for ring in (one.keys, other.keys) for value in values] == [b"plain"] * 4
        one.keys.rotate(["ada"], 1)
        value = sealed(one.keys)
        assert unsealed(other.keys, value) == b"plain"
    finally:
        await one.close()
        await other.close()


async def test_a_key_that_was_learned_seals_without_the_store(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = await Database.open(database_url, KEY), await Database.open(database_url, KEY)
    try:
        for user_id in ("ada", "a\0b"):
            value = sealed(one.keys, user_id)
            assert not other.keys.knows(user_id)
            await other.learn_keys(user_id)
            with monkeypatch.context() as without:
                without.setattr(other.keys, "store", None)
                await other.learn_keys(user_id)
                assert sealed(other.keys, user_id)[:5] == value[:5]
                assert unsealed(other.keys, value, user_id) == b"plain"
        await other.learn_keys("nobody")
        assert not other.keys.knows("nobody")
    finally:
        await one.close()
        await other.close()


async def test_a_forgotten_key_is_gone_in_every_process_and_on_disk(database_url: str, tmp_path: Path) -> None:
    one, other = await Database.open(database_url, KEY), await Database.open(database_url, KEY)
    try:
        value, wrapped = sealed(one.keys), one.keys.ensure("ada").wrapped
        assert unsealed(other.keys, value) == b"plain"
        one.keys.forget("ada", 1)
        assert other.keys.refresh()
        for ring in (one.keys, other.keys):
            with pytest.raises(Unsealable, match="does not exist"):
                unsealed(ring, value)
            with pytest.raises(KeyForgotten, match="the user was removed"):
                sealed(ring)
        assert not other.keys.refresh()
    finally:
        await one.close()
        await other.close()
    if one.kind == "sqlite":
        assert all(wrapped not in file.read_bytes() for file in tmp_path.glob("keys.db*"))
    again = await Database.open(database_url, KEY)
    with pytest.raises(Unsealable):
        unsealed(again.keys, value)
    with pytest.raises(KeyForgotten):
        sealed(again.keys)
    # Copies of the data and exports may still have the user.
    assert again.keys.store.transact(tables.load).removals == {"ada": None}
    await again.close()


@pytest.mark.parametrize("repeated", [True, False], ids=["repeated", "only opened"])
async def test_a_key_whose_removal_was_killed_is_overwritten_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repeated: bool
) -> None:
    class Killed(BaseException):
        pass

    def killed(_store: SqliteKeys) -> None:
        raise Killed

    database = await Database.open(tmp_path / "symbiont.db", KEY)
    sealed(database.keys)
    wrapped = database.keys.ensure("ada").wrapped
    database.keys.store.scrub()
    monkeypatch.setattr(SqliteKeys, "scrub", killed)
    with pytest.raises(Killed):
        database.keys.forget("ada", 1)
    monkeypatch.undo()
    assert any(wrapped in file.read_bytes() for file in tmp_path.glob("keys.db*")), "nothing is left to be overwritten"
    if repeated:
        database.keys.forget("ada", 1)
    else:
        # Another process, beside the one that was killed and closed nothing.
        await (await Database.open(tmp_path / "symbiont.db", KEY)).close()
    assert all(wrapped not in file.read_bytes() for file in tmp_path.glob("keys.db*"))
    await database.close()


def test_keys_that_everyone_needs_are_never_forgotten(shared: KeyRing) -> None:
    for holder in (OWNER, INDEXES, ""):
        with pytest.raises(UsageError, match="cannot be forgotten"):
            shared.forget(holder, 1)


async def test_another_master_key_opens_nothing_and_says_which_one_is_needed(database_url: str) -> None:
    await (await Database.open(database_url, KEY)).close()
    with pytest.raises(UsageError, match=f"sealed with master key {KEY.key_id.hex()}, not with {OTHER.key_id.hex()}"):
        await Database.open(database_url, OTHER)


async def test_a_rotated_master_key_wraps_all_keys_and_the_old_one_opens_nothing(database_url: str) -> None:
    database = await Database.open(database_url, KEY)
    values = {user: sealed(database.keys, user) for user in ("ada", "bob")}
    left_behind = await Database.open(database_url, KEY)
    assert database.keys.rewrap(OTHER, "secret://env/NEW") == 2
    assert {user: unsealed(database.keys, value, user) for user, value in values.items()} == dict.fromkeys(
        values, b"plain"
    )
    sealed(database.keys, "carol")
    await database.close()
    # A daemon with the old one goes on with what it has, and writes nothing that others cannot read.
    with pytest.raises(MasterKeyReplaced) as caught:
        sealed(left_behind.keys, "dave")
    assert "secret://env/NEW" in caught.value.line()
    with pytest.raises(MasterKeyReplaced):
        left_behind.keys.refresh()
    await left_behind.close()
    with pytest.raises(UsageError) as refused:
        await Database.open(database_url, KEY)
    assert "since a rotation it is read from secret://env/NEW" in refused.value.line()
    again = await Database.open(database_url, OTHER)
    assert unsealed(again.keys, values["ada"]) == b"plain"
    await again.close()


async def test_a_database_without_its_keys_is_refused_and_gets_no_new_ones(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "symbiont.db", KEY)
    await database.close()
    kept = (tmp_path / "keys.db").read_bytes()
    (tmp_path / "keys.db").unlink()
    with pytest.raises(UsageError, match="the keys of its users are missing"):
        await Database.open(tmp_path / "symbiont.db", KEY)
    other = await Database.open(tmp_path / "other.db", KEY)
    await other.close()
    (tmp_path / "other-keys.db").replace(tmp_path / "keys.db")
    with pytest.raises(UsageError, match="belong to another database"):
        await Database.open(tmp_path / "symbiont.db", KEY)
    (tmp_path / "keys.db").write_bytes(kept)
    await (await Database.open(tmp_path / "symbiont.db", KEY)).close()


@pytest.mark.parametrize(("name", "mode"), [("keys.db", 0o640), ("keys.db", 0o604), ("keys.db-wal", 0o644)])
async def test_keys_that_others_can_read_are_refused(tmp_path: Path, name: str, mode: int) -> None:
    database = await Database.open(tmp_path / "symbiont.db", KEY)
    sealed(database.keys)
    file = tmp_path / name
    file.chmod(mode)
    with pytest.raises(UsageError, match=f"{name} can be read by others \\(mode {mode:o}\\)") as refused:
        await Database.open(tmp_path / "symbiont.db", KEY)
    assert refused.value.hint == f"chmod 600 {file}"
    file.chmod(0o600)
    await (await Database.open(tmp_path / "symbiont.db", KEY)).close()
    await database.close()


@pytest.mark.parametrize("size", [8192, 100], ids=["cut off", "no database"])
async def test_a_damaged_file_of_keys_is_named_and_not_the_database(tmp_path: Path, size: int) -> None:
    database = await Database.open(tmp_path / "symbiont.db", KEY)
    sealed(database.keys)
    await database.close()
    file = tmp_path / "keys.db"
    file.write_bytes(file.read_bytes()[:size] if size > 100 else bytes(range(size)))
    with pytest.raises(UsageError, match=f"{file}: ") as refused:
        await Database.open(tmp_path / "symbiont.db", KEY)
    assert "symbi key import" in (refused.value.hint or "")


async def test_uses_are_counted_over_restarts_and_limited(database_url: str) -> None:
    database = await Database.open(database_url, KEY)
    for _ in range(3):
        sealed(database.keys)
    database.keys.record_uses()
    [key] = database.keys.current
    assert (key.uses, key.seals) == (3, 3 + BLOCK)
    # After a crash the uses that were recorded ahead count.
    crashed = await Database.open(database_url, KEY)
    assert [key.uses for key in crashed.keys.current] == [3 + BLOCK]
    await crashed.close()
    await database.close()
    again = await Database.open(database_url, KEY)
    [key] = again.keys.current
    assert key.uses == 3
    key.seals, key.left = BOUND, 0
    with pytest.raises(KeyExhausted, match="the most that is safe"):
        sealed(again.keys)
    again.keys.rotate(["ada"], 1)
    assert unsealed(again.keys, sealed(again.keys)) == b"plain"
    await again.close()


def test_only_so_many_keys_are_unwrapped_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "MOST_OPEN", 3)
    ring = made(tmp_path / "keys.db")
    values = {f"user {number}": sealed(ring, f"user {number}") for number in range(6)}
    assert len([key for key in ring.current if key.is_open]) == 3
    assert {user: unsealed(ring, value, user) for user, value in values.items()} == dict.fromkeys(values, b"plain")
    assert sum(key.uses for key in ring.current) == 6
    ring.close()


def test_a_key_is_not_in_its_repr(shared: KeyRing) -> None:
    key: Any = shared.ensure("ada")
    assert isinstance(key, Key)
    assert key.secret().hex() not in f"{key!r} {shared!r}"


async def test_a_daemon_without_the_new_master_key_goes_on_with_the_keys_that_it_has(database_url: str) -> None:
    database, other = await Database.open(database_url, KEY), await Database.open(database_url, KEY)
    try:
        values = {user: sealed(database.keys, user) for user in ("ada", "bob")}
        other.keys.load()
        assert unsealed(other.keys, values["ada"]) == b"plain"
        database.keys.rewrap(OTHER, "secret://env/NEW")
        with pytest.raises(MasterKeyReplaced):
            other.keys.refresh()
        # Also with a key that it has not unwrapped yet.
        for user, value in values.items():
            assert unsealed(other.keys, value, user) == b"plain"
            assert unsealed(database.keys, sealed(other.keys, user), user) == b"plain"
        other.keys.use(OTHER)
        assert {unsealed(other.keys, value, user) for user, value in values.items()} == {b"plain"}
        assert unsealed(database.keys, sealed(other.keys, "carol"), "carol") == b"plain"
    finally:
        await database.close()
        await other.close()


async def test_a_removed_user_gets_no_key_from_a_rotation_by_another_process(database_url: str) -> None:
    one, other = await Database.open(database_url, KEY), await Database.open(database_url, KEY)
    try:
        for user in ("ada", "bob"):
            assert unsealed(other.keys, sealed(one.keys, user), user) == b"plain"
        one.keys.forget("ada", 1)
        other.keys.rotate(["ada", "bob"], 2)
        assert [key.holder for key in other.keys.current] == ["bob"]
        with pytest.raises(KeyForgotten):
            sealed(other.keys, "ada")
        assert other.keys.ensure("bob").generation == 2
    finally:
        await one.close()
        await other.close()


async def test_every_process_knows_how_often_all_of_them_used_a_key(database_url: str) -> None:
    one, other = await Database.open(database_url, KEY), await Database.open(database_url, KEY)
    try:
        assert unsealed(other.keys, sealed(one.keys)) == b"plain"
        one.keys.record_uses()
        sealed(other.keys)
        other.keys.record_uses()
        assert other.keys.ensure("ada").uses == BLOCK + 2
    finally:
        await one.close()
        await other.close()


def test_keys_are_never_missing_while_they_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = made(tmp_path / "keys.db")
    values = {user: sealed(ring, user) for user in ("ada", "bob", "carol")}
    ring.rotate(values, 1)
    stored = ring.store.transact(tables.load)
    looks = 0

    def rows() -> Iterator[tuple[Any, ...]]:
        nonlocal looks
        for row in stored.keys:
            yield row
            # Another thread seals again what is not sealed with a current key.
            assert not any(ring.is_current(user, value[:5]) for user, value in values.items())
            looks += 1

    given: Any = rows()
    monkeypatch.setattr(tables, "load", lambda connection: stored._replace(keys=given))
    ring.load()
    assert looks == 6
    ring.close()
